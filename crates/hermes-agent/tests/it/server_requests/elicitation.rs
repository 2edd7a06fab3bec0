//! Elicitation and roots, over real transports in both eras.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::BoxFuture;
use hermes_agent::server_requests::{
    AgentRequestHandler,
    elicitation::{
        ElicitationAnswer, ElicitationModes, ElicitationRegistration, ElicitationRegistry,
        ElicitationUi, ElicitationUnavailable, FormRequest, LinkRequest,
    },
};
use hermes_mcp::server_request::ConversationId;
use hermes_testkit::{Behaviour, Era};
use serde_json::{Map, Value, json};
use tokio::sync::Barrier;

use crate::mcp_host::{
    ConfiguredHome, Peer, RunningHost, WIRES_AND_ERAS, Wire, eventually, reported_answer,
};

/// Gives a fixed answer, and records the requests.
struct ScriptedUi {
    answer: Result<ElicitationAnswer<Value>, ElicitationUnavailable>,
    /// Waits for so many others before it answers.
    others: Option<Arc<Barrier>>,
    asked: Mutex<Vec<(String, String)>>,
    busy: Mutex<bool>,
}

impl ScriptedUi {
    fn new(answer: Result<ElicitationAnswer<Value>, ElicitationUnavailable>) -> Arc<Self> {
        Arc::new(Self {
            answer,
            others: None,
            asked: Mutex::default(),
            busy: Mutex::default(),
        })
    }

    fn filling(content: Value) -> Arc<Self> {
        Self::new(Ok(ElicitationAnswer::Accepted(content)))
    }

    /// Server and message, or address, of every question.
    fn asked(&self) -> Vec<(String, String)> {
        self.asked.lock().unwrap().clone()
    }

    async fn answer(
        &self,
        server: String,
        what: String,
    ) -> Result<ElicitationAnswer<Value>, ElicitationUnavailable> {
        self.asked.lock().unwrap().push((server, what));
        let was_busy = std::mem::replace(&mut *self.busy.lock().unwrap(), true);
        assert!(!was_busy, "two questions at once");
        match &self.others {
            Some(others) => {
                others.wait().await;
            }
            None => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        *self.busy.lock().unwrap() = false;
        self.answer.clone()
    }
}

impl ElicitationUi for ScriptedUi {
    fn fill_form(
        &self,
        request: FormRequest,
    ) -> BoxFuture<'_, Result<ElicitationAnswer<Map<String, Value>>, ElicitationUnavailable>> {
        Box::pin(async move {
            let answer = self
                .answer(request.server.to_string(), request.message)
                .await?;
            Ok(match answer {
                ElicitationAnswer::Accepted(Value::Object(content)) => {
                    ElicitationAnswer::Accepted(content)
                }
                ElicitationAnswer::Accepted(other) => panic!("no object: {other}"),
                ElicitationAnswer::Declined => ElicitationAnswer::Declined,
                ElicitationAnswer::Cancelled => ElicitationAnswer::Cancelled,
            })
        })
    }

    fn confirm_link(
        &self,
        request: LinkRequest,
    ) -> BoxFuture<'_, Result<ElicitationAnswer<()>, ElicitationUnavailable>> {
        Box::pin(async move {
            let what = format!("{} at {}", request.url, request.host);
            let answer = self.answer(request.server.to_string(), what).await?;
            Ok(match answer {
                ElicitationAnswer::Accepted(_) => ElicitationAnswer::Accepted(()),
                ElicitationAnswer::Declined => ElicitationAnswer::Declined,
                ElicitationAnswer::Cancelled => ElicitationAnswer::Cancelled,
            })
        })
    }
}

/// A host with this elicitation registry.
async fn start_host(peer: &Peer, keys: &Value, people: &Arc<ElicitationRegistry>) -> RunningHost {
    let config = json!({ "mcp_servers": { "s": peer.entry(keys) } });
    let inquiries = AgentRequestHandler::new(people.clone());
    ConfiguredHome::new(&config)
        .start_host(Arc::new(inquiries))
        .await
}

/// One person in a conversation `here`.
fn register_ui(person: &Arc<ScriptedUi>) -> (Arc<ElicitationRegistry>, ElicitationRegistration) {
    let people = ElicitationRegistry::new(ElicitationModes::ALL);
    let presence = people.register(ConversationId("here".into()), person.clone());
    (people, presence)
}

async fn call_tool(setup: &RunningHost, tool: &str) -> Value {
    reported_answer(&setup.call_in(Some("here"), tool, json!({})).await)
}

