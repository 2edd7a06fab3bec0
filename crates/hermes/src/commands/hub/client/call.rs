//! One call of an operation, the documents and pairs that verbs read for it, and the request that it is over REST.

use std::{io::Read as _, path::Path, time::Duration};

use hermes_hub::operations::{ArgumentLocation, HttpMethod, Operation, table};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use crate::failure::Failure;

/// What stays as it is in a segment of a path and in a query.
const UNESCAPED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// The same in a path of several segments.
const UNESCAPED_IN_PATHS: AsciiSet = UNESCAPED.remove(b'/');

/// An operation and its arguments, by the names of the table.
#[derive(Debug, Clone)]
pub(crate) struct HubCall {
    operation: &'static str,
    arguments: Map<String, Value>,
    /// A body that is not JSON, with its media type.
    bytes: Option<(&'static str, Vec<u8>)>,
    if_match: Option<String>,
    /// How long its reply may take, if that is longer than usual.
    timeout: Option<Duration>,
}

/// A request, as HTTP has it.
#[derive(Debug, PartialEq)]
pub(super) struct HubRequest {
    pub(super) verb: HttpMethod,
    /// With its query.
    pub(super) path: String,
    pub(super) body: Option<Value>,
    /// Instead of a JSON body, with its media type.
    pub(super) bytes: Option<(&'static str, Vec<u8>)>,
    pub(super) if_match: Option<String>,
    pub(super) timeout: Option<Duration>,
}

impl HubCall {
    /// A call of this operation.
    pub(crate) fn new(operation: &'static str) -> Self {
        Self {
            operation,
            arguments: Map::new(),
            bytes: None,
            if_match: None,
            timeout: None,
        }
    }

    /// Waits so long for the reply: what it asks for takes time.
    pub(crate) fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// With bytes as its body; other arguments are in the query then.
    pub(crate) fn with_bytes(mut self, media_type: &'static str, bytes: Vec<u8>) -> Self {
        self.bytes = Some((media_type, bytes));
        self
    }

    /// With an argument.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.arguments.insert(name.to_owned(), value.into());
        self
    }

    /// With an argument, if there is one.
    pub(crate) fn with_optional(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// With an argument that says yes, if it does.
    pub(crate) fn with_flag(self, name: &str, is_set: bool) -> Self {
        self.with_optional(name, is_set.then_some(true))
    }

    /// With a list, if it has items.
    pub(crate) fn with_list<T: Into<Value>>(self, name: &str, items: Vec<T>) -> Self {
        if items.is_empty() {
            return self;
        }
        self.with(name, items.into_iter().map(Into::into).collect::<Vec<_>>())
    }

    /// With all of these.
    pub(crate) fn with_all(mut self, arguments: Map<String, Value>) -> Self {
        self.arguments.extend(arguments);
        self
    }

    /// Whether it has this argument.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.arguments.contains_key(name)
    }

    /// The tenant it is about, where it is about one.
    pub(super) fn tenant(&self) -> Option<&str> {
        self.arguments.get("tenant_id").and_then(Value::as_str)
    }

    /// Only if what is changed still is this version.
    pub(crate) fn if_match(mut self, version: Option<String>) -> Self {
        self.if_match = version;
        self
    }

