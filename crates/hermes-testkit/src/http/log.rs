//! What an HTTP server has been asked.

use std::sync::{Arc, Mutex};

use axum::http::request::Parts;
use serde_json::Value;
use url::form_urlencoded;

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
    pub body: String,
    /// Whether the client left before the reply was complete.
    pub abandoned: bool,
}

impl HttpRequest {
    pub(crate) fn read(parts: &Parts, body: &[u8]) -> Self {
        let headers = parts.headers.iter().map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            (name.to_string(), value.into_owned())
        });
        let path = parts.uri.path_and_query();
        Self {
            method: parts.method.to_string(),
            path: path.map(ToString::to_string).unwrap_or_default(),
            headers: headers.collect(),
            body: String::from_utf8_lossy(body).into_owned(),
            abandoned: false,
        }
    }

    /// A parameter of the query or of a form in the body, decoded. One that is there twice is as good as absent.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        let is_form = self
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
        let form = if is_form { self.body.as_str() } else { "" };
        let pairs = [query, form]
            .into_iter()
            .flat_map(|text| form_urlencoded::parse(text.as_bytes()));
        let mut values = pairs.filter(|(known, _)| known == name);
        match (values.next(), values.next()) {
            (Some((_, value)), None) => Some(value.into_owned()),
            _ => None,
        }
    }

    pub fn path_without_query(&self) -> &str {
        self.path
            .split_once('?')
            .map_or(&self.path, |(path, _)| path)
    }

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
pub(super) struct RequestLog(Arc<Mutex<Vec<HttpRequest>>>);

impl RequestLog {
    pub(super) fn add(&self, request: HttpRequest) -> RequestLogEntry {
        let mut requests = lock(&self.0);
        requests.push(request);
        RequestLogEntry {
            log: self.clone(),
            index: requests.len() - 1,
        }
    }

    pub(super) fn requests(&self) -> Vec<HttpRequest> {
        lock(&self.0).clone()
    }
}

#[derive(Debug)]
pub(super) struct RequestLogEntry {
    log: RequestLog,
    index: usize,
}

impl RequestLogEntry {
    pub(super) fn mark_abandoned(&self) {
        if let Some(request) = lock(&self.log.0).get_mut(self.index) {
            request.abandoned = true;
        }
    }
}
