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
use hermes_config::trace_context::TraceContext;
use hermes_serve::{Era, http::InOpenSession};
use rmcp::model::{ClientCapabilities, ProtocolVersion, RequestId};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::{CheckedBody, connection, tools};
use crate::{
    Hub, Problem,
    http::{
        json::{self, deserialize_strict_object},
        mcp::tools::ToolResult,
        rest,
    },
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
    #[serde(default, deserialize_with = "deserialize_strict_object::<2, _>")]
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
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", default, borrow)]
    capabilities: Option<&'a RawValue>,
    #[serde(rename = "io.modelcontextprotocol/clientInfo", default, borrow)]
    _client: Option<CallClient<'a>>,
    #[serde(rename = "hermes.hub/idempotencyKey", default)]
    idempotency_key: Option<String>,
    #[serde(default, borrow)]
    traceparent: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    tracestate: Option<Cow<'a, str>>,
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

/// How deep a client's capabilities are nested in a message.
const CAPABILITIES_DEPTH: usize = 3;

/// Answers a plain call of the stateless era, whose body need not be checked before: it is read once, and strictly.
/// Host, origin and token have been checked.
pub(super) async fn answer_stateless_call(
    hub: &Hub,
    parts: &Parts,
    body: &[u8],
) -> Option<Response> {
    let era = detect_era(parts).filter(|era| *era == Era::Stateless)?;
    answer_call(hub, parts, era, body).await
}

/// Answers plain calls in sessions, and passes everything else on. Host, origin, token and session have been checked.
pub(super) async fn handle_session_call(
    State(hub): State<Hub>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    if let Some(era @ Era::Legacy) = detect_era(&parts)
        && let Some(CheckedBody(body)) = parts.extensions.get()
        && let Some(response) = answer_call(&hub, &parts, era, body).await
    {
        return response;
    }
    next.run(Request::from_parts(parts, body)).await
}

async fn answer_call(hub: &Hub, parts: &Parts, era: Era, body: &[u8]) -> Option<Response> {
    let headers = &parts.headers;
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
    let is_right = is_right && params.meta.capabilities.is_none_or(are_capabilities);
    if !is_right || jsonrpc != "2.0" || method != METHOD {
        return None;
    }
    let operation = tools::find_tool(&params.name, &hub.settings().mcp)?;
    let CallMeta {
        idempotency_key: key,
        traceparent,
        tracestate,
        ..
    } = params.meta;
    let trace = TraceContext::receive(traceparent.as_deref(), tracestate.as_deref());
    let arguments = params.arguments;
    let answer =
        connection::call_operation(hub, operation, arguments, key, trace, &parts.extensions).await;
    Some(match render_response(&id, &answer, era) {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        // The call has been executed, so it must not be passed on to rmcp.
        Err(error) => {
            let id = parts.extensions.get().cloned();
            let id = id.unwrap_or_else(rest::RequestId::random);
            rest::problem_response(&Problem::internal(&error), &id)
        }
    })
}

/// Whether this is what the protocol takes for capabilities. Most clients have none.
fn are_capabilities(sent: &RawValue) -> bool {
    let text = sent.get();
    text == "{}"
        || (json::check_strict_at(text.as_bytes(), CAPABILITIES_DEPTH).is_ok()
            && serde_json::from_str::<ClientCapabilities>(text).is_ok())
}

fn render_response(
    id: &RequestId,
    answer: &ToolResult,
    era: Era,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut body = Vec::with_capacity(answer.size());
    body.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    serde_json::to_writer(&mut body, id)?;
    body.extend_from_slice(br#","result":"#);
    answer.write_document(era, &mut body)?;
    body.push(b'}');
    Ok(body)
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
