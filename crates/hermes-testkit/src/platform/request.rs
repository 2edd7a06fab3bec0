//! What a platform was asked: JSON, web forms, and forms with files.

use axum::http::HeaderMap;
use serde_json::{Map, Value};

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct PlatformRequest {
    /// `GET`, `POST`.
    pub method: String,
    pub path: String,
    /// What follows the path, after its question mark.
    pub query: String,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// The `Content-Length` header.
    pub content_length: Option<u64>,
    /// The fields: a JSON object, or those of a form, as texts.
    pub body: Value,
    /// The files of a form.
    pub files: Vec<FormPart>,
    /// The body as it is, where it is neither.
    pub bytes: Vec<u8>,
}

/// A file in a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormPart {
    /// The field.
    pub name: String,
    pub file_name: String,
    /// What is in it.
    pub content: Vec<u8>,
}

impl PlatformRequest {
    pub(crate) fn new(method: &str, path: &str, headers: &HeaderMap, bytes: &[u8]) -> Self {
        let header = |name: &str| {
            let value = headers.get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let mut request = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: String::new(),
            authorization: header("authorization"),
            content_length: header("content-length").and_then(|text| text.parse().ok()),
            body: Value::Null,
            files: Vec::new(),
            bytes: Vec::new(),
        };
        let content_type = header("content-type").unwrap_or_default();
        if let Some((_, boundary)) = content_type.split_once("boundary=") {
            request.read_form(bytes, boundary);
        } else if content_type.starts_with("application/json") {
            request.body = serde_json::from_slice(bytes).unwrap_or_default();
        } else if content_type.starts_with("application/x-www-form-urlencoded")
            // Slack takes the content of a file under any name.
            && !path.starts_with("/upload/")
        {
            request.body = fields(&String::from_utf8_lossy(bytes)).into();
        } else {
            request.bytes = bytes.to_vec();
        }
        request
    }

    /// Takes the fields of the address, where there is no body.
    pub(super) fn read_query(&mut self, query: Option<&str>) {
        query.unwrap_or_default().clone_into(&mut self.query);
        if let (Value::Null, Some(query)) = (&self.body, query) {
            self.body = fields(query).into();
        }
    }

    /// A field, as text.
    pub fn field(&self, name: &str) -> String {
        match &self.body[name] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// The last part of the path: the method, for Telegram and Slack.
    pub fn last_segment(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    fn read_form(&mut self, bytes: &[u8], boundary: &str) {
        let mut fields = Map::new();
        let separator = format!("--{boundary}");
        for part in split(bytes, separator.as_bytes()) {
            let Some(at) = find(part, b"\r\n\r\n") else {
                continue;
            };
            let head = String::from_utf8_lossy(&part[..at]).into_owned();
            let content = &part[at + 4..part.len().saturating_sub(2)];
            let value = |key: &str| {
                let (_, rest) = head.split_once(&format!(" {key}=\""))?;
                rest.split_once('"').map(|(value, _)| value.to_owned())
            };
            let name = value("name").unwrap_or_default();
            if let Some(file_name) = value("filename") {
                self.files.push(FormPart {
                    name,
                    file_name,
                    content: content.to_vec(),
                });
            } else {
                let text = String::from_utf8_lossy(content).into_owned();
                fields.insert(name, text.into());
            }
        }
        self.body = fields.into();
    }
}

fn fields(text: &str) -> Map<String, Value> {
    let pairs = url::form_urlencoded::parse(text.as_bytes());
    pairs
        .map(|(name, value)| (name.into_owned(), value.into_owned().into()))
        .collect()
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

fn split<'b>(bytes: &'b [u8], separator: &[u8]) -> Vec<&'b [u8]> {
    let mut parts = Vec::new();
    let mut rest = bytes;
    while let Some(at) = find(rest, separator) {
        parts.push(&rest[..at]);
        rest = &rest[at + separator.len()..];
    }
    parts
}
