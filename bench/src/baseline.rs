//! The baseline: a bare pipe, and hand-written JSON-RPC with nothing around it.

use std::{
    borrow::Cow,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{ChildStdin, ChildStdout, Stdio},
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

use crate::environment::Programs;

/// As much as a pipe holds.
const BUFFER: usize = 64 * 1024;

/// Lines to a program and back, by blocking system calls.
pub(crate) struct LinePipe {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
}

impl LinePipe {
    pub(crate) fn start(program: &Path, arguments: &[String]) -> Result<Self> {
        // It ends when its stdin closes; nobody waits for it but the end of this process.
        let mut child = std::process::Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().context("no stdout")?;
        Ok(Self {
            input: child.stdin.take().context("no stdin")?,
            output: BufReader::with_capacity(BUFFER, output),
            line: Vec::new(),
        })
    }

    pub(crate) fn exchange(&mut self, line: &[u8]) -> Result<&[u8]> {
        self.input.write_all(line)?;
        self.line.clear();
        self.output.read_until(b'\n', &mut self.line)?;
        Ok(&self.line)
    }
}

/// The same on a tokio runtime.
pub(crate) struct AsyncLinePipe {
    input: tokio::process::ChildStdin,
    output: tokio::io::BufReader<tokio::process::ChildStdout>,
    line: Vec<u8>,
    _child: tokio::process::Child,
}

impl AsyncLinePipe {
    pub(crate) fn start(program: &Path, arguments: &[String]) -> Result<Self> {
        let mut child = tokio::process::Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().context("no stdout")?;
        Ok(Self {
            input: child.stdin.take().context("no stdin")?,
            output: tokio::io::BufReader::with_capacity(BUFFER, output),
            line: Vec::new(),
            _child: child,
        })
    }

    pub(crate) async fn exchange(&mut self, line: &[u8]) -> Result<&[u8]> {
        self.input.write_all(line).await?;
        self.line.clear();
        self.output.read_until(b'\n', &mut self.line).await?;
        Ok(&self.line)
    }
}

/// A connection to a server over HTTP/1.1, by blocking system calls.
pub(crate) struct HttpPipe {
    input: TcpStream,
    output: BufReader<TcpStream>,
    body: Vec<u8>,
}

impl HttpPipe {
    pub(crate) fn connect(port: u16) -> Result<Self> {
        let input = TcpStream::connect(("127.0.0.1", port))?;
        input.set_nodelay(true)?;
        let output = BufReader::with_capacity(BUFFER, input.try_clone()?);
        Ok(Self {
            input,
            output,
            body: Vec::new(),
        })
    }

    pub(crate) fn exchange(&mut self, body: &[u8]) -> Result<&[u8]> {
        let mut request = format!(
            "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.input.write_all(&request)?;
        let length = read_head(&mut self.output)?
            .context("the server hung up")?
            .length;
        self.body.resize(length, 0);
        self.output.read_exact(&mut self.body)?;
        Ok(&self.body)
    }
}

/// What matters of the head of an HTTP message.
pub(crate) struct HttpHead {
    /// The first line.
    pub(crate) start: String,
    /// Of the body.
    pub(crate) length: usize,
}

/// Reads up to the empty line; `None` if the connection has ended.
pub(crate) fn read_head(stream: &mut impl BufRead) -> Result<Option<HttpHead>> {
    let mut start = String::new();
    if stream.read_line(&mut start)? == 0 {
        return Ok(None);
    }
    let mut length = 0;
    let mut line = String::new();
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            return Ok(Some(HttpHead { start, length }));
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
    }
}

#[derive(Serialize)]
struct EchoRequest<'a> {
    jsonrpc: &'a str,
    id: u64,
    method: &'a str,
    params: EchoCallParams<'a>,
}

#[derive(Serialize)]
struct EchoCallParams<'a> {
    name: &'a str,
    arguments: EchoCallArguments<'a>,
}

#[derive(Serialize)]
struct EchoCallArguments<'a> {
    text: &'a str,
}

#[derive(Deserialize)]
struct EchoResponse<'a> {
    id: u64,
    #[serde(borrow)]
    result: EchoResult<'a>,
}

#[derive(Deserialize)]
struct EchoResult<'a> {
    #[serde(borrow)]
    content: Vec<EchoContent<'a>>,
}

#[derive(Deserialize)]
struct EchoContent<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

/// A call of `echo` as a line.
pub(crate) fn encode_call(id: u64, text: &str) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&EchoRequest {
        jsonrpc: "2.0",
        id,
        method: "tools/call",
        params: EchoCallParams {
            name: "echo",
            arguments: EchoCallArguments { text },
        },
    })?;
    line.push(b'\n');
    Ok(line)
}

/// The text of the answer to a call.
pub(crate) fn decode_reply(id: u64, line: &[u8]) -> Result<String> {
    let response: EchoResponse = serde_json::from_slice(line)?;
    match response.result.content.into_iter().next() {
        Some(content) if response.id == id => Ok(content.text.into_owned()),
        _ => bail!("that is not the reply to call {id}"),
    }
}

impl Programs {
    pub(crate) fn pipe_lines(&self) -> Result<LinePipe> {
        LinePipe::start(&self.pipe, &[])
    }

    pub(crate) fn async_pipe_lines(&self) -> Result<AsyncLinePipe> {
        AsyncLinePipe::start(&self.pipe, &[])
    }
}
