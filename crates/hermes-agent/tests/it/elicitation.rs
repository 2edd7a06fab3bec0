//! Elicitation and roots, over real transports in both eras.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::BoxFuture;
use hermes_agent::{
    elicitation::{Answer, FormRequest, LinkRequest, NotAsked, People, Person, Presence, Ways},
    inquiries::AgentInquiries,
};
use hermes_mcp::inquiry::Conversation;
use hermes_testkit::{Behaviour, Era};
use serde_json::{Map, Value, json};
use tokio::sync::Barrier;

use crate::mcp::{EVERY_WAY, Peer, Place, Setup, Wire, answer, eventually};

/// Gives a fixed answer, and records the requests.
struct Scripted {
    answer: Result<Answer<Value>, NotAsked>,
    /// Waits for so many others before it answers.
    others: Option<Arc<Barrier>>,
    asked: Mutex<Vec<(String, String)>>,
    busy: Mutex<bool>,
}

impl Scripted {
    fn new(answer: Result<Answer<Value>, NotAsked>) -> Arc<Self> {
        Arc::new(Self {
            answer,
            others: None,
            asked: Mutex::default(),
            busy: Mutex::default(),
        })
    }

    fn fills_in(content: Value) -> Arc<Self> {
        Self::new(Ok(Answer::Accepted(content)))
    }

    /// Server and message, or address, of every question.
    fn asked(&self) -> Vec<(String, String)> {
        self.asked.lock().unwrap().clone()
    }

    async fn answer(&self, server: String, what: String) -> Result<Answer<Value>, NotAsked> {
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

impl Person for Scripted {
    fn fill_in(
        &self,
        request: FormRequest,
    ) -> BoxFuture<'_, Result<Answer<Map<String, Value>>, NotAsked>> {
        Box::pin(async move {
            let answer = self
                .answer(request.server.to_string(), request.message)
                .await?;
            Ok(match answer {
                Answer::Accepted(Value::Object(content)) => Answer::Accepted(content),
                Answer::Accepted(other) => panic!("no object: {other}"),
                Answer::Declined => Answer::Declined,
                Answer::Cancelled => Answer::Cancelled,
            })
        })
    }

    fn visit(&self, request: LinkRequest) -> BoxFuture<'_, Result<Answer<()>, NotAsked>> {
        Box::pin(async move {
            let what = format!("{} at {}", request.url, request.host);
            let answer = self.answer(request.server.to_string(), what).await?;
            Ok(match answer {
                Answer::Accepted(_) => Answer::Accepted(()),
                Answer::Declined => Answer::Declined,
                Answer::Cancelled => Answer::Cancelled,
            })
        })
    }
}

/// A host with this elicitation registry.
async fn start(peer: &Peer, keys: &Value, people: &Arc<People>) -> Setup {
    let config = json!({ "mcp_servers": { "s": peer.entry(keys) } });
    let inquiries = AgentInquiries::new(people.clone());
    Place::new(&config).host(Arc::new(inquiries)).await
}

/// One person in a conversation `here`.
fn with(person: &Arc<Scripted>) -> (Arc<People>, Presence) {
    let people = People::new(Ways::ALL);
    let presence = people.join(Conversation("here".into()), person.clone());
    (people, presence)
}

async fn ask(setup: &Setup, tool: &str) -> Value {
    answer(&setup.call_in(Some("here"), tool, json!({})).await)
}

#[tokio::test]
async fn a_form_is_filled_in_by_the_person_of_the_conversation() {
    for (wire, era) in EVERY_WAY {
        let person = Scripted::fills_in(json!({ "name": "Ada", "unasked": 1 }));
        let (people, _presence) = with(&person);
        let peer = Peer::new(wire, Behaviour::new().era(era));
        let setup = start(&peer, &json!({}), &people).await;
        assert_eq!(
            setup.declared().await["elicitation"],
            json!({ "form": {}, "url": {} })
        );
        let expected = json!({ "action": "accept", "content": { "name": "Ada" } });
        assert_eq!(ask(&setup, "elicit").await, expected, "{wire:?}, {era:?}");
        assert_eq!(person.asked(), [("s".into(), "What is your name?".into())]);
        let counts = setup.status("s").elicitation;
        assert_eq!((counts.requests, counts.accepted, counts.errors), (1, 1, 0));
    }
}

