//! A client that speaks to a child process line by line.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use hermes_testkit::{Behaviour, binary};
use serde_json::{Value, json};

pub(crate) struct PipedServer {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    next_id: u64,
}

impl PipedServer {
    pub(crate) fn start(behaviour: &Behaviour) -> Self {
        let (command, arguments) = behaviour.stdio_command(&binary("testkit-stdio"));
        Self::spawn(Command::new(command).args(arguments))
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            stdin: child.stdin.take(),
            child,
            lines,
            next_id: 1,
        }
    }

    pub(crate) fn send(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next line, or `None` at the end of the stream.
    pub(crate) fn line(&self) -> Option<String> {
        use std::sync::mpsc::RecvTimeoutError;
        match self.lines.recv_timeout(Duration::from_secs(30)) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no line within 30 s"),
        }
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&message.to_string());
        loop {
            let line = self.line().expect("the server ended");
            let message: Value = serde_json::from_str(&line).unwrap_or_default();
            if message["id"] == id {
                return message;
            }
        }
    }

    pub(crate) fn initialize(&mut self) -> Value {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
        self.request("initialize", &params)
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> String {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.request("tools/call", &params);
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("no text in {answer}"))
            .to_owned()
    }

    /// Closes stdin and returns the exit code.
    pub(crate) fn finish(mut self) -> Option<i32> {
        self.stdin = None;
        self.child.wait().unwrap().code()
    }
}

impl Drop for PipedServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