#[tokio::test]
async fn a_form_is_filled_in_by_the_person_of_the_conversation() {
    for (wire, era) in WIRES_AND_ERAS {
        let person = ScriptedUi::filling(json!({ "name": "Ada", "unasked": 1 }));
        let (people, _presence) = register_ui(&person);
        let peer = Peer::new(wire, Behaviour::new().era(era));
        let setup = start_host(&peer, &json!({}), &people).await;
        assert_eq!(
            setup.client_capabilities().await["elicitation"],
            json!({ "form": {}, "url": {} })
        );
        let expected = json!({ "action": "accept", "content": { "name": "Ada" } });
        assert_eq!(
            call_tool(&setup, "elicit").await,
            expected,
            "{wire:?}, {era:?}"
        );
        assert_eq!(person.asked(), [("s".into(), "What is your name?".into())]);
        let counts = setup.status("s").elicitation;
        assert_eq!((counts.requests, counts.accepted, counts.errors), (1, 1, 0));
    }
}

#[tokio::test]
async fn a_link_is_shown_with_its_host_and_agreed_to_without_content() {
    for (wire, era) in WIRES_AND_ERAS {
        let person = ScriptedUi::filling(json!({}));
        let (people, _presence) = register_ui(&person);
        let peer = Peer::new(wire, Behaviour::new().era(era));
        let setup = start_host(&peer, &json!({}), &people).await;
        assert_eq!(
            call_tool(&setup, "elicit_url").await,
            json!({ "action": "accept" })
        );
        let shown = "https://login.example.com/start at login.example.com";
        assert_eq!(
            person.asked(),
            [("s".into(), shown.into())],
            "{wire:?}, {era:?}"
        );
    }
}

#[tokio::test]
async fn an_address_that_is_not_a_page_is_declined_unseen() {
    let person = ScriptedUi::filling(json!({}));
    let (people, _presence) = register_ui(&person);
    let peer = Peer::new(Wire::Stdio, Behaviour::new());
    let setup = start_host(&peer, &json!({}), &people).await;
    for url in ["file:///etc/passwd", "javascript:alert(1)", "no address"] {
        let params = json!({ "mode": "url", "message": "Go.", "url": url, "elicitationId": "1" });
        let told = setup
            .call_in(Some("here"), "elicit_url", json!({ "params": params }))
            .await;
        assert_eq!(
            reported_answer(&told),
            json!({ "action": "decline" }),
            "{url}"
        );
    }
    assert!(person.asked().is_empty());
    assert_eq!(setup.status("s").elicitation.errors, 3);
}

#[tokio::test]
async fn refusals_dismissals_and_failures_are_told_apart() {
    for era in [Era::Legacy, Era::Stateless] {
        let peer = Peer::new(Wire::Http, Behaviour::new().era(era));
        let people = ElicitationRegistry::new(ElicitationModes::ALL);
        let setup = start_host(&peer, &json!({}), &people).await;
        let cases = [
            (Ok(ElicitationAnswer::Declined), "decline"),
            (Ok(ElicitationAnswer::Cancelled), "cancel"),
            (
                Err(ElicitationUnavailable("the terminal is gone".into())),
                "decline",
            ),
            // A required field is missing.
            (Ok(ElicitationAnswer::Accepted(json!({}))), "decline"),
        ];
        for (said, action) in cases {
            let person = ScriptedUi::new(said);
            let _presence = people.register(ConversationId("here".into()), person);
            assert_eq!(
                call_tool(&setup, "elicit").await,
                json!({ "action": action }),
                "{era:?}"
            );
        }
        // Nobody is there.
        assert_eq!(
            call_tool(&setup, "elicit").await,
            json!({ "action": "decline" })
        );
        let counts = setup.status("s").elicitation;
        let counted = (
            counts.requests,
            counts.accepted,
            counts.declined,
            counts.cancelled,
            counts.errors,
        );
        assert_eq!(counted, (5, 0, 2, 1, 2), "{era:?}");
    }
}

#[tokio::test]
async fn a_person_who_takes_too_long_has_cancelled() {
    let mut person = ScriptedUi::filling(json!({ "name": "Ada" }));
    // Two are waited for, one comes.
    Arc::get_mut(&mut person).unwrap().others = Some(Arc::new(Barrier::new(2)));
    let (people, _presence) = register_ui(&person);
    let peer = Peer::new(Wire::Stdio, Behaviour::new());
    let setup = start_host(&peer, &json!({ "elicitation": { "timeout": 1 } }), &people).await;
    assert_eq!(
        call_tool(&setup, "elicit").await,
        json!({ "action": "cancel" })
    );
}

