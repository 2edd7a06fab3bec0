//! Conversations as a whole: a scripted model, a real store, real tools.

mod changed_elsewhere;
mod compaction;
mod recorder;
mod resume;
#[cfg(unix)]
mod servers;
mod steering;
mod title;
mod tool_selection;

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use hermes_agent::{
    approval::{ApprovalRequest, Approver, Decision, DenyAllApprover},
    conversation::{
        Agent, AgentParts, Consent, Conversation, ConversationError, ConversationSetup,
        TitleSource, TurnOutcome,
    },
    turn::TurnEvent,
};
use hermes_config::{Home, Settings, Variables};
use hermes_store::{Access, SessionId, Store, StoredMessage};
use hermes_testkit::{
    TemporaryHome,
    model::{ModelScript, ModelServer},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A home with a model, and the agent in it.
struct ConversationFixture {
    home: TemporaryHome,
    server: ModelServer,
    agent: Agent,
}

impl ConversationFixture {
    async fn new(script: ModelScript) -> Self {
        Self::with_config(script, "").await
    }

    /// With additional configuration.
    async fn with_config(script: ModelScript, config: &str) -> Self {
        let server = ModelServer::start(script);
        let home = TemporaryHome::with_config(&format!(
            "model: {{default: scripted, base_url: '{}', api_key: key-main}}\n{config}",
            server.base_url()
        ));
        let agent = agent(&home).await;
        Self {
            home,
            server,
            agent,
        }
    }

    fn home(&self) -> Home {
        Home::at(self.home.path())
    }

    fn setup(&self) -> ConversationSetup {
        let work = self.home.path().join("work");
        std::fs::create_dir_all(&work).unwrap();
        ConversationSetup {
            titles: TitleSource::Manual,
            ..ConversationSetup::for_cli(work, Consent::Ask(Arc::new(DenyAllApprover)))
        }
    }

    fn begin(&self) -> Conversation {
        Conversation::new_cli(self.agent.clone(), self.setup())
    }

    /// The messages of the requests so far, without system prompts.
    fn asked(&self) -> Vec<Vec<Value>> {
        let requests = self.server.requests();
        let said = |body: &Value| {
            let messages = body["messages"].as_array().unwrap().iter();
            messages
                .filter(|message| message["role"] != "system")
                .cloned()
                .collect()
        };
        requests.iter().map(|request| said(&request.body)).collect()
    }

    /// The system prompt of each request.
    fn prompts(&self) -> Vec<String> {
        let requests = self.server.requests();
        let prompt = |body: &Value| body["messages"][0]["content"].as_str().unwrap().to_owned();
        requests
            .iter()
            .map(|request| prompt(&request.body))
            .collect()
    }

    async fn rows(&self, id: &SessionId) -> Vec<StoredMessage> {
        self.agent.store().active_messages(id).await.unwrap()
    }

    /// Roles and texts of the stored messages.
    async fn texts(&self, id: &SessionId) -> Vec<(String, String)> {
        let rows = self.rows(id).await;
        let text = |row: &StoredMessage| {
            let content = row.body.content.as_ref();
            content.map_or_else(String::new, |content| content.text().into_owned())
        };
        rows.iter()
            .map(|row| (row.body.role.as_str().to_owned(), text(row)))
            .collect()
    }
}

async fn agent(home: &TemporaryHome) -> Agent {
    let home = Home::at(home.path());
    let settings = settings(&home);
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    Agent::new(AgentParts::new(home, store), settings)
}

fn settings(home: &Home) -> Settings {
    Settings::load_with(home, Variables::default(), Vec::new()).unwrap()
}

async fn send(
    conversation: &mut Conversation,
    text: &str,
) -> Result<TurnOutcome, ConversationError> {
    let mut nobody = |_: TurnEvent| {};
    conversation
        .send_user_message(text, &mut nobody, CancellationToken::new())
        .await
}

fn pairs(texts: &[(String, String)]) -> Vec<(&str, &str)> {
    texts
        .iter()
        .map(|(role, text)| (role.as_str(), text.as_str()))
        .collect()
}

/// Always gives the same decision, and records the requests.
struct FixedApprover {
    decision: Decision,
    asked: Mutex<Vec<ApprovalRequest>>,
}

impl FixedApprover {
    fn new(decision: Decision) -> Arc<Self> {
        Arc::new(Self {
            decision,
            asked: Mutex::default(),
        })
    }
}

impl Approver for FixedApprover {
    fn request_approval(&self, request: ApprovalRequest) -> BoxFuture<'_, Decision> {
        self.asked.lock().unwrap().push(request);
        Box::pin(std::future::ready(self.decision.clone()))
    }
}
