//! A fast path for tool calls.
//!
//! A call is one document in and one out, but rmcp sends each through several tasks and a stream. A call that follows
//! the protocol in every respect is answered here; any other is passed to rmcp, which reports what is wrong.

use std::borrow::Cow;

use ::http::{HeaderMap, header, request::Parts};
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use hermes_mcp::{Era, serve::http::InOpenSession};
use rmcp::model::{ClientCapabilities, ProtocolVersion, RequestId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{CheckedBody, connection, tools};
use crate::{
    Hub, Problem,
    http::{mcp::tools::ResultDocument, rest},
};

const METHOD: &str = "tools/call";
const STATELESS_VERSION: ProtocolVersion = ProtocolVersion::V_2026_07_28;
const SESSION_VERSIONS: [ProtocolVersion; 3] = [
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
];

/// A plain call: with any other member it is passed to rmcp.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallMessage<'a> {
    jsonrpc: &'a str,
    id: RequestId,
    method: &'a str,
    #[serde(borrow)]
    params: CallParams<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallParams<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    arguments: Map<String, Value>,
    #[serde(rename = "_meta", default, borrow)]
    meta: CallMeta<'a>,
}

/// A call that asks for progress, or anything else, is passed to rmcp.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallMeta<'a> {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", default)]
    version: Option<&'a str>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", default)]
    capabilities: Option<ClientCapabilities>,
    #[serde(rename = "io.modelcontextprotocol/clientInfo", default, borrow)]
    _client: Option<CallClient<'a>>,
    #[serde(rename = "hermes.hub/idempotencyKey", default)]
    idempotency_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallClient<'a> {
    #[serde(rename = "name", borrow)]
    _name: Cow<'a, str>,
    #[serde(rename = "version", borrow)]
    _version: Cow<'a, str>,
    #[serde(rename = "title", default, borrow)]
    _title: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct CallResponse<'a> {
    jsonrpc: &'static str,
    id: RequestId,
    result: ResultDocument<'a>,
}

/// Answers plain calls, and passes everything else on. Host, origin, token and session have been checked.
pub(super) async fn handle_call(State(hub): State<Hub>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match answer_call(&hub, &parts).await {
        Some(response) => response,
        None => next.run(Request::from_parts(parts, body)).await,
    }
}

async fn answer_call(hub: &Hub, parts: &Parts) -> Option<Response> {
    let era = detect_era(parts)?;
    let headers = &parts.headers;
    let CheckedBody(body) = parts.extensions.get()?;
    let CallMessage {
        jsonrpc,
        id,
        method,
        params,
    } = serde_json::from_slice(body).ok()?;
    let is_right = match era {
        Era::Stateless => {
            params.meta.version == Some(STATELESS_VERSION.as_str())
                && params.meta.capabilities.is_some()
                && has_header(headers, "mcp-method", METHOD)
                && has_header(headers, "mcp-name", &params.name)
        }
        Era::Legacy => params.meta.version.is_none(),
    };
    if !is_right || jsonrpc != "2.0" || method != METHOD {
        return None;
    }
    let operation = tools::find_tool(&params.name, &hub.settings().mcp)?;
    let key = params.meta.idempotency_key;
    let answer =
        connection::call_operation(hub, operation, params.arguments, key, &parts.extensions).await;
    let mut body = Vec::with_capacity(answer.size());
    let sent = CallResponse {
        jsonrpc: "2.0",
        id,
        result: answer.to_document(era),
    };
    Some(match serde_json::to_writer(&mut body, &sent) {
        Ok(()) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        // The call has been executed, so it must not be passed on to rmcp.
        Err(error) => {
            let id = parts.extensions.get().cloned();
            let id = id.unwrap_or_else(rest::RequestId::random);
            rest::problem_response(&Problem::internal(&error), &id)
        }
    })
}

/// The era of a plain request; `None` if its headers ask for anything else.
fn detect_era(parts: &Parts) -> Option<Era> {
    let headers = &parts.headers;
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let accept = text(header::ACCEPT)?;
    let takes_both = accept.contains("application/json") && accept.contains("text/event-stream");
    let is_json = text(header::CONTENT_TYPE)?.starts_with("application/json");
    let names_parameters = || {
        let mut names = headers.keys();
        names.any(|name| name.as_str().starts_with("mcp-param-"))
    };
    if !takes_both || !is_json || names_parameters() {
        return None;
    }
    let version =
        |version: &ProtocolVersion| has_header(headers, "mcp-protocol-version", version.as_str());
    if parts.extensions.get::<InOpenSession>().is_some() {
        let is_known =
            !headers.contains_key("mcp-protocol-version") || SESSION_VERSIONS.iter().any(version);
        return is_known.then_some(Era::Legacy);
    }
    (version(&STATELESS_VERSION) && !headers.contains_key("mcp-session-id"))
        .then_some(Era::Stateless)
}

/// Whether a header occurs once, with this value.
fn has_header(headers: &HeaderMap, name: &str, value: &str) -> bool {
    let mut values = headers.get_all(name).iter();
    values.next().is_some_and(|first| first == value) && values.next().is_none()
}
