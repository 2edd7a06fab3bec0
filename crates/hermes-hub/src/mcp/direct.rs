//! Calls of tools in the stateless era, by a short way.
//!
//! Such a call is one document in and one out. The protocol library makes a server, a peer and a stream for each, in
//! case it needs them. A call that is in every respect as the protocol wants it is answered here; any other goes on to
//! the library, which knows what to say to it.

use std::borrow::Cow;

use ::http::{HeaderMap, header, request::Parts};
use axum::response::{IntoResponse, Response};
use rmcp::model::{ClientCapabilities, ProtocolVersion, RequestId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{answer::Document, connection, tools};
use crate::{Hub, Problem, rest::problem_response};

const METHOD: &str = "tools/call";

/// A call and nothing else: with any further member it is not for here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message<'a> {
    jsonrpc: &'a str,
    id: RequestId,
    method: &'a str,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    arguments: Map<String, Value>,
    #[serde(rename = "_meta", borrow)]
    meta: Meta<'a>,
}

/// A call that wants to hear of progress, or anything else, needs the library.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta<'a> {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    version: &'a str,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    _capabilities: ClientCapabilities,
    #[serde(rename = "io.modelcontextprotocol/clientInfo", default, borrow)]
    _client: Option<Client<'a>>,
    #[serde(rename = "hermes.hub/idempotencyKey", default)]
    idempotency_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Client<'a> {
    #[serde(rename = "name", borrow)]
    _name: Cow<'a, str>,
    #[serde(rename = "version", borrow)]
    _version: Cow<'a, str>,
    #[serde(rename = "title", default, borrow)]
    _title: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct Sent<'a> {
    jsonrpc: &'static str,
    id: RequestId,
    result: Document<'a>,
}

/// The answer to an ordinary call. Names, pages and the token have been checked, and that the body is strict JSON.
pub(super) async fn answer(
    hub: &Hub,
    parts: &Parts,
    body: &[u8],
    request_id: &crate::rest::RequestId,
) -> Option<Response> {
    if !is_ordinary(&parts.headers) {
        return None;
    }
    let Message {
        jsonrpc,
        id,
        method,
        params,
    } = serde_json::from_slice(body).ok()?;
    let version = ProtocolVersion::V_2026_07_28;
    let is_ordinary = jsonrpc == "2.0"
        && method == METHOD
        && params.meta.version == version.as_str()
        && is_said(&parts.headers, "mcp-protocol-version", version.as_str())
        && is_said(&parts.headers, "mcp-method", METHOD)
        && is_said(&parts.headers, "mcp-name", &params.name);
    if !is_ordinary {
        return None;
    }
    let operation = tools::find(&params.name, &hub.settings().mcp)?;
    let key = params.meta.idempotency_key;
    let answer = connection::call(hub, operation, params.arguments, key, parts).await;
    let sent = serde_json::to_vec(&Sent {
        jsonrpc: "2.0",
        id,
        result: answer.to_document(),
    });
    Some(match sent {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        // The call has been carried out, so the library must not do it again.
        Err(error) => problem_response(&Problem::internal(&error), request_id),
    })
}

/// Whether the headers ask for nothing but the answer to one request without a session.
fn is_ordinary(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let takes_both = text(header::ACCEPT).is_some_and(|accept| {
        accept.contains("application/json") && accept.contains("text/event-stream")
    });
    let is_json =
        text(header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/json"));
    let names_parameters = || {
        let mut names = headers.keys();
        names.any(|name| name.as_str().starts_with("mcp-param-"))
    };
    takes_both && is_json && !headers.contains_key("mcp-session-id") && !names_parameters()
}

/// Whether a header is there once, with this value.
fn is_said(headers: &HeaderMap, name: &str, value: &str) -> bool {
    let mut values = headers.get_all(name).iter();
    values.next().is_some_and(|first| first == value) && values.next().is_none()
}
