//! The OpenAPI document.

use serde_json::{Map, Value, json};

use crate::{
    ProblemCode,
    operations::{
        ArgumentKind, ArgumentLocation, COMMON_ERRORS, Effect, HttpMethod, Operation, Output,
        RequiredAccess, table,
    },
};

pub fn build_document(public_url: &str) -> Value {
    let mut paths = Map::new();
    for operation in table().rows() {
        let path = operation.path.replace("{*", "{");
        let item = paths.entry(path).or_insert_with(|| json!({}));
        for verb in operation.methods {
            item[verb.as_str().to_lowercase()] = describe_operation(operation, *verb);
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

fn describe_operation(operation: &Operation, verb: HttpMethod) -> Value {
    let suffix = if verb == operation.method() {
        String::new()
    } else {
        format!("_{}", verb.as_str().to_lowercase())
    };
    let mut described = json!({
        "operationId": format!("{}{suffix}", operation.name),
        "summary": operation.title,
        "description": operation.description,
        "tags": [operation_tag(operation)],
        "parameters": parameters(operation, verb),
        "responses": responses(operation, verb),
    });
    if let Some(body) = request_body(operation, verb) {
        described["requestBody"] = body;
    }
    match operation.access {
        RequiredAccess::Public => described["security"] = json!([]),
        RequiredAccess::AnyToken => {}
        RequiredAccess::Scope(scope) => described["x-scope"] = scope.as_str().into(),
    }
    described
}

/// The first literal part of the route.
fn operation_tag(operation: &Operation) -> &str {
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

fn argument_location(
    operation: &Operation,
    verb: HttpMethod,
    location: ArgumentLocation,
) -> ArgumentLocation {
    match location {
        ArgumentLocation::Path => ArgumentLocation::Path,
        _ if verb == operation.method() => location,
        _ if verb.has_body() => ArgumentLocation::Body,
        _ => ArgumentLocation::Query,
    }
}

fn parameters(operation: &Operation, verb: HttpMethod) -> Vec<Value> {
    let members = operation.input.arguments.iter();
    let mut parameters: Vec<Value> = members
        .filter_map(|member| {
            let (location, name) = match argument_location(operation, verb, member.location) {
                ArgumentLocation::Path => ("path", &member.name),
                ArgumentLocation::Query => ("query", &member.rest_name),
                ArgumentLocation::Body => return None,
            };
            let mut parameter = json!({
                "name": name,
                "in": location,
                "required": location == "path" || member.is_required,
                "schema": member.schema,
            });
            if member.kind == ArgumentKind::List {
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
fn headers(operation: &Operation, verb: HttpMethod) -> Vec<Value> {
    let takes = |name: &str, schema: Value, description: &str| json!({"name": name, "in": "header", "required": false, "schema": schema, "description": description});
    let text = || json!({"type": "string"});
    let mut headers = Vec::new();
    if accepts_idempotency_key(operation, verb) {
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

fn accepts_idempotency_key(operation: &Operation, verb: HttpMethod) -> bool {
    verb == HttpMethod::Post && operation.effect != Effect::Read
}

fn request_body(operation: &Operation, verb: HttpMethod) -> Option<Value> {
    if !verb.has_body() {
        return None;
    }
    let members: Vec<_> = operation
        .input
        .arguments
        .iter()
        .filter(|member| {
            argument_location(operation, verb, member.location) == ArgumentLocation::Body
        })
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
    let mut content = json!({"application/json": {"schema": schema}});
    if operation.input.takes_yaml {
        content["application/yaml"] = json!({"schema": schema});
    }
    for media in operation
        .input
        .bytes_body
        .iter()
        .flat_map(|bytes| bytes.media_types)
    {
        content[*media] = json!({"schema": {"type": "string", "format": "binary"}});
    }
    Some(json!({"required": !required.is_empty(), "content": content}))
}

fn responses(operation: &Operation, verb: HttpMethod) -> Value {
    let mut responses = Map::new();
    for status in operation.success {
        let mut response = json!({"description": reason_phrase(*status)});
        if let Some(content) = response_content(operation) {
            response["content"] = content;
        }
        responses.insert(status.to_string(), response);
    }
    if operation.is_versioned {
        responses.insert("304".into(), json!({"description": reason_phrase(304)}));
    }
    for status in error_statuses(operation, verb) {
        let problem = json!({"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}});
        let response = json!({"description": reason_phrase(status), "content": problem});
        responses.entry(status.to_string()).or_insert(response);
    }
    Value::Object(responses)
}

fn response_content(operation: &Operation) -> Option<Value> {
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

fn error_statuses(operation: &Operation, verb: HttpMethod) -> Vec<u16> {
    let usual: &[u16] = if operation.access == RequiredAccess::Public {
        &[400, 403, 500]
    } else {
        &COMMON_ERRORS
    };
    let of_body: &[u16] = if verb.has_body() { &[408, 415] } else { &[] };
    let of_key: &[u16] = if accepts_idempotency_key(operation, verb) {
        &[409]
    } else {
        &[]
    };
    let of_change: &[u16] = match operation.effect {
        Effect::Read => &[],
        Effect::Change | Effect::Destroy => &[507],
    };
    let mut errors = [usual, of_body, of_key, of_change, operation.errors].concat();
    errors.sort_unstable();
    errors
}

fn reason_phrase(status: u16) -> &'static str {
    let status = http::StatusCode::from_u16(status).ok();
    status
        .and_then(|status| status.canonical_reason())
        .unwrap_or("Answer")
}

fn problem_schema() -> Value {
    let codes = [
        ProblemCode::InvalidArgument,
        ProblemCode::Unauthenticated,
        ProblemCode::PermissionDenied,
        ProblemCode::NotFound,
        ProblemCode::AlreadyExists,
        ProblemCode::FailedPrecondition,
        ProblemCode::PreconditionFailed,
        ProblemCode::PayloadTooLarge,
        ProblemCode::UnsupportedMediaType,
        ProblemCode::Unprocessable,
        ProblemCode::ResourceExhausted,
        ProblemCode::Internal,
        ProblemCode::Unimplemented,
        ProblemCode::Unavailable,
        ProblemCode::DeadlineExceeded,
    ];
    json!({
        "type": "object",
        "required": ["code", "message", "status"],
        "properties": {
            "code": {"type": "string", "enum": codes.map(ProblemCode::as_str)},
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