    /// The request that the table makes of it.
    pub(super) fn to_request(&self) -> Result<HubRequest, Failure> {
        let operation = table().find(self.operation).ok_or_else(|| {
            Failure::failed(format!(
                "this is a bug in hermes: there is no operation `{}`",
                self.operation
            ))
        })?;
        let has_json_body = operation.method().has_body() && self.bytes.is_none();
        Ok(HubRequest {
            if_match: self.if_match.clone(),
            bytes: self.bytes.clone(),
            timeout: self.timeout,
            ..build_request(operation, &self.arguments, has_json_body)
        })
    }
}

fn build_request(
    operation: &Operation,
    arguments: &Map<String, Value>,
    has_json_body: bool,
) -> HubRequest {
    let mut path = operation.path.to_owned();
    let mut query = Vec::new();
    let mut body = Map::new();
    for (name, value) in arguments {
        let member = operation
            .input
            .arguments
            .iter()
            .find(|member| member.name == *name);
        // What the table does not know goes to the Hub, which says what is wrong with it.
        let (spelled, location) = match member {
            Some(member) => (member.rest_name.as_str(), member.location),
            None if operation.method().has_body() => (name.as_str(), ArgumentLocation::Body),
            None => (name.as_str(), ArgumentLocation::Query),
        };
        match location {
            ArgumentLocation::Path => {
                let text = plain_text(value);
                path = path.replace(&format!("{{{name}}}"), &percent_encode(&text, &UNESCAPED));
                path = path.replace(
                    &format!("{{*{name}}}"),
                    &percent_encode(&text, &UNESCAPED_IN_PATHS),
                );
            }
            ArgumentLocation::Body if has_json_body => {
                body.insert(spelled.to_owned(), value.clone());
            }
            ArgumentLocation::Query | ArgumentLocation::Body => {
                query.push(format!(
                    "{spelled}={}",
                    percent_encode(&plain_text(value), &UNESCAPED)
                ));
            }
        }
    }
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    HubRequest {
        verb: operation.method(),
        path,
        body: has_json_body.then_some(Value::Object(body)),
        bytes: None,
        if_match: None,
        timeout: None,
    }
}

fn percent_encode(text: &str, kept: &'static AsciiSet) -> String {
    utf8_percent_encode(text, kept).to_string()
}

/// A value in a path or query: lists have commas between their items.
fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain_text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// The text of a file; `-` is stdin.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    if path.as_os_str() == "-" {
        return read_stdin();
    }
    std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("`{}` cannot be read: {error}", path.display())))
}

pub(crate) fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::usage(format!("stdin cannot be read as text: {error}")))?;
    Ok(text)
}

/// The JSON object of a file; `-` is stdin.
pub(crate) fn read_object(path: &Path) -> Result<Map<String, Value>, Failure> {
    let wrong = |reason: String| {
        Failure::usage(format!(
            "`{}` is not a JSON object: {reason}",
            path.display()
        ))
    };
    match serde_json::from_str(&read_text(path)?) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(wrong("it is another kind of value".into())),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// The object of a file, or none.
pub(crate) fn read_optional_object(path: Option<&Path>) -> Result<Map<String, Value>, Failure> {
    path.map_or_else(|| Ok(Map::new()), read_object)
}

/// The pairs of `NAME=VALUE` arguments.
pub(crate) fn parse_pairs(option: &str, texts: &[String]) -> Result<Map<String, Value>, Failure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.into())),
        _ => Err(Failure::usage(format!(
            "`{option} {text}` must be `NAME=VALUE`"
        ))),
    };
    texts.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_go_where_the_table_has_them() {
        let call = HubCall::new("list_share_files")
            .with("tenant_id", "acme")
            .with("group_id", "team")
            .with("path", "a b/ü&c");
        let request = call.to_request().unwrap();
        assert_eq!(request.verb, HttpMethod::Get);
        assert_eq!(
            request.path,
            "/v1/tenants/acme/shares/team/files?path=a%20b%2F%C3%BC%26c"
        );
        assert_eq!(request.body, None);

        let call = HubCall::new("sync_context")
            .with("tenant_id", "acme")
            .with("destination", "there")
            .with_flag("dry_run", true)
            .with_flag("delete", false);
        let request = call.to_request().unwrap();
        assert_eq!(request.path, "/v1/tenants/acme/context/sync");
        assert_eq!(
            request.body,
            Some(json!({"destination": "there", "dryRun": true}))
        );
    }

    #[test]
    fn an_id_cannot_lead_to_another_route() {
        let call = HubCall::new("get_tenant").with("tenant_id", "../tokens?x=1");
        let request = call.to_request().unwrap();
        assert_eq!(request.path, "/v1/tenants/..%2Ftokens%3Fx%3D1");
    }

    #[test]
    fn paths_of_files_keep_their_slashes() {
        let call = HubCall::new("get_tenant_skill_file")
            .with("tenant_id", "acme")
            .with("path", "writing/SKILL.md");
        assert_eq!(
            call.to_request().unwrap().path,
            "/v1/tenants/acme/skill-files/writing/SKILL.md"
        );
    }
}
