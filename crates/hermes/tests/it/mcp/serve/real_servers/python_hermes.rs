//! Hermes Agent 0.19, in Python: its bridge and ours, side by side on one home that it has written, answer alike.
//!
//! Where they differ on purpose is listed here and nowhere else:
//!
//! - `ADDED`: ours reports gaps in the log of events.
//! - `as_ours`: times always have microseconds, and a channel without a name has an empty one.
//! - `same`: refused arguments are refused in other words, and a refusal may stand on one line or several.
//! - `answers`: descriptions, annotations, instructions, resources and prompts are our own; messages that were
//!   summed up keep their attachments; the hint after a missing home channel; `THEIRS_FAIL`, calls that 0.19 breaks off
//!   or misreads.
//! - `home`: no replay of old events at start, and cursors of the home's log.

mod answers;
mod home;

use std::path::{Path, PathBuf};

use super::*;

/// The fields only ours has: of events, and of an empty list.
const ADDED: [&str; 4] = ["oldest_cursor", "last_cursor", "dropped", "hint"];

/// A time zone in which local time cannot be taken for universal time.
const ZONE: &str = "Asia/Kolkata";

/// The session key of a chat nobody is in.
const NOBODY: &str = "agent:main:telegram:dm:404";

fn python() -> Option<PathBuf> {
    installed("HERMES_TEST_VENV_HERMES", "bin/python")
}

/// Runs a program of that environment in the home, with nothing of the machine.
fn command(hermes: &Hermes, program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HERMES_HOME", hermes.home.path())
        .env("HOME", hermes.user())
        .env("TZ", ZONE)
        .current_dir(hermes.user());
    command
}

/// Lets 0.19 write into the home, and gives back what its script prints.
fn chats(hermes: &Hermes, python: &Path, arguments: &[&str]) -> String {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/it/mcp/serve/real_servers/chats.py"
    );
    let output = command(hermes, python)
        .arg(script)
        .args(arguments)
        .output()
        .unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problem}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A home with chats of 0.19.
fn written(python: &Path) -> Hermes {
    let hermes = Hermes::new();
    chats(&hermes, python, &["write"]);
    hermes
}

/// Both bridges on one home.
struct BridgePair {
    theirs: BridgeProcess,
    ours: BridgeProcess,
    asked: u64,
}

impl BridgePair {
    fn open(hermes: &Hermes, python: &Path) -> Self {
        let mut theirs = command(hermes, &python.with_file_name("hermes"));
        theirs.args(["mcp", "serve"]);
        let mut ours = hermes.command(&["mcp", "serve"]);
        ours.env("TZ", ZONE);
        // With a token a platform is configured. None of these tests sends anything.
        for command in [&mut theirs, &mut ours] {
            command.env("SLACK_BOT_TOKEN", "xoxb-none");
        }
        Self {
            theirs: BridgeProcess::start(theirs),
            ours: BridgeProcess::start(ours),
            asked: 0,
        }
    }

    /// Asks both, and gives back `result` or `error` of each.
    fn ask(&mut self, method: &str, params: &Value) -> [Value; 2] {
        self.send(method, params);
        self.answers()
    }

    fn send(&mut self, method: &str, params: &Value) {
        self.asked += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params});
        self.theirs.send(&request);
        self.ours.send(&request);
    }

    fn answers(&mut self) -> [Value; 2] {
        [&mut self.theirs, &mut self.ours].map(|bridge| {
            loop {
                let mut answer = bridge.receive();
                if answer["id"] == self.asked {
                    answer.as_object_mut().unwrap().remove("id");
                    return answer;
                }
            }
        })
    }

    /// Calls a tool of both.
    fn call(&mut self, tool: &str, arguments: &Value) -> [CallOutcome; 2] {
        let mut params = json!({"name": tool, "arguments": arguments});
        if arguments.is_null() {
            params.as_object_mut().unwrap().remove("arguments");
        }
        self.ask("tools/call", &params)
            .map(|answer| outcome(&answer))
    }

    fn initialize(&mut self) -> [Value; 2] {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let answers = self.ask("initialize", &params);
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.theirs.send(&initialized);
        self.ours.send(&initialized);
        answers
    }
}

/// What a call came to, after a look at how it is wrapped.
#[derive(Debug, PartialEq)]
enum CallOutcome {
    /// A document, and its text.
    Document(Value, String),
    /// A refusal by the tool.
    Refusal(Value),
    /// Refused arguments, or no such tool.
    Misuse(String),
    /// An error of the protocol.
    Fault(Value),
}

#[track_caller]
fn outcome(answer: &Value) -> CallOutcome {
    if let Some(error) = answer.get("error") {
        return CallOutcome::Fault(error["code"].clone());
    }
    let result = &answer["result"];
    let [block] = result["content"].as_array().unwrap().as_slice() else {
        panic!("more than one block: {answer}");
    };
    assert_eq!(block["type"], "text", "{answer}");
    let text = block["text"].as_str().unwrap().to_owned();
    if result["isError"] == true {
        assert_eq!(result.get("structuredContent"), None, "{answer}");
        return CallOutcome::Misuse(text);
    }
    assert_eq!(result["isError"], false, "{answer}");
    assert_eq!(result["structuredContent"], json!({"result": text}));
    let document: Value = serde_json::from_str(&text).unwrap();
    if document.get("error").is_some() {
        CallOutcome::Refusal(document)
    } else {
        CallOutcome::Document(document, text)
    }
}

/// A document of theirs as ours would be.
fn as_ours(document: &mut Value) {
    match document {
        Value::Array(values) => values.iter_mut().for_each(as_ours),
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), &mut *value) {
                    // Python leaves out microseconds that are zero.
                    ("updated_at" | "created_at", Value::String(time))
                        if time.len() == "2026-11-15T02:01:02".len() =>
                    {
                        time.push_str(".000000");
                    }
                    ("name", null @ Value::Null) => *null = json!(""),
                    (_, value) => as_ours(value),
                }
            }
        }
        _ => {}
    }
}

/// A document of ours without what only ours has.
fn without_added(mut document: Value) -> Value {
    if let Some(fields) = document.as_object_mut() {
        fields.retain(|name, _| !ADDED.contains(&name.as_str()));
    }
    document
}

/// Calls a tool of both and compares to the letter, order of fields and indentation included.
#[track_caller]
fn same(both: &mut BridgePair, tool: &str, arguments: &Value) {
    let call = format!("{tool} {arguments}");
    match both.call(tool, arguments) {
        [
            CallOutcome::Document(mut theirs, their_text),
            CallOutcome::Document(ours, our_text),
        ] => {
            as_ours(&mut theirs);
            // Their text escapes what is not ASCII; apart from that, texts are equal if documents and layout are.
            assert_eq!(our_text, format!("{ours:#}"), "{call}");
            assert!(their_text.starts_with("{\n  \""), "{call}: {their_text}");
            assert_eq!(
                format!("{:#}", without_added(ours)),
                format!("{theirs:#}"),
                "{call}"
            );
        }
        [CallOutcome::Misuse(theirs), CallOutcome::Misuse(ours)] => {
            if theirs.starts_with("Unknown tool") {
                assert_eq!(ours, theirs);
                return;
            }
            // Python's message has the argument on its second line.
            assert!(theirs.contains("validation error"), "{call}: {theirs}");
            let argument = theirs.lines().nth(1).unwrap();
            assert!(
                ours.contains(tool) && ours.contains(&format!("`{argument}`")),
                "{call}: {ours}"
            );
        }
        [theirs, ours] => assert_eq!(ours, theirs, "{call}"),
    }
}
