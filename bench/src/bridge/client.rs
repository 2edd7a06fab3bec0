//! A bare client of `hermes mcp serve`: lines of JSON-RPC written by hand, so that its own cost does not count.

use std::{
    borrow::Cow,
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use hermes_mcp::Era;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{environment::Programs, samples};

/// As much as a pipe holds.
const BUFFER: usize = 64 * 1024;
const TOOLS: usize = 10;

/// A bridge process and the pipes to it.
pub(super) struct Bridge {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    /// Of the last request.
    id: u64,
}

impl Bridge {
    /// Starts a bridge and has it list its tools. Returns how long that took.
    pub(super) fn start(programs: &Programs, home: &Path, era: Era) -> Result<(Self, Duration)> {
        let greeting = handshake(era)?;
        let mut command = Command::new(&programs.hermes);
        command
            .args(["mcp", "serve"])
            .env("HERMES_HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let began = Instant::now();
        let mut child = command.spawn()?;
        let output = child.stdout.take().context("no stdout")?;
        let mut bridge = Self {
            input: child.stdin.take().context("no stdin")?,
            output: BufReader::with_capacity(BUFFER, output),
            child,
            line: Vec::new(),
            id: 0,
        };
        bridge.input.write_all(&greeting.to_begin)?;
        if era == Era::Legacy {
            bridge.read_line()?;
            bridge.input.write_all(&greeting.to_list)?;
        }
        bridge.read_line()?;
        let taken = began.elapsed();
        let answer: Value = serde_json::from_slice(&bridge.line)?;
        let tools = answer["result"]["tools"].as_array();
        ensure!(
            tools.is_some_and(|tools| tools.len() == TOOLS),
            "no list of tools: {answer}"
        );
        Ok((bridge, taken))
    }

    /// Calls a tool and waits for the answer. Returns how long that took.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Result<(Duration, Value)> {
        let (id, line) = self.request(tool, arguments)?;
        let began = Instant::now();
        self.input.write_all(&line)?;
        self.read_line()?;
        let taken = began.elapsed();
        let answer = ToolReply::read(&self.line)?;
        ensure!(answer.id == id, "an answer to another call");
        Ok((taken, answer.body()?))
    }

    /// Calls a tool and does not wait. Returns the id of the call.
    pub(super) fn send_call(&mut self, tool: &str, arguments: &Value) -> Result<u64> {
        let (id, line) = self.request(tool, arguments)?;
        self.input.write_all(&line)?;
        Ok(id)
    }

    /// Waits for the next answer, to whichever call.
    pub(super) fn next_reply(&mut self) -> Result<ToolReply<'_>> {
        self.read_line()?;
        ToolReply::read(&self.line)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has in memory, in KiB, as `/proc` names it: `VmRSS`, or `VmHWM` for the most so far.
    pub(super) fn memory(&self, kind: &str) -> Result<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))
            .context("only Linux tells")?;
        let line = status.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name == kind).then(|| value.trim().trim_end_matches(" kB"))
        });
        Ok(line.with_context(|| format!("no {kind}"))?.parse()?)
    }

    /// The processor time it has used.
    pub(super) fn processor_time(&self) -> Result<Duration> {
        samples::processor_time(self.pid())
    }

    /// Hangs up and waits for its end.
    pub(super) fn close(self) -> Result<()> {
        let Self {
            mut child, input, ..
        } = self;
        drop(input);
        let status = child.wait()?;
        ensure!(status.success(), "the bridge ended with {status}");
        Ok(())
    }

    fn request(&mut self, tool: &str, arguments: &Value) -> Result<(u64, Vec<u8>)> {
        self.id += 1;
        let params = json!({"name": tool, "arguments": arguments});
        let request =
            json!({"jsonrpc": "2.0", "id": self.id, "method": "tools/call", "params": params});
        Ok((self.id, encode_line(&request)?))
    }

    fn read_line(&mut self) -> Result<()> {
        self.line.clear();
        let length = self.output.read_until(b'\n', &mut self.line)?;
        ensure!(length > 0, "the bridge has ended");
        Ok(())
    }
}

