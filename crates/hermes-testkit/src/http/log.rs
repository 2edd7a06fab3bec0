//! What an HTTP server has been asked.

use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::script::lock;

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// GET, POST, DELETE, …
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
    /// Whether the client left before the reply was complete.
    pub abandoned: bool,
}

impl HttpRequest {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The body as a JSON-RPC message, `null` if it is none.
    pub fn message(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The JSON-RPC method, empty if there is none.
    pub fn rpc_method(&self) -> String {
        self.message()["method"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

/// All requests of a server.
#[derive(Debug, Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<HttpRequest>>>);

impl Log {
    pub(super) fn add(&self, request: HttpRequest) -> Entry {
        let mut requests = lock(&self.0);
        requests.push(request);
        Entry {
            log: self.clone(),
            index: requests.len() - 1,
        }
    }

    pub(super) fn requests(&self) -> Vec<HttpRequest> {
        lock(&self.0).clone()
    }
}

/// One request in the log.
#[derive(Debug)]
pub(super) struct Entry {
    log: Log,
    index: usize,
}

impl Entry {
    pub(super) fn mark_abandoned(&self) {
        if let Some(request) = lock(&self.log.0).get_mut(self.index) {
            request.abandoned = true;
        }
    }
}
