//! Names and shapes of the wire: revisions, `_meta` keys, error codes, JSON-RPC envelopes.

use serde_json::{Value, json};

/// The stateless revision.
pub const STATELESS: &str = "2026-07-28";
/// Revisions that start with `initialize`, newest first.
pub const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const META_CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const META_CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub(crate) const META_SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
pub(crate) const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

pub(crate) const PARSE_ERROR: i64 = -32700;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;
pub(crate) const HEADER_MISMATCH: i64 = -32020;
pub(crate) const MISSING_CAPABILITY: i64 = -32021;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    pub(crate) fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    pub(crate) fn response(&self, id: &Value) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    }
}

pub(crate) fn response(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// Stands in a message for an array that is nested this deep, which no [`Value`] should be.
pub(crate) fn nested_marker(levels: usize) -> Value {
    json!(format!("{NESTED}{levels}"))
}

const NESTED: &str = "testkit:nested:";

/// A message as it is sent.
pub(crate) fn message_text(message: &Value) -> String {
    let text = message.to_string();
    let expanded = || {
        let (before, rest) = text.split_once(&format!("\"{NESTED}"))?;
        let (levels, after) = rest.split_once('"')?;
        let levels = levels.parse().ok()?;
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        Some(format!("{before}{open}{close}{after}"))
    };
    expanded().unwrap_or(text)
}

pub(crate) fn request(id: &Value, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub(crate) fn notification(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// Whether a message ends a request.
pub(crate) fn is_final(message: &Value) -> bool {
    message.get("method").is_none()
}

/// The code of an error response.
pub(crate) fn error_code(message: &Value) -> Option<i64> {
    message.pointer("/error/code").and_then(Value::as_i64)
}

/// The revision that a stateless request names.
pub(crate) fn stateless_version(params: &Value) -> Option<&str> {
    params.get("_meta")?.get(META_VERSION)?.as_str()
}

/// Whether a request carries the metadata that the stateless era demands.
pub(crate) fn is_well_formed(params: &Value) -> bool {
    stateless_version(params).is_some() && params["_meta"].get(META_CLIENT_CAPABILITIES).is_some()
}
