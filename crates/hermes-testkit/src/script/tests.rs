//! A client that speaks to a script in the same process, and what it is answered.

mod calls;
mod lists;
mod opening;
mod questions;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};

use super::*;
use crate::{
    observe::wait_until,
    wire::{META_CLIENT_CAPABILITIES, META_VERSION},
};

/// A client that keeps what it is sent.
#[derive(Default)]
struct Inbox(Mutex<Vec<Value>>);

impl Outlet for Inbox {
    fn send(&self, message: &Value) -> bool {
        lock(&self.0).push(message.clone());
        true
    }

    fn send_oversized(&self, bytes: usize) -> bool {
        lock(&self.0).push(json!({ "oversized": bytes }));
        true
    }
}

struct Client {
    script: Arc<ServerScript>,
    session: Arc<ScriptSession>,
    inbox: Arc<Inbox>,
    exits: Arc<Mutex<Vec<i32>>>,
}

impl Client {
    fn new(behaviour: Behaviour) -> Self {
        let exits = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&exits);
        let script = ServerScript::new(behaviour, move |code| lock(&seen).push(code)).unwrap();
        let session = ScriptSession::new("test");
        let inbox = Arc::new(Inbox::default());
        script.add_listener(&session, inbox.clone());
        Self {
            script,
            session,
            inbox,
            exits,
        }
    }

    /// A client after a legacy handshake that offers everything.
    fn legacy(behaviour: Behaviour) -> Self {
        let client = Self::new(behaviour);
        let capabilities =
            json!({ "sampling": {}, "elicitation": { "form": {}, "url": {} }, "roots": {} });
        let answer = client.request(
            "initialize",
            &json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities }),
        );
        assert!(answer.get("result").is_some(), "{answer}");
        client
    }

    fn send(&self, message: Value) {
        self.script
            .receive(&self.session, self.inbox.clone(), message);
    }

    fn messages(&self) -> Vec<Value> {
        lock(&self.inbox.0).clone()
    }

    fn methods(&self) -> Vec<String> {
        self.messages()
            .iter()
            .filter_map(|message| message["method"].as_str().map(str::to_owned))
            .collect()
    }

    fn find(&self, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        self.messages().into_iter().find(|message| fits(message))
    }

    fn wait_for(&self, fits: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        wait_until(Duration::from_secs(30), || {
            found = self.find(&fits);
            found.is_some()
        });
        found.unwrap_or_else(|| panic!("not among {:?}", self.messages()))
    }

    fn start(&self, method: &str, params: &Value) -> Value {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = json!(NEXT.fetch_add(1, Ordering::SeqCst));
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn request(&self, method: &str, params: &Value) -> Value {
        let id = self.start(method, params);
        self.wait_for(|message| message["id"] == id && message.get("method").is_none())
    }

    fn call(&self, tool: &str, arguments: &Value) -> Value {
        self.request(
            "tools/call",
            &json!({ "name": tool, "arguments": arguments }),
        )
    }

    fn cancel(&self, id: &Value) {
        let params = json!({ "requestId": id });
        self.send(
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
        );
    }
}

fn meta(capabilities: &Value) -> Value {
    json!({ META_VERSION: crate::STATELESS, META_CLIENT_CAPABILITIES: capabilities })
}

fn stateless_call(tool: &str, capabilities: &Value) -> Value {
    json!({ "name": tool, "arguments": {}, "_meta": meta(capabilities) })
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text in {answer}"))
}

fn error_code(answer: &Value) -> i64 {
    crate::wire::error_code(answer).unwrap_or_else(|| panic!("no error in {answer}"))
}
