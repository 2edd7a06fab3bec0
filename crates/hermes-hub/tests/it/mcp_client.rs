//! MCP clients of both eras, as plain HTTP.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::test_hub::{HttpAnswer, TestHub};

#[derive(Debug, Clone)]
pub(crate) enum McpEra {
    /// With an MCP session of this id.
    Session(String),
    Stateless,
}

const STATELESS_VERSION: &str = "2026-07-28";

fn mcp_message(site: &TestHub, token: &str, body: &Value) -> RequestBuilder {
    site.request(token, Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .body(body.to_string())
}

pub(crate) fn initialize(site: &TestHub, token: &str) -> RequestBuilder {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    mcp_message(
        site,
        token,
        &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
    )
}

/// Opens an MCP session.
pub(crate) async fn open_session(site: &TestHub, token: &str) -> McpEra {
    let opened = site.send(initialize(site, token)).await;
    assert_eq!(opened.status, 200, "{}", opened.text);
    let id = opened.header("mcp-session-id").to_owned();
    let era = McpEra::Session(id.clone());
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let told = mcp_message(site, token, &initialized).header("mcp-session-id", id);
    assert_eq!(site.send(told).await.status, 202);
    era
}

/// A request in an era.
pub(crate) fn mcp_request(
    site: &TestHub,
    token: &str,
    era: &McpEra,
    method: &str,
    mut params: Value,
) -> RequestBuilder {
    match era {
        McpEra::Session(id) => {
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            mcp_message(site, token, &body)
                .header("mcp-session-id", id)
                .header("mcp-protocol-version", "2025-11-25")
        }
        McpEra::Stateless => {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": STATELESS_VERSION,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            });
            let own = params.get("_meta").cloned();
            params["_meta"] = meta;
            if let Some(Value::Object(own)) = own {
                params["_meta"].as_object_mut().unwrap().extend(own);
            }
            let name = params
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            let request = mcp_message(site, token, &body)
                .header("mcp-protocol-version", STATELESS_VERSION)
                .header("mcp-method", method);
            if name.is_empty() {
                request
            } else {
                request.header("mcp-name", name)
            }
        }
    }
}

/// The JSON-RPC message of an answer, from JSON or from the last event of a stream.
#[track_caller]
pub(crate) fn parse_reply(answer: &HttpAnswer) -> Value {
    if answer
        .header("content-type")
        .starts_with("text/event-stream")
    {
        let mut data = answer
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(str::trim);
        let last = data
            .rfind(|data| !data.is_empty())
            .unwrap_or_else(|| panic!("no event: {}", answer.text));
        return serde_json::from_str(last).unwrap();
    }
    answer.json()
}

pub(crate) async fn send_request(
    site: &TestHub,
    token: &str,
    era: &McpEra,
    method: &str,
    params: Value,
) -> Value {
    let answer = site
        .send(mcp_request(site, token, era, method, params))
        .await;
    assert_eq!(answer.status, 200, "{method}: {}", answer.text);
    parse_reply(&answer)
}

/// The result of a tool.
pub(crate) async fn call_tool(
    site: &TestHub,
    token: &str,
    era: &McpEra,
    tool: &str,
    arguments: &Value,
) -> Value {
    let reply = send_request(
        site,
        token,
        era,
        "tools/call",
        json!({"name": tool, "arguments": arguments}),
    )
    .await;
    assert!(reply["result"].is_object(), "{tool}: {reply}");
    reply["result"].clone()
}

/// The text of a successful tool call.
pub(crate) async fn call_for_text(
    site: &TestHub,
    token: &str,
    era: &McpEra,
    tool: &str,
    arguments: &Value,
) -> String {
    let result = call_tool(site, token, era, tool, arguments).await;
    assert_ne!(result["isError"], true, "{tool}: {result}");
    assert_eq!(result["content"].as_array().unwrap().len(), 1);
    let text = result["content"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(
        result["structuredContent"],
        serde_json::from_str::<Value>(&text).unwrap()
    );
    text
}

/// The problem of a failed tool call.
pub(crate) async fn call_for_problem(
    site: &TestHub,
    token: &str,
    era: &McpEra,
    tool: &str,
    arguments: &Value,
) -> Value {
    let result = call_tool(site, token, era, tool, arguments).await;
    assert_eq!(result["isError"], true, "{tool}: {result}");
    // It would have to match the tool's output schema.
    assert!(
        result.get("structuredContent").is_none(),
        "{tool}: {result}"
    );
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}
