//! The OpenAPI document.

use serde_json::{Map, Value, json};

use crate::{
    Code,
    operations::{Access, Effect, Kind, Operation, Output, Place, USUAL_ERRORS, Verb, table},
};

pub fn document(public_url: &str) -> Value {
    let mut paths = Map::new();
    for operation in table().rows() {
        let path = operation.path.replace("{*", "{");
        let item = paths.entry(path).or_insert_with(|| json!({}));
        for verb in operation.verbs {
            item[verb.word().to_lowercase()] = describe(operation, *verb);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Hermes Hub",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Manages many Hermes agents. The same operations are offered as MCP tools at `/mcp`.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": public_url}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "A management token."}},
            "schemas": {"Problem": problem_schema()},
        },
    })
}

fn describe(operation: &Operation, verb: Verb) -> Value {
    let suffix = if verb == operation.verb() {
        String::new()
    } else {
        format!("_{}", verb.word().to_lowercase())
    };
    let mut described = json!({
        "operationId": format!("{}{suffix}", operation.name),
        "summary": operation.title,
        "description": operation.description,
        "tags": [tag(operation)],
        "parameters": parameters(operation, verb),
        "responses": responses(operation, verb),
    });
    if let Some(body) = body(operation, verb) {
        described["requestBody"] = body;
    }
    match operation.access {
        Access::Open => described["security"] = json!([]),
        Access::AnyToken => {}
        Access::Scope(scope) => described["x-scope"] = scope.word().into(),
    }
    described
}

/// The first literal part of the route.
fn tag(operation: &Operation) -> &str {
    let parts: Vec<&str> = operation
        .path
        .split('/')
        .skip(2)
        .filter(|part| !part.starts_with('{'))
        .collect();
    match parts[..] {
        ["tenants", family, ..] | [family, ..] => family,
        [] => "hub",
    }
}

fn place(operation: &Operation, verb: Verb, place: Place) -> Place {
    match place {
        Place::Path => Place::Path,
        _ if verb == operation.verb() => place,
        _ if verb.has_body() => Place::Body,
        _ => Place::Query,
    }
}

fn parameters(operation: &Operation, verb: Verb) -> Vec<Value> {
    let members = operation.input.members.iter();
    let mut parameters: Vec<Value> = members
        .filter_map(|member| {
            let (location, name) = match place(operation, verb, member.place) {
                Place::Path => ("path", &member.name),
                Place::Query => ("query", &member.rest_name),
                Place::Body => return None,
            };
            let mut parameter = json!({
                "name": name,
                "in": location,
                "required": location == "path" || member.is_required,
                "schema": member.schema,
            });
            if member.kind == Kind::List {
                parameter["explode"] = false.into();
            }
            if let Some(description) = member.schema.get("description") {
                parameter["description"] = description.clone();
            }
            Some(parameter)
        })
        .collect();
    parameters.extend(headers(operation, verb));
    parameters
}

/// Headers that the operation uses.
fn headers(operation: &Operation, verb: Verb) -> Vec<Value> {
    let takes = |name: &str, schema: Value, description: &str| json!({"name": name, "in": "header", "required": false, "schema": schema, "description": description});
    let text = || json!({"type": "string"});
    let mut headers = Vec::new();
    if keeps_replies(operation, verb) {
        let schema = json!({"type": "string", "minLength": 1, "maxLength": 128});
        let description = "The same key gives the same reply; the request happens once.";
        headers.push(takes("Idempotency-Key", schema, description));
    }
    if operation.errors.contains(&412) {
        let description = "The version that is to be changed.";
        headers.push(takes("If-Match", text(), description));
    }
    if operation.is_versioned {
        let description = "A version that is known; the reply is 304 if there is no other.";
        headers.push(takes("If-None-Match", text(), description));
    }
    match operation.output {
        Output::Events => {
            let schema = json!({"type": "integer", "minimum": 0});
            headers.push(takes(
                "Last-Event-ID",
                schema,
                "The last event that was seen.",
            ));
        }
        Output::Bytes(_) if operation.success.contains(&206) => {
            headers.push(takes(
                "Range",
                text(),
                "A part of the file, such as `bytes=0-99`.",
            ));
        }
        _ => {}
    }
    headers
}