/// What is said before the first call.
struct Handshake {
    to_begin: Vec<u8>,
    to_list: Vec<u8>,
}

fn handshake(era: Era) -> Result<Handshake> {
    let list = |params: Value| {
        encode_line(
            &json!({"jsonrpc": "2.0", "id": "list", "method": "tools/list", "params": params}),
        )
    };
    let client = json!({"name": "bench", "version": "1"});
    match era {
        Era::Legacy => {
            let params =
                json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
            let mut to_list =
                encode_line(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
            to_list.extend(list(json!({}))?);
            Ok(Handshake {
                to_begin: encode_line(&json!({
                    "jsonrpc": "2.0", "id": "begin", "method": "initialize", "params": params,
                }))?,
                to_list,
            })
        }
        Era::Stateless => Ok(Handshake {
            to_begin: list(json!({"_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": client,
                "io.modelcontextprotocol/clientCapabilities": {},
            }}))?,
            to_list: Vec::new(),
        }),
    }
}

fn encode_line(message: &Value) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// The answer to a call of a tool.
#[derive(Debug)]
pub(super) struct ToolReply<'a> {
    pub(super) id: u64,
    text: Cow<'a, str>,
}

#[derive(Deserialize)]
struct ToolResponse<'a> {
    id: u64,
    #[serde(borrow)]
    result: ToolResult<'a>,
}

#[derive(Deserialize)]
struct ToolResult<'a> {
    #[serde(borrow)]
    content: Vec<ToolContent<'a>>,
    #[serde(rename = "isError", default)]
    is_error: bool,
}

#[derive(Deserialize)]
struct ToolContent<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

impl<'a> ToolReply<'a> {
    fn read(line: &'a [u8]) -> Result<Self> {
        let response: ToolResponse<'a> = serde_json::from_slice(line)
            .with_context(|| String::from_utf8_lossy(line).into_owned())?;
        match response.result.content.into_iter().next() {
            Some(ToolContent { text }) if !response.result.is_error => Ok(Self {
                id: response.id,
                text,
            }),
            block => bail!(
                "the call failed: {}",
                block.map_or("".into(), |block| block.text)
            ),
        }
    }

    /// Whether the bridge could not do what was asked, which it says without an error of the protocol.
    pub(super) fn is_refusal(&self) -> bool {
        let beginning = self.text.trim_start_matches(['{', ' ', '\n']);
        beginning.starts_with("\"error\"")
    }

    /// What it says.
    pub(super) fn body(&self) -> Result<Value> {
        ensure!(!self.is_refusal(), "the bridge refused: {}", self.text);
        Ok(serde_json::from_str(&self.text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str, is_error: bool) -> Vec<u8> {
        let result = json!({"content": [{"type": "text", "text": text}], "isError": is_error});
        serde_json::to_vec(&json!({"jsonrpc": "2.0", "id": 7, "result": result})).unwrap()
    }

    #[test]
    fn an_answer_is_what_its_text_says() {
        let line = answer("{\n  \"count\": 3\n}", false);
        let answer = ToolReply::read(&line).unwrap();
        assert_eq!(answer.id, 7);
        assert_eq!(answer.body().unwrap(), json!({"count": 3}));
    }

    #[test]
    fn failures_of_either_kind_are_noticed() {
        assert!(ToolReply::read(&answer("Unknown tool: x", true)).is_err());
        let line = answer("{\n  \"error\": \"Conversation not found: x\"\n}", false);
        let answer = ToolReply::read(&line).unwrap();
        assert!(answer.is_refusal());
        assert!(answer.body().is_err());
        let protocol = br#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"x"}}"#;
        assert!(ToolReply::read(protocol).is_err());
    }
}
