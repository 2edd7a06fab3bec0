//! The front end on stdin and stdout: threads, no runtime, so that a server starts in about a millisecond.

use std::{
    fs::OpenOptions,
    io::{self, BufRead, Write},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    behaviour::{Behaviour, ProcessBehaviour},
    grandchild,
    script::{Outlet, ScriptSession, ServerScript},
    wire,
};

/// Whether calls of `echo` take the short way past the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EchoPath {
    /// Every message goes through the script: it is recorded, counted and misbehaved on.
    Scripted,
    /// `tools/call` of `echo` is answered straight from the line, for measurements.
    Fast,
}

/// Serves one client on stdin and stdout until stdin closes, and returns the exit code.
pub fn serve(
    behaviour: Behaviour,
    echo: EchoPath,
    exit: impl Fn(i32) + Send + Sync + 'static,
) -> io::Result<i32> {
    if let Some(code) = start(&behaviour.process)? {
        return Ok(code);
    }
    let ignore_close = behaviour.process.ignore_stdin_close;
    let script = ServerScript::new(behaviour, exit)?;
    let session = ScriptSession::new("stdio");
    let outlet: Arc<dyn Outlet> = Arc::new(Stdout);
    script.add_listener(&session, Arc::clone(&outlet));

    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    let mut answer = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if echo == EchoPath::Fast && echo_answer(&line, &mut answer).is_some() {
            io::stdout().lock().write_all(&answer)?;
            continue;
        }
        match serde_json::from_slice::<Value>(&line) {
            Ok(message) => script.receive(&session, Arc::clone(&outlet), message),
            Err(error) => {
                script.receive_junk(String::from_utf8_lossy(&line).trim_end());
                let error = wire::RpcError::new(wire::PARSE_ERROR, error.to_string());
                outlet.send(&error.response(&Value::Null));
            }
        }
    }
    if ignore_close {
        loop {
            std::thread::park();
        }
    }
    Ok(0)
}

/// What happens before the first message. A code says that the process ends right away.
fn start(process: &ProcessBehaviour) -> io::Result<Option<i32>> {
    if process.ignore_sigterm {
        signal_hook::flag::register(
            signal_hook::consts::SIGTERM,
            Arc::new(AtomicBool::new(false)),
        )?;
    }
    let mut pids = vec![std::process::id()];
    for kind in &process.grandchildren {
        pids.push(grandchild::spawn(*kind)?);
    }
    if let Some(path) = &process.pid_file {
        let mut lines = Vec::new();
        for pid in pids {
            writeln!(lines, "{pid}")?;
        }
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(&lines)?;
    }
    std::thread::sleep(Duration::from_millis(process.start_delay_ms));
    if let Some(end) = &process.exit_at_start {
        writeln!(io::stderr(), "{}", end.stderr)?;
        return Ok(Some(end.code));
    }
    let mut flood = process.stderr_flood;
    while flood > 0 {
        let length = flood.min(100);
        writeln!(io::stderr(), "{}", "e".repeat(length - 1))?;
        flood -= length;
    }
    for junk in &process.junk_stdout {
        writeln!(io::stdout(), "{junk}")?;
    }
    Ok(None)
}

/// Our stdout, one message per line.
struct Stdout;

impl Outlet for Stdout {
    fn send(&self, message: &Value) -> bool {
        let mut line = wire::message_text(message);
        line.push('\n');
        io::stdout().lock().write_all(line.as_bytes()).is_ok()
    }

    fn send_oversized(&self, bytes: usize) -> bool {
        let piece = vec![b'x'; 64 * 1024];
        let mut output = io::stdout().lock();
        let mut left = bytes;
        while left > 0 {
            let length = left.min(piece.len());
            if output.write_all(&piece[..length]).is_err() {
                return false;
            }
            left -= length;
        }
        output.write_all(b"\n").is_ok()
    }
}

#[derive(Deserialize)]
struct EchoCall<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    method: &'a str,
    #[serde(borrow)]
    params: CallParams<'a>,
}

#[derive(Deserialize)]
struct CallParams<'a> {
    name: &'a str,
    #[serde(borrow)]
    arguments: EchoArguments<'a>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct EchoArguments<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

/// Writes the answer to a call of `echo` into `answer`; `None` for any other message.
fn echo_answer(line: &[u8], answer: &mut Vec<u8>) -> Option<()> {
    let call: EchoCall = serde_json::from_slice(line).ok()?;
    let text = call.params.arguments.text.get();
    if call.method != "tools/call" || call.params.name != "echo" || !text.starts_with('"') {
        return None;
    }
    let stateless = call
        .params
        .meta
        .is_some_and(|meta| meta.get().contains(wire::META_VERSION));
    answer.clear();
    answer.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    answer.extend_from_slice(call.id.get().as_bytes());
    answer.extend_from_slice(br#","result":{"content":[{"type":"text","text":"#);
    answer.extend_from_slice(text.as_bytes());
    answer.extend_from_slice(if stateless {
        br#"}],"resultType":"complete"}}"#.as_slice()
    } else {
        b"}]}}".as_slice()
    });
    answer.push(b'\n');
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fast(message: &Value) -> Option<Value> {
        let mut answer = Vec::new();
        echo_answer(message.to_string().as_bytes(), &mut answer)?;
        Some(serde_json::from_slice(&answer).unwrap())
    }

    fn call(name: &str, arguments: &Value, meta: &Value) -> Value {
        let params = json!({ "name": name, "arguments": arguments, "_meta": meta });
        json!({ "jsonrpc": "2.0", "id": "a\"1", "method": "tools/call", "params": params })
    }

    #[test]
    fn the_fast_echo_returns_text_and_id_unchanged() {
        let answer = fast(&call("echo", &json!({ "text": "\"ü\n" }), &json!({}))).unwrap();
        assert_eq!(answer["id"], "a\"1");
        assert_eq!(answer["result"]["content"][0]["text"], "\"ü\n");
        assert!(answer["result"].get("resultType").is_none());
    }

    #[test]
    fn the_fast_echo_marks_stateless_results() {
        let meta = json!({ wire::META_VERSION: wire::STATELESS });
        let answer = fast(&call("echo", &json!({ "text": "a" }), &meta)).unwrap();
        assert_eq!(answer["result"]["resultType"], "complete");
    }

    #[test]
    fn other_messages_take_the_long_way() {
        assert!(fast(&call("add", &json!({ "text": "a" }), &json!({}))).is_none());
        assert!(fast(&call("echo", &json!({ "text": 1 }), &json!({}))).is_none());
        assert!(fast(&call("echo", &json!({}), &json!({}))).is_none());
        assert!(fast(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).is_none());
    }
}
