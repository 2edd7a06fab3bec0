//! Calls of tools over Streamable HTTP, in both eras, as bytes to send.

use std::sync::Arc;

use anyhow::{Context, Result};
use hermes_mcp::Era;
use serde_json::{Value, json};

use super::{load::LoadClient, wire::RawConnection};
use crate::environment::RuntimeFlavour;

/// A server that speaks MCP.
#[derive(Debug, Clone, Copy)]
pub(crate) struct McpEndpoint<'a> {
    pub(crate) port: u16,
    pub(crate) token: Option<&'a str>,
}

impl McpEndpoint<'_> {
    /// Clients that call one tool with these arguments, and where the era has sessions, have one each.
    pub(crate) fn clients(
        self,
        era: Era,
        clients: usize,
        tool: &str,
        arguments: &[Value],
    ) -> Result<Vec<LoadClient>> {
        let calls = |session: Option<&str>| -> Arc<[Vec<u8>]> {
            let calls = arguments.iter();
            calls
                .map(|arguments| self.call(tool, arguments, session))
                .collect()
        };
        let shared = calls(None);
        (0..clients)
            .map(|client| {
                let requests = match era {
                    Era::Legacy => calls(Some(&self.open_session()?)),
                    Era::Stateless => Arc::clone(&shared),
                };
                Ok(LoadClient {
                    requests,
                    first: client * arguments.len() / clients,
                })
            })
            .collect()
    }

    fn open_session(self) -> Result<String> {
        let client = json!({"name": "bench", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let begin = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let begin = self.post(&begin, &[]);
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let own = Arc::new((self.port, self.token.map(str::to_owned)));
        RuntimeFlavour::OneThread.run(async move {
            let (port, token) = &*own;
            let server = McpEndpoint {
                port: *port,
                token: token.as_deref(),
            };
            let mut connection = RawConnection::open(*port).await?;
            let answer = connection.exchange(&begin).await?;
            answer.check()?;
            let session = answer.session.context("the server opened no session")?;
            let ready = server.post(&ready, &[("mcp-session-id", &session)]);
            connection.exchange(&ready).await?.check()?;
            Ok(session)
        })
    }

    fn call(self, tool: &str, arguments: &Value, session: Option<&str>) -> Vec<u8> {
        let mut params = json!({"name": tool, "arguments": arguments});
        let version = hermes_testkit::STATELESS;
        let headers = if let Some(session) = session {
            vec![
                ("mcp-session-id", session),
                ("mcp-protocol-version", "2025-11-25"),
            ]
        } else {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            vec![
                ("mcp-protocol-version", version),
                ("mcp-method", "tools/call"),
                ("mcp-name", tool),
            ]
        };
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        self.post(&body, &headers)
    }

    fn post(self, body: &Value, headers: &[(&str, &str)]) -> Vec<u8> {
        let body = body.to_string();
        let mut request = format!(
            "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: {}\r\n",
            self.port,
            body.len()
        );
        if let Some(token) = self.token {
            request += "authorization: Bearer ";
            request += token;
            request += "\r\n";
        }
        for (name, value) in headers.iter().copied() {
            for part in [name, ": ", value, "\r\n"] {
                request += part;
            }
        }
        request += "\r\n";
        request += &body;
        request.into_bytes()
    }
}
