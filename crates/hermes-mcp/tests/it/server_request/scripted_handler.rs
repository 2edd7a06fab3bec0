//! Whoever is asked: keeps every question, and answers as a test wants it.

#![expect(
    deprecated,
    reason = "sampling and roots are still spoken by servers of every older revision"
)]

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use hermes_config::Server;
use hermes_mcp::{
    ServerRequestHandler,
    protocol::{
        CreateMessageRequestParams, ElicitRequestParams, ElicitResult, ElicitationAction, Root,
    },
    server_request::{
        ElicitationError, OfferedCapabilities, RequestOrigin, SamplingError, SamplingReply,
        SamplingSupport,
    },
};
use hermes_testkit::{Behaviour, TemporaryHome};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

use crate::setup::{RecordedServer, Setup, TransportKind, with};

/// What one answer of the model costs.
pub(crate) const TOKENS: u64 = 7;

/// Answers every question of every server.
pub(crate) struct ScriptedHandler {
    pub(crate) model: ModelScript,
    pub(crate) person: UserScript,
    pub(crate) roots: Vec<Root>,
    questions: Mutex<Vec<ReceivedRequest>>,
}

/// How sampling requests fare.
pub(crate) enum ModelScript {
    /// Answered with a text that repeats the prompt.
    Repeats,
    /// Answered with the wish to use a tool.
    WantsTool,
    /// Refused for this reason.
    Refuses(&'static str),
}

/// How a person treats a form or a link.
pub(crate) enum UserScript {
    /// Signs every form with the name of the conversation, and agrees to every link.
    Signs,
    /// Signs when the test says so.
    SignsWhenTold(Arc<Notify>),
    /// Signs once so many questions lie on the desk.
    SignsTogether(Barrier),
    Declines,
    /// Can not be asked.
    IsAway,
    NeverAnswers,
}

/// A question and where it came from.
#[derive(Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) origin: RequestOrigin,
    pub(crate) content: Value,
}

impl ReceivedRequest {
    pub(crate) fn conversation(&self) -> Option<&str> {
        self.origin.conversation.as_ref().map(|name| &*name.0)
    }
}

impl ScriptedHandler {
    pub(crate) fn new() -> Self {
        Self {
            model: ModelScript::Repeats,
            person: UserScript::Signs,
            roots: vec![
                Root::new("file:///srv/project").with_name("project"),
                Root::new("file:///tmp"),
            ],
            questions: Mutex::default(),
        }
    }

    pub(crate) fn with_model(model: ModelScript) -> Self {
        Self {
            model,
            ..Self::new()
        }
    }

    pub(crate) fn with_person(person: UserScript) -> Self {
        Self {
            person,
            ..Self::new()
        }
    }

    pub(crate) fn questions(&self) -> Vec<ReceivedRequest> {
        self.questions.lock().unwrap().clone()
    }

    fn note(&self, asker: RequestOrigin, question: &impl serde::Serialize) {
        let content = serde_json::to_value(question).unwrap();
        let question = ReceivedRequest {
            origin: asker,
            content,
        };
        self.questions.lock().unwrap().push(question);
    }
}

impl ServerRequestHandler for ScriptedHandler {
    fn offered_capabilities(&self, _server: &Server) -> OfferedCapabilities {
        OfferedCapabilities {
            sampling: Some(SamplingSupport::WithTools),
            forms: true,
            urls: true,
            roots: true,
        }
    }

    fn sample(
        &self,
        asker: RequestOrigin,
        request: CreateMessageRequestParams,
    ) -> BoxFuture<'_, Result<SamplingReply, SamplingError>> {
        self.note(asker, &request);
        let prompt = json!(request)["messages"][0]["content"]["text"].clone();
        let answer = match &self.model {
            ModelScript::Refuses(reason) => Err(SamplingError {
                reason: "refused",
                message: (*reason).into(),
            }),
            ModelScript::Repeats => Ok(json!({
                "role": "assistant",
                "content": { "type": "text", "text": format!("You said: {}", prompt.as_str().unwrap()) },
                "model": "parrot-1",
                "stopReason": "endTurn",
            })),
            ModelScript::WantsTool => Ok(json!({
                "role": "assistant",
                "content": [{ "type": "tool_use", "id": "t1", "name": "look", "input": { "at": "sky" } }],
                "model": "parrot-1",
                "stopReason": "toolUse",
            })),
        };
        let answer = answer.map(|message| SamplingReply {
            message: serde_json::from_value(message).unwrap(),
            tokens: TOKENS,
        });
        Box::pin(std::future::ready(answer))
    }

    fn elicit(
        &self,
        asker: RequestOrigin,
        request: ElicitRequestParams,
    ) -> BoxFuture<'_, Result<ElicitResult, ElicitationError>> {
        self.note(asker.clone(), &request);
        Box::pin(async move {
            match &self.person {
                UserScript::Signs => {}
                UserScript::SignsWhenTold(told) => told.notified().await,
                UserScript::SignsTogether(others) => {
                    others.wait().await;
                }
                UserScript::Declines => return Ok(ElicitResult::new(ElicitationAction::Decline)),
                UserScript::IsAway => return Err(ElicitationError("nobody is there".into())),
                UserScript::NeverAnswers => std::future::pending().await,
            }
            let accepted = ElicitResult::new(ElicitationAction::Accept);
            let conversation = asker.conversation.map(|name| name.0);
            Ok(match request {
                ElicitRequestParams::FormElicitationParams { .. } => {
                    let name = conversation.as_deref().unwrap_or("nobody");
                    accepted.with_content(json!({ "name": name }))
                }
                _ => accepted,
            })
        })
    }

    fn roots(&self, asker: RequestOrigin) -> BoxFuture<'_, Vec<Root>> {
        self.note(asker, &json!("roots"));
        Box::pin(std::future::ready(self.roots.clone()))
    }
}

/// A host with one server `s`, whose questions come to this desk.
pub(crate) async fn start(
    wire: TransportKind,
    behaviour: Behaviour,
    desk: &Arc<ScriptedHandler>,
    keys: Value,
) -> (Setup, RecordedServer) {
    let home = TemporaryHome::new();
    let peer = RecordedServer::new(wire, behaviour, home.path());
    let entry = with(peer.entry.clone(), keys);
    let setup = Setup::with_handler(home, json!({ "s": entry }), desk.clone()).await;
    setup.assert_ready("s");
    (setup, peer)
}

/// What a tool that asks says it was answered.
pub(crate) fn answer(told: &Value) -> Value {
    let text = told["result"].as_str();
    let text = text.unwrap_or_else(|| panic!("{told}"));
    serde_json::from_str(text).unwrap()
}
