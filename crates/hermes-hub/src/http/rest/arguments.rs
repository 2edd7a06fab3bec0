//! The arguments of a REST request, merged from route, query and body.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    body::Body,
    extract::{RawPathParams, Request},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::{
    Problem, ProblemCode,
    http::json,
    operations::{
        Argument, ArgumentKind, ArgumentLocation, HttpMethod, NamingStyle, Operation,
        manifest_members::read_yaml_manifest,
    },
};

const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads all arguments, by their tool names. The text of a document in YAML is left in `yaml`.
pub(crate) async fn read_arguments(
    most_bytes: usize,
    operation: &Operation,
    verb: HttpMethod,
    mut arguments: Map<String, Value>,
    request: Request,
    yaml: Arc<OnceLock<String>>,
) -> Result<Map<String, Value>, Problem> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let media = media_type(request.headers());
    let bytes_body = operation
        .input
        .bytes_body
        .filter(|bytes| verb.has_body() && bytes.media_types.contains(&media.as_str()));
    let has_json_body = verb.has_body() && bytes_body.is_none();
    add_query(operation, has_json_body, &query, &mut arguments)?;
    if let Some(format) = accepted_format(operation, request.headers()) {
        arguments.entry("format").or_insert_with(|| format.into());
    }
    if !verb.has_body() {
        return Ok(arguments);
    }
    let is_json = is_json(&media);
    let body = read_body(request.into_body(), most_bytes).await?;
    if let Some(bytes) = bytes_body {
        arguments.insert(
            bytes.member.to_owned(),
            BASE64_STANDARD.encode(&body).into(),
        );
        return Ok(arguments);
    }
    if body.is_empty() {
        return Ok(arguments);
    }
    if let (true, Some(whole)) = (
        operation.input.takes_yaml && is_yaml(&media),
        operation.input.whole_body,
    ) {
        let Ok(text) = std::str::from_utf8(&body) else {
            return Err(Problem::invalid("the body is not valid UTF-8"));
        };
        arguments.insert(whole.to_owned(), read_yaml_manifest(text)?.into());
        // Read once.
        let _ = yaml.set(text.to_owned());
        return Ok(arguments);
    }
    if !is_json {
        let mut known = vec!["application/json"];
        if operation.input.takes_yaml {
            known.push("application/yaml");
        }
        known.extend(
            operation
                .input
                .bytes_body
                .iter()
                .flat_map(|bytes| bytes.media_types),
        );
        return Err(Problem::new(
            ProblemCode::UnsupportedMediaType,
            format!("send the body as `Content-Type: {}`", known.join("` or `")),
        ));
    }
    let Value::Object(members) = json::parse_strict(&body)? else {
        return Err(Problem::invalid("the body must be a JSON object"));
    };
    add_body(operation, verb, members, &mut arguments)?;
    Ok(arguments)
}

pub(crate) fn path_arguments(operation: &Operation, path: &RawPathParams) -> Map<String, Value> {
    let known = operation
        .input
        .arguments
        .iter()
        .filter(|member| member.location == ArgumentLocation::Path);
    known
        .filter_map(|member| {
            let (_, value) = path.iter().find(|(name, _)| *name == member.name)?;
            let value = if member.kind == ArgumentKind::Integer {
                value
                    .parse::<u64>()
                    .map_or_else(|_| value.into(), Value::from)
            } else {
                value.into()
            };
            Some((member.name.clone(), value))
        })
        .collect()
}

/// Reads a body with a size limit and a timeout.
pub(crate) async fn read_body(body: Body, most: usize) -> Result<Bytes, Problem> {
    let collected = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, most).collect()).await;
    match collected {
        Err(_) => Err(Problem::new(
            ProblemCode::RequestTimeout,
            "the body did not arrive in time; send it faster",
        )),
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::new(
            ProblemCode::PayloadTooLarge,
            format!("the body is larger than {most} bytes (`limits.body_bytes`)"),
        )),
        Ok(Err(_)) => Err(Problem::invalid("the body ended too early")),
    }
}