fn keeps_replies(operation: &Operation, verb: Verb) -> bool {
    verb == Verb::Post && operation.effect != Effect::Reads
}

fn body(operation: &Operation, verb: Verb) -> Option<Value> {
    if !verb.has_body() {
        return None;
    }
    let members: Vec<_> = operation
        .input
        .members
        .iter()
        .filter(|member| place(operation, verb, member.place) == Place::Body)
        .collect();
    if members.is_empty() {
        return None;
    }
    let required: Vec<_> = members
        .iter()
        .filter(|member| member.is_required)
        .map(|member| member.rest_name.clone())
        .collect();
    let schema = if let Some(whole) = operation.input.whole_body {
        let whole = members.iter().find(|member| member.name == whole)?;
        whole.schema.clone()
    } else {
        let properties: Map<String, Value> = members
            .iter()
            .map(|member| (member.rest_name.clone(), member.schema.clone()))
            .collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    };
    Some(
        json!({"required": !required.is_empty(), "content": {"application/json": {"schema": schema}}}),
    )
}

fn responses(operation: &Operation, verb: Verb) -> Value {
    let mut responses = Map::new();
    for status in operation.success {
        let mut response = json!({"description": phrase(*status)});
        if let Some(content) = content(operation) {
            response["content"] = content;
        }
        responses.insert(status.to_string(), response);
    }
    if operation.is_versioned {
        responses.insert("304".into(), json!({"description": phrase(304)}));
    }
    for status in errors(operation, verb) {
        let problem = json!({"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}});
        let response = json!({"description": phrase(status), "content": problem});
        responses.entry(status.to_string()).or_insert(response);
    }
    Value::Object(responses)
}

fn content(operation: &Operation) -> Option<Value> {
    let mut content = match &operation.output {
        Output::Empty => return None,
        Output::Json(schema) => json!({"application/json": {"schema": schema}}),
        Output::Events => json!({"text/event-stream": {}}),
        Output::Bytes(media) => media
            .iter()
            .map(|media| ((*media).to_owned(), json!({})))
            .collect(),
    };
    if let Some(media) = operation.other_media {
        content[media] = json!({});
    }
    Some(content)
}

fn errors(operation: &Operation, verb: Verb) -> Vec<u16> {
    let usual: &[u16] = if operation.access == Access::Open {
        &[400, 403, 500]
    } else {
        &USUAL_ERRORS
    };
    let of_body: &[u16] = if verb.has_body() { &[408, 415] } else { &[] };
    let of_key: &[u16] = if keeps_replies(operation, verb) {
        &[409]
    } else {
        &[]
    };
    let of_change: &[u16] = match operation.effect {
        Effect::Reads => &[],
        Effect::Changes | Effect::Destroys => &[507],
    };
    let mut errors = [usual, of_body, of_key, of_change, operation.errors].concat();
    errors.sort_unstable();
    errors
}

fn phrase(status: u16) -> &'static str {
    let status = http::StatusCode::from_u16(status).ok();
    status
        .and_then(|status| status.canonical_reason())
        .unwrap_or("Answer")
}

fn problem_schema() -> Value {
    let codes = [
        Code::InvalidArgument,
        Code::Unauthenticated,
        Code::PermissionDenied,
        Code::NotFound,
        Code::AlreadyExists,
        Code::FailedPrecondition,
        Code::PreconditionFailed,
        Code::PayloadTooLarge,
        Code::UnsupportedMediaType,
        Code::Unprocessable,
        Code::ResourceExhausted,
        Code::Internal,
        Code::Unimplemented,
        Code::Unavailable,
        Code::DeadlineExceeded,
    ];
    json!({
        "type": "object",
        "required": ["code", "message", "status"],
        "properties": {
            "code": {"type": "string", "enum": codes.map(Code::word)},
            "message": {"type": "string"},
            "status": {"type": "integer"},
            "reason": {"type": ["string", "null"]},
            "requestId": {"type": "string"},
            "details": {"type": "array", "items": {
                "type": "object",
                "properties": {"field": {"type": "string"}, "reason": {"type": "string"}},
            }},
            "retryAfterMs": {"type": ["integer", "null"]},
        },
    })
}
