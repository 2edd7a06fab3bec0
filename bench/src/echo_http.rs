//! A light MCP server over HTTP: one thread per connection and JSON read by hand, so that little of a measured call is its own.
//!
//! The servers of the testkit keep every request and go through their script, which is more work than a client's.

use std::{
    io::{BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::ExitCode,
};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::baseline::read_head;

/// What starts it.
pub(crate) const MODE: &str = "echo-http";

/// Serves until stdin closes. The first line on stdout is the port.
pub(crate) fn serve() -> Result<ExitCode> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?.port())?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that leaves in the middle ends its thread, nothing else.
            std::thread::spawn(move || serve_connection(&stream));
        }
    });
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(ExitCode::SUCCESS)
}

fn serve_connection(stream: &TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BufReader::with_capacity(64 * 1024, stream);
    let mut output = stream;
    let mut body = Vec::new();
    let mut answer = Vec::new();
    let mut response = Vec::new();
    while let Some(head) = read_head(&mut input)? {
        body.resize(head.length, 0);
        input.read_exact(&mut body)?;
        answer.clear();
        let status = if head.start.starts_with("POST") {
            respond(&body, &mut answer)?
        } else {
            "405 Method Not Allowed"
        };
        response.clear();
        write!(
            response,
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        )?;
        response.extend_from_slice(&answer);
        output.write_all(&response)?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: &'a str,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct EchoParams<'a> {
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

/// Writes the answer to a message and returns the status to send it with.
fn respond(body: &[u8], answer: &mut Vec<u8>) -> Result<&'static str> {
    let message: Message = serde_json::from_slice(body)?;
    let Some(id) = message.id else {
        return Ok("202 Accepted");
    };
    if message.method == "tools/call" {
        echo(id, message.params.context("no params")?, answer)?;
        return Ok("200 OK");
    }
    let id: Value = serde_json::from_str(id.get())?;
    let reply = match result(message.method) {
        Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        None => json!({
            "jsonrpc": "2.0",
            "id": id,
            "error": {"code": -32601, "message": "Method not found"},
        }),
    };
    serde_json::to_writer(answer, &reply)?;
    Ok("200 OK")
}

/// What legacy clients do not know does not disturb them, so one answer serves both eras.
fn result(method: &str) -> Option<Value> {
    let server = json!({"name": "echo", "version": "1"});
    let mut result = match method {
        "initialize" => json!({
            "protocolVersion": hermes_testkit::LEGACY[0],
            "capabilities": {"tools": {}},
            "serverInfo": server,
        }),
        "server/discover" => json!({
            "supportedVersions": [hermes_testkit::STATELESS],
            "capabilities": {"tools": {}},
        }),
        "tools/list" => json!({"tools": [{
            "name": "echo",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        }]}),
        _ => return None,
    };
    if method != "initialize" {
        result["resultType"] = json!("complete");
        result["ttlMs"] = json!(0);
        result["cacheScope"] = json!("private");
        result["_meta"] = json!({"io.modelcontextprotocol/serverInfo": server});
    }
    Some(result)
}

/// The text goes back as it came, never unescaped.
fn echo(id: &RawValue, params: &RawValue, answer: &mut Vec<u8>) -> Result<()> {
    let params: EchoParams = serde_json::from_str(params.get())?;
    let end = if params
        .meta
        .is_some_and(|meta| meta.get().contains("protocolVersion"))
    {
        r#"}],"resultType":"complete"}}"#
    } else {
        "}]}}"
    };
    for part in [
        r#"{"jsonrpc":"2.0","id":"#,
        id.get(),
        r#","result":{"content":[{"type":"text","text":"#,
        params.arguments.text.get(),
        end,
    ] {
        answer.extend_from_slice(part.as_bytes());
    }
    Ok(())
}
