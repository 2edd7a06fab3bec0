//! Builds REST requests for operations from tool arguments.

use hermes_hub::operations::{Member, Operation, Place, Verb};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, RequestBuilder};
use serde_json::{Map, Value};

use crate::site::Site;

#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    /// Including the query.
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
}

impl Asked {
    /// The request for an operation with these arguments.
    pub(crate) fn new(operation: &Operation, verb: Verb, arguments: &Value) -> Self {
        let mut path = operation.path.replace("{*", "{");
        let mut query = Vec::new();
        let mut body = Map::new();
        for (name, value) in arguments.as_object().unwrap() {
            let mut members = operation.input.members.iter();
            let member = members
                .find(|member| member.name == *name)
                .unwrap_or_else(|| panic!("{} has no `{name}`", operation.name));
            match place(operation, verb, member) {
                Place::Path => {
                    let whole = operation.path.contains(&format!("{{*{name}}}"));
                    let text = encoded(value);
                    let text = if whole {
                        text.replace("%2F", "/")
                    } else {
                        text
                    };
                    path = path.replace(&format!("{{{name}}}"), &text);
                }
                Place::Query => query.push(format!("{}={}", member.rest_name, encoded(value))),
                Place::Body if operation.input.whole_body == Some(name) => {
                    body.clone_from(value.as_object().unwrap());
                }
                Place::Body => {
                    body.insert(member.rest_name.clone(), value.clone());
                }
            }
        }
        if !query.is_empty() {
            path = format!("{path}?{}", query.join("&"));
        }
        Self {
            method: Method::from_bytes(verb.word().as_bytes()).unwrap(),
            path,
            body: verb.has_body().then_some(Value::Object(body)),
        }
    }

    pub(crate) fn request(&self, site: &Site, token: &str) -> RequestBuilder {
        let request = site.request(token, self.method.clone(), &self.path);
        match &self.body {
            Some(body) => request
                .header("content-type", "application/json")
                .body(body.to_string()),
            None => request,
        }
    }
}

fn place(operation: &Operation, verb: Verb, member: &Member) -> Place {
    match member.place {
        Place::Path => Place::Path,
        place if verb == operation.verb() => place,
        _ if verb.has_body() => Place::Body,
        _ => Place::Query,
    }
}

/// Percent-encodes a value for a URL.
pub(crate) fn encoded(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string()
}
