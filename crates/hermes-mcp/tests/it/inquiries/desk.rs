//! Whoever is asked: keeps every question, and answers as a test wants it.

#![expect(
    deprecated,
    reason = "sampling and roots are still spoken by servers of every older revision"
)]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::BoxFuture;
use hermes_config::Server;
use hermes_mcp::{
    Inquiries,
    inquiry::{Asker, ElicitationFailed, Offers, Sampled, SamplingOffer, SamplingRefused},
    protocol::{
        CreateMessageRequestParams, ElicitRequestParams, ElicitResult, ElicitationAction, Root,
    },
};
use hermes_testkit::{Behaviour, TemporaryHome};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::setup::{Peer, Setup, Wire, with};

/// What one answer of the model costs.
pub(crate) const TOKENS: u64 = 7;

/// Answers every question of every server.
pub(crate) struct Desk {
    pub(crate) model: Model,
    pub(crate) person: Person,
    pub(crate) roots: Vec<Root>,
    questions: Mutex<Vec<Question>>,
}

/// How sampling requests fare.
pub(crate) enum Model {
    /// Answered with a text that repeats the prompt.
    Repeats,
    /// Answered with the wish to use a tool.
    WantsTool,
    /// Refused for this reason.
    Refuses(&'static str),
}

/// How a person treats a form or a link.
pub(crate) enum Person {
    /// Signs every form with the name of the conversation, and agrees to every link.
    Signs,
    /// Signs after a while.
    SignsAfter(Duration),
    /// Signs once so many questions lie on the desk.
    SignsTogether(Barrier),
    Declines,
    /// Can not be asked.
    IsAway,
    NeverAnswers,
}

/// A question and where it came from.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) asker: Asker,
    pub(crate) content: Value,
}

impl Question {
    pub(crate) fn conversation(&self) -> Option<&str> {
        self.asker.conversation.as_ref().map(|name| &*name.0)
    }
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self {
            model: Model::Repeats,
            person: Person::Signs,
            roots: vec![
                Root::new("file:///srv/project").with_name("project"),
                Root::new("file:///tmp"),
            ],
            questions: Mutex::default(),
        }
    }

    pub(crate) fn with_model(model: Model) -> Self {
        Self {
            model,
            ..Self::new()
        }
    }

    pub(crate) fn with_person(person: Person) -> Self {
        Self {
            person,
            ..Self::new()
        }
    }

    pub(crate) fn questions(&self) -> Vec<Question> {
        self.questions.lock().unwrap().clone()
    }

    fn note(&self, asker: Asker, question: &impl serde::Serialize) {
        let content = serde_json::to_value(question).unwrap();
        let question = Question { asker, content };
        self.questions.lock().unwrap().push(question);
    }
}

impl Inquiries for Desk {
    fn offers(&self, _server: &Server) -> Offers {
        Offers {
            sampling: Some(SamplingOffer::WithTools),
            forms: true,
            urls: true,
            roots: true,
        }
    }

    fn sample(
        &self,
        asker: Asker,
        request: CreateMessageRequestParams,
    ) -> BoxFuture<'_, Result<Sampled, SamplingRefused>> {
        self.note(asker, &request);
        let prompt = json!(request)["messages"][0]["content"]["text"].clone();
        let answer = match &self.model {
            Model::Refuses(reason) => Err(SamplingRefused {
                reason: "refused",
                message: (*reason).into(),
            }),
            Model::Repeats => Ok(json!({
                "role": "assistant",
                "content": { "type": "text", "text": format!("You said: {}", prompt.as_str().unwrap()) },
                "model": "parrot-1",
                "stopReason": "endTurn",
            })),
            Model::WantsTool => Ok(json!({
                "role": "assistant",
                "content": [{ "type": "tool_use", "id": "t1", "name": "look", "input": { "at": "sky" } }],
                "model": "parrot-1",
                "stopReason": "toolUse",
            })),
        };
        let answer = answer.map(|message| Sampled {
            message: serde_json::from_value(message).unwrap(),
            tokens: TOKENS,
        });
        Box::pin(std::future::ready(answer))
    }

    fn elicit(
        &self,
        asker: Asker,
        request: ElicitRequestParams,
    ) -> BoxFuture<'_, Result<ElicitResult, ElicitationFailed>> {
        self.note(asker.clone(), &request);
        Box::pin(async move {
            match &self.person {
                Person::Signs => {}
                Person::SignsAfter(time) => tokio::time::sleep(*time).await,
                Person::SignsTogether(others) => {
                    others.wait().await;
                }
                Person::Declines => return Ok(ElicitResult::new(ElicitationAction::Decline)),
                Person::IsAway => return Err(ElicitationFailed("nobody is there".into())),
                Person::NeverAnswers => std::future::pending().await,
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

    fn roots(&self, asker: Asker) -> BoxFuture<'_, Vec<Root>> {
        self.note(asker, &json!("roots"));
        Box::pin(std::future::ready(self.roots.clone()))
    }
}

/// A host with one server `s`, whose questions come to this desk.
pub(crate) async fn start(
    wire: Wire,
    behaviour: Behaviour,
    desk: &Arc<Desk>,
    keys: Value,
) -> (Setup, Peer) {
    let home = TemporaryHome::new();
    let peer = Peer::new(wire, behaviour, home.path());
    let entry = with(peer.entry.clone(), keys);
    let setup = Setup::answering(home, json!({ "s": entry }), desk.clone()).await;
    setup.assert_ready("s");
    (setup, peer)
}

/// What a tool that asks says it was answered.
pub(crate) fn answer(told: &Value) -> Value {
    let text = told["result"].as_str();
    let text = text.unwrap_or_else(|| panic!("{told}"));
    serde_json::from_str(text).unwrap()
}
