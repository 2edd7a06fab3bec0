//! The bridge beside a running gateway.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use super::*;

/// `hermes mcp serve` of the home.
pub(super) struct Bridge {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    asked: u64,
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Bridge {
    pub(super) fn open(home: &ChatHome) -> Self {
        let mut command = home.gateway.home.command(&["mcp", "serve"]);
        command
            .env("TELEGRAM_BOT_TOKEN", TOKEN)
            .env("TELEGRAM_BASE_URL", home.telegram.base_url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut bridge = Self {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            asked: 0,
        };
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        bridge.request("initialize", &params);
        writeln!(
            bridge.stdin,
            r#"{{"jsonrpc": "2.0", "method": "notifications/initialized"}}"#
        )
        .unwrap();
        bridge
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params});
        writeln!(self.stdin, "{request}").unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(
                self.stdout.read_line(&mut line).unwrap(),
                0,
                "the bridge ended"
            );
            let reply: Value = serde_json::from_str(&line).unwrap();
            if reply["id"] == self.asked {
                return reply["result"].clone();
            }
        }
    }

    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        let text = result["content"][0]["text"].as_str().unwrap();
        serde_json::from_str(text).unwrap_or_else(|_| panic!("{tool}: {text}"))
    }
}

#[test]
fn a_message_at_the_platform_is_an_event_and_a_message_of_the_bridge_arrives_there() {
    let home = ChatHome::new(ModelScript::echo());
    let _gateway = home.start();
    let mut bridge = Bridge::open(&home);
    let first = bridge.call("events_poll", &json!({}));
    let cursor = first["next_cursor"].clone();
    home.telegram.say(ADA, "hello bridge");
    home.wait_for_answers(ADA, 1);
    let mut seen = Value::Null;
    wait_until("an event", || {
        seen = bridge.call("events_poll", &json!({"after_cursor": cursor}));
        seen["events"].to_string().contains("hello bridge")
    });
    let key = seen["events"][0]["session_key"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(key, format!("agent:main:telegram:dm:{ADA}"), "{seen}");
    let chats = bridge.call("conversations_list", &json!({}));
    assert!(chats.to_string().contains(&key), "{chats}");
    let sent = bridge.call(
        "messages_send",
        &json!({"target": format!("telegram:{ADA}"), "message": "from the bridge"}),
    );
    assert_eq!(sent["success"], true, "{sent}");
    assert!(
        home.telegram
            .answers(ADA)
            .contains(&"from the bridge".to_owned())
    );
}

#[test]
fn an_approval_of_a_chat_is_decided_over_the_bridge() {
    let home = ChatHome::new(ModelScript::new([
        ScriptedAnswer::call(
            "terminal",
            &json!({"command": "rm -r /tmp/none-of-the-tests"}),
        ),
        ScriptedAnswer::text("Finished."),
    ]));
    let _gateway = home.start();
    let mut bridge = Bridge::open(&home);
    home.telegram.say(ADA, "clean up");
    let mut open = Value::Null;
    wait_until("an approval", || {
        open = bridge.call("permissions_list_open", &json!({}));
        open["count"] == 1
    });
    let id = open["approvals"][0]["id"].as_str().unwrap().to_owned();
    let decided = bridge.call(
        "permissions_respond",
        &json!({"id": id, "decision": "allow-once"}),
    );
    assert_eq!(decided["resolved"], true, "{decided}");
    wait_until("an answer", || {
        home.telegram.answers(ADA).contains(&"Finished.".to_owned())
    });
    wait_until("the message says so", || {
        home.telegram
            .answers(ADA)
            .iter()
            .any(|text| text.contains("Allowed once by"))
    });
}
