//! Builds REST requests for operations from tool arguments.

use hermes_hub::operations::{Argument, ArgumentLocation, HttpMethod, Operation};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, RequestBuilder};
use serde_json::{Map, Value};

use crate::test_hub::TestHub;

#[derive(Debug, Clone)]
pub(crate) struct RestRequest {
    pub(crate) method: Method,
    /// Including the query.
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
}

impl RestRequest {
    /// The request for an operation with these arguments.
    pub(crate) fn new(operation: &Operation, verb: HttpMethod, arguments: &Value) -> Self {
        let mut path = operation.path.replace("{*", "{");
        let mut query = Vec::new();
        let mut body = Map::new();
        for (name, value) in arguments.as_object().unwrap() {
            let mut members = operation.input.arguments.iter();
            let member = members
                .find(|member| member.name == *name)
                .unwrap_or_else(|| panic!("{} has no `{name}`", operation.name));
            match argument_location(operation, verb, member) {
                ArgumentLocation::Path => {
                    let whole = operation.path.contains(&format!("{{*{name}}}"));
                    let text = encode_value(value);
                    let text = if whole {
                        text.replace("%2F", "/")
                    } else {
                        text
                    };
                    path = path.replace(&format!("{{{name}}}"), &text);
                }
                ArgumentLocation::Query => {
                    query.push(format!("{}={}", member.rest_name, encode_value(value)));
                }
                ArgumentLocation::Body if operation.input.whole_body == Some(name) => {
                    body.clone_from(value.as_object().unwrap());
                }
                ArgumentLocation::Body => {
                    body.insert(member.rest_name.clone(), value.clone());
                }
            }
        }
        if !query.is_empty() {
            path = format!("{path}?{}", query.join("&"));
        }
        Self {
            method: Method::from_bytes(verb.as_str().as_bytes()).unwrap(),
            path,
            body: verb.has_body().then_some(Value::Object(body)),
        }
    }

    pub(crate) fn build(&self, site: &TestHub, token: &str) -> RequestBuilder {
        let request = site.request(token, self.method.clone(), &self.path);
        match &self.body {
            Some(body) => request
                .header("content-type", "application/json")
                .body(body.to_string()),
            None => request,
        }
    }
}

fn argument_location(
    operation: &Operation,
    verb: HttpMethod,
    member: &Argument,
) -> ArgumentLocation {
    match member.location {
        ArgumentLocation::Path => ArgumentLocation::Path,
        place if verb == operation.method() => place,
        _ if verb.has_body() => ArgumentLocation::Body,
        _ => ArgumentLocation::Query,
    }
}

/// Percent-encodes a value for a URL.
pub(crate) fn encode_value(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string()
}