/// The `format` of a reply that is not JSON, if the caller rather has that.
fn accepted_format(operation: &Operation, headers: &HeaderMap) -> Option<&'static str> {
    let other = operation.other_media?;
    let format = match other {
        "text/csv" => "csv",
        "application/x-ndjson" => "ndjson",
        _ => return None,
    };
    let accepted = headers.get(header::ACCEPT)?.to_str().ok()?;
    let quality_of = |media: &str| {
        let mut ranges = accepted.split(',').map(|range| range.split(';'));
        let mut range = ranges.find_map(|mut range| {
            let name = range.next()?.trim();
            name.eq_ignore_ascii_case(media).then_some(range)
        })?;
        let quality = range.find_map(|parameter| parameter.trim().strip_prefix("q="));
        Some(quality.map_or(1.0, |quality| quality.trim().parse().unwrap_or(0.0)))
    };
    let quality: f64 = quality_of(other)?;
    let of_json: f64 = quality_of("application/json").unwrap_or(0.0);
    (quality > of_json).then_some(format)
}

fn media_type(headers: &HeaderMap) -> String {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let media = value.split(';').next().unwrap_or_default();
    media.trim().to_ascii_lowercase()
}

fn is_json(media: &str) -> bool {
    media == "application/json" || (media.starts_with("application/") && media.ends_with("+json"))
}

fn is_yaml(media: &str) -> bool {
    ["application/yaml", "application/x-yaml", "text/yaml"].contains(&media)
}

fn add_query(
    operation: &Operation,
    has_json_body: bool,
    query: &str,
    arguments: &mut Map<String, Value>,
) -> Result<(), Problem> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode_component(name)?, decode_component(value)?);
        // A route with two methods has its arguments in the query of one and in the body of the other. A body of bytes
        // has no other arguments.
        let fits = |member: &&Argument| {
            member.location == ArgumentLocation::Query
                || (member.location == ArgumentLocation::Body && !has_json_body)
        };
        let Some(member) = operation.input.by_rest_name(&name).filter(fits) else {
            return Err(operation.input.unknown_argument(&name, NamingStyle::Rest));
        };
        let value = parse_query_value(member, &value)?;
        if arguments.insert(member.name.clone(), value).is_some() {
            return Err(
                Problem::invalid(format!("`{name}` occurs twice")).with_detail(name, "twice")
            );
        }
    }
    Ok(())
}

fn add_body(
    operation: &Operation,
    verb: HttpMethod,
    mut members: Map<String, Value>,
    arguments: &mut Map<String, Value>,
) -> Result<(), Problem> {
    if let Some(whole) = operation.input.whole_body {
        let is_wrapped = members.len() == 1 && members.get(whole).is_some_and(Value::is_object);
        let body = if is_wrapped {
            members.remove(whole).unwrap_or_default()
        } else {
            Value::Object(members)
        };
        arguments.insert(whole.to_owned(), body);
        return Ok(());
    }
    for (name, value) in members {
        let fits = |member: &&Argument| {
            member.location == ArgumentLocation::Body
                || (member.location == ArgumentLocation::Query && verb != operation.method())
        };
        let Some(member) = operation.input.by_rest_name(&name).filter(fits) else {
            return Err(operation.input.unknown_argument(&name, NamingStyle::Rest));
        };
        arguments.insert(member.name.clone(), value);
    }
    Ok(())
}

/// Parses a query value as the type of its argument.
fn parse_query_value(member: &Argument, text: &str) -> Result<Value, Problem> {
    let wrong = |wanted: &str| {
        let name = member.rest_name.clone();
        Problem::invalid(format!("`{name}` must be {wanted}"))
            .with_detail(name, format!("must be {wanted}"))
    };
    match member.kind {
        ArgumentKind::Integer => text
            .parse::<i64>()
            .map(Value::from)
            .map_err(|_| wrong("an integer")),
        ArgumentKind::Boolean => match text {
            "true" | "1" | "" => Ok(true.into()),
            "false" | "0" => Ok(false.into()),
            _ => Err(wrong("a boolean")),
        },
        ArgumentKind::List => Ok(text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .collect()),
        ArgumentKind::Text | ArgumentKind::Object | ArgumentKind::Any => Ok(text.into()),
    }
}

/// Percent-decodes a part of a query, once.
fn decode_component(text: &str) -> Result<String, Problem> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    decoded
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| Problem::invalid("the query is not valid UTF-8"))
}