#[tokio::test]
async fn parallel_calls_ask_in_their_own_conversations() {
    for (wire, era) in [
        (Wire::Stdio, Era::Stateless),
        (Wire::Http, Era::Legacy),
        (Wire::Http, Era::Stateless),
    ] {
        let people = ElicitationRegistry::new(ElicitationModes::ALL);
        let peer = Peer::new(wire, Behaviour::new().era(era));
        let keys = json!({ "supports_parallel_tool_calls": true });
        let setup = start_host(&peer, &keys, &people).await;
        // Both questions have to be there before the first is answered.
        let both = Arc::new(Barrier::new(2));
        let join = |name: &str| {
            let mut person = ScriptedUi::filling(json!({ "name": name }));
            Arc::get_mut(&mut person).unwrap().others = Some(both.clone());
            people.register(ConversationId(name.into()), person)
        };
        let _present = (join("ada"), join("bob"));
        let (ada, bob) = tokio::join!(
            setup.call_in(Some("ada"), "elicit", json!({})),
            setup.call_in(Some("bob"), "elicit", json!({})),
        );
        assert_eq!(
            reported_answer(&ada)["content"]["name"],
            "ada",
            "{wire:?}, {era:?}"
        );
        assert_eq!(
            reported_answer(&bob)["content"]["name"],
            "bob",
            "{wire:?}, {era:?}"
        );
    }
}

#[tokio::test]
async fn one_person_is_asked_one_thing_at_a_time() {
    let person = ScriptedUi::filling(json!({ "name": "Ada" }));
    let (people, _presence) = register_ui(&person);
    let peer = Peer::new(Wire::Http, Behaviour::new().era(Era::Stateless));
    let keys = json!({ "supports_parallel_tool_calls": true });
    let setup = start_host(&peer, &keys, &people).await;
    let three = futures::future::join_all((0..3).map(|_| call_tool(&setup, "elicit"))).await;
    assert!(
        three.iter().all(|told| told["action"] == "accept"),
        "{three:?}"
    );
    assert_eq!(person.asked().len(), 3);
}

#[tokio::test]
async fn where_it_is_switched_off_or_nobody_can_come_nothing_is_declared() {
    let person = ScriptedUi::filling(json!({ "name": "Ada" }));
    let (people, _presence) = register_ui(&person);
    for (keys, people) in [
        (json!({ "elicitation": { "enabled": false } }), people),
        (json!({}), ElicitationRegistry::unavailable()),
    ] {
        let behaviour = Behaviour::new().calls(|calls| calls.ask_undeclared = true);
        let peer = Peer::new(Wire::Stdio, behaviour);
        let setup = start_host(&peer, &keys, &people).await;
        assert_eq!(setup.client_capabilities().await, json!({}));
        assert_eq!(
            call_tool(&setup, "elicit").await,
            json!({ "action": "decline" })
        );
    }
    assert!(person.asked().is_empty());
}

#[tokio::test]
async fn the_working_directory_is_the_root_and_a_change_is_told() {
    for era in [Era::Legacy, Era::Stateless] {
        let directory = tempfile::tempdir().unwrap();
        let record = directory.path().join("record.jsonl");
        let peer = Peer::new(Wire::Stdio, Behaviour::new().era(era).record(&record));
        let config = json!({ "mcp_servers": { "s": peer.entry(&json!({})) } });
        let inquiries = AgentRequestHandler::new(ElicitationRegistry::unavailable())
            .with_directory("/srv/one".into());
        let inquiries = Arc::new(inquiries);
        let setup = ConfiguredHome::new(&config)
            .start_host(inquiries.clone())
            .await;
        let roots = |path: &str, name: &str| json!({ "roots": [{ "uri": format!("file://{path}"), "name": name }] });
        assert_eq!(
            call_tool(&setup, "roots").await,
            roots("/srv/one", "one"),
            "{era:?}"
        );
        inquiries
            .change_directory("/srv/one".into(), &setup.host)
            .await;
        inquiries
            .change_directory("/srv/two".into(), &setup.host)
            .await;
        assert_eq!(
            call_tool(&setup, "roots").await,
            roots("/srv/two", "two"),
            "{era:?}"
        );
        let told = || peer.received("notifications/roots/list_changed").len();
        // The stateless era has no such notification: servers ask when they need to know.
        let expected = usize::from(era == Era::Legacy);
        eventually("the server is told", || told() == expected).await;
    }
}

#[tokio::test]
async fn configured_roots_are_told_without_any_working_directory() {
    let peer = Peer::new(Wire::Stdio, Behaviour::new());
    let keys = json!({ "roots": ["/srv/a", "file:///srv/b"] });
    let setup = start_host(&peer, &keys, &ElicitationRegistry::unavailable()).await;
    let expected =
        json!({ "roots": [{ "uri": "file:///srv/a", "name": "a" }, { "uri": "file:///srv/b" }] });
    assert_eq!(call_tool(&setup, "roots").await, expected);
}