#[tokio::test]
async fn a_link_is_shown_with_its_host_and_agreed_to_without_content() {
    for (wire, era) in EVERY_WAY {
        let person = Scripted::fills_in(json!({}));
        let (people, _presence) = with(&person);
        let peer = Peer::new(wire, Behaviour::new().era(era));
        let setup = start(&peer, &json!({}), &people).await;
        assert_eq!(
            ask(&setup, "elicit_url").await,
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
async fn an_address_that_is_no_page_is_declined_unseen() {
    let person = Scripted::fills_in(json!({}));
    let (people, _presence) = with(&person);
    let peer = Peer::new(Wire::Stdio, Behaviour::new());
    let setup = start(&peer, &json!({}), &people).await;
    for url in ["file:///etc/passwd", "javascript:alert(1)", "no address"] {
        let params = json!({ "mode": "url", "message": "Go.", "url": url, "elicitationId": "1" });
        let told = setup
            .call_in(Some("here"), "elicit_url", json!({ "params": params }))
            .await;
        assert_eq!(answer(&told), json!({ "action": "decline" }), "{url}");
    }
    assert!(person.asked().is_empty());
    assert_eq!(setup.status("s").elicitation.errors, 3);
}

#[tokio::test]
async fn refusals_dismissals_and_failures_are_told_apart() {
    for era in [Era::Legacy, Era::Stateless] {
        let peer = Peer::new(Wire::Http, Behaviour::new().era(era));
        let people = People::new(Ways::ALL);
        let setup = start(&peer, &json!({}), &people).await;
        let cases = [
            (Ok(Answer::Declined), "decline"),
            (Ok(Answer::Cancelled), "cancel"),
            (Err(NotAsked("the terminal is gone".into())), "decline"),
            // A required field is missing.
            (Ok(Answer::Accepted(json!({}))), "decline"),
        ];
        for (said, action) in cases {
            let person = Scripted::new(said);
            let _presence = people.join(Conversation("here".into()), person);
            assert_eq!(
                ask(&setup, "elicit").await,
                json!({ "action": action }),
                "{era:?}"
            );
        }
        // Nobody is there.
        assert_eq!(ask(&setup, "elicit").await, json!({ "action": "decline" }));
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
    let mut person = Scripted::fills_in(json!({ "name": "Ada" }));
    // Two are waited for, one comes.
    Arc::get_mut(&mut person).unwrap().others = Some(Arc::new(Barrier::new(2)));
    let (people, _presence) = with(&person);
    let peer = Peer::new(Wire::Stdio, Behaviour::new());
    let setup = start(&peer, &json!({ "elicitation": { "timeout": 1 } }), &people).await;
    assert_eq!(ask(&setup, "elicit").await, json!({ "action": "cancel" }));
}

#[tokio::test]
async fn parallel_calls_ask_in_their_own_conversations() {
    for (wire, era) in [
        (Wire::Stdio, Era::Stateless),
        (Wire::Http, Era::Legacy),
        (Wire::Http, Era::Stateless),
    ] {
        let people = People::new(Ways::ALL);
        let peer = Peer::new(wire, Behaviour::new().era(era));
        let keys = json!({ "supports_parallel_tool_calls": true });
        let setup = start(&peer, &keys, &people).await;
        // Both questions have to be there before the first is answered.
        let both = Arc::new(Barrier::new(2));
        let join = |name: &str| {
            let mut person = Scripted::fills_in(json!({ "name": name }));
            Arc::get_mut(&mut person).unwrap().others = Some(both.clone());
            people.join(Conversation(name.into()), person)
        };
        let _present = (join("ada"), join("bob"));
        let (ada, bob) = tokio::join!(
            setup.call_in(Some("ada"), "elicit", json!({})),
            setup.call_in(Some("bob"), "elicit", json!({})),
        );
        assert_eq!(answer(&ada)["content"]["name"], "ada", "{wire:?}, {era:?}");
        assert_eq!(answer(&bob)["content"]["name"], "bob", "{wire:?}, {era:?}");
    }
}

#[tokio::test]
async fn one_person_is_asked_one_thing_at_a_time() {
    let person = Scripted::fills_in(json!({ "name": "Ada" }));
    let (people, _presence) = with(&person);
    let peer = Peer::new(Wire::Http, Behaviour::new().era(Era::Stateless));
    let keys = json!({ "supports_parallel_tool_calls": true });
    let setup = start(&peer, &keys, &people).await;
    let three = futures::future::join_all((0..3).map(|_| ask(&setup, "elicit"))).await;
    assert!(
        three.iter().all(|told| told["action"] == "accept"),
        "{three:?}"
    );
    assert_eq!(person.asked().len(), 3);
}

#[tokio::test]
async fn where_it_is_switched_off_or_nobody_can_come_nothing_is_declared() {
    let person = Scripted::fills_in(json!({ "name": "Ada" }));
    let (people, _presence) = with(&person);
    for (keys, people) in [
        (json!({ "elicitation": { "enabled": false } }), people),
        (json!({}), People::nobody()),
    ] {
        let behaviour = Behaviour::new().calls(|calls| calls.ask_undeclared = true);
        let peer = Peer::new(Wire::Stdio, behaviour);
        let setup = start(&peer, &keys, &people).await;
        assert_eq!(setup.declared().await, json!({}));
        assert_eq!(ask(&setup, "elicit").await, json!({ "action": "decline" }));
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
        let inquiries = AgentInquiries::new(People::nobody()).with_directory("/srv/one".into());
        let inquiries = Arc::new(inquiries);
        let setup = Place::new(&config).host(inquiries.clone()).await;
        let roots = |path: &str, name: &str| json!({ "roots": [{ "uri": format!("file://{path}"), "name": name }] });
        assert_eq!(
            ask(&setup, "roots").await,
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
            ask(&setup, "roots").await,
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
    let setup = start(&peer, &keys, &People::nobody()).await;
    let expected =
        json!({ "roots": [{ "uri": "file:///srv/a", "name": "a" }, { "uri": "file:///srv/b" }] });
    assert_eq!(ask(&setup, "roots").await, expected);
}
