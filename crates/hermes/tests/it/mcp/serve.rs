//! `hermes mcp serve`, as a process that clients start or call.

mod approvals;
mod http;
mod install;
mod platforms;
mod processes;
mod real_servers;
mod sending;

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use hermes_config::Home;
use hermes_store::{Access, NewMessage, NewSession, Origin, Role, SessionId, SessionKey, Store};
use serde_json::{Value, json};

use crate::harness::program::Hermes;

/// Timeout of anything that should happen.
const TIMEOUT: Duration = Duration::from_mins(1);
const KEY: &str = "agent:main:telegram:dm:1";

/// A home with one conversation, in which somebody says hello.
fn with_chat() -> Hermes {
    let hermes = Hermes::new();
    let home = Home::at(hermes.home.path());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        let id = SessionId::parse("20260101_010101_0badcafe").unwrap();
        let mut session = NewSession::new(id.clone(), "telegram");
        session.session_key = Some(SessionKey::new(KEY));
        session.origin = Some(Origin {
            platform: "telegram".into(),
            chat_id: Some("1".into()),
            chat_type: "dm".into(),
            chat_name: Some("Ann".into()),
            ..Origin::default()
        });
        store.create_session(&session).await.unwrap();
        store
            .append(&id, &NewMessage::new(Role::User, "hello"))
            .await
            .unwrap();
        store.close().await;
    });
    hermes
}

/// A bridge on pipes, spoken to line by line.
struct BridgeProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    asked: u64,
}

impl Drop for BridgeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl BridgeProcess {
    fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            asked: 0,
        }
    }

    /// One that has been greeted.
    fn open(hermes: &Hermes, flags: &[&str]) -> Self {
        Self::initialize(hermes.command(&[&["mcp", "serve"], flags].concat()))
    }

    fn initialize(command: Command) -> Self {
        let mut piped = Self::start(command);
        piped.send(
            &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            }}),
        );
        assert_eq!(piped.receive()["result"]["serverInfo"]["name"], "hermes");
        piped.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        piped
    }

    fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{message}").unwrap();
        stdin.flush().unwrap();
    }

    fn call(&mut self, id: u64, tool: &str, arguments: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}}));
    }

    /// Calls a tool and waits for the document it answers with.
    fn call_tool(&mut self, tool: &str, arguments: &Value) -> Value {
        self.send_call(tool, arguments);
        self.answer()
    }

    /// Calls a tool without waiting.
    fn send_call(&mut self, tool: &str, arguments: &Value) {
        self.asked += 1;
        self.call(self.asked, tool, arguments);
    }

    /// The document that answers the last call.
    #[track_caller]
    fn answer(&mut self) -> Value {
        let answer = self.receive();
        assert_eq!(answer["id"], self.asked, "{answer}");
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        serde_json::from_str(text).unwrap()
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Waits for the end, and tells how long that took and with which code.
    fn wait_for_exit(&mut self) -> (Duration, Option<i32>) {
        let began = Instant::now();
        let status = hermes_testkit::wait_for(TIMEOUT, || self.child.try_wait().unwrap());
        let status = status.unwrap();
        (began.elapsed(), status.code())
    }
}
