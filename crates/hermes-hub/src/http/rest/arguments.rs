//! The arguments of a REST request, merged from route, query and body.

use std::time::Duration;

use axum::{
    body::Body,
    extract::{RawPathParams, Request},
};
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::{
    Problem, ProblemCode,
    http::json,
    operations::{Argument, ArgumentKind, ArgumentLocation, HttpMethod, NamingStyle, Operation},
};

const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads all arguments, by their tool names.
pub(crate) async fn read_arguments(
    most_bytes: usize,
    operation: &Operation,
    verb: HttpMethod,
    mut arguments: Map<String, Value>,
    request: Request,
) -> Result<Map<String, Value>, Problem> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    add_query(operation, verb, &query, &mut arguments)?;
    if !verb.has_body() {
        return Ok(arguments);
    }
    let is_json = is_json(request.headers());
    let body = read_body(request.into_body(), most_bytes).await?;
    if body.is_empty() {
        return Ok(arguments);
    }
    if !is_json {
        return Err(Problem::new(
            ProblemCode::UnsupportedMediaType,
            "send the body as `Content-Type: application/json`",
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

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let media = value
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    media == "application/json" || (media.starts_with("application/") && media.ends_with("+json"))
}

fn add_query(
    operation: &Operation,
    verb: HttpMethod,
    query: &str,
    arguments: &mut Map<String, Value>,
) -> Result<(), Problem> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode_component(name)?, decode_component(value)?);
        // A route with two methods has its arguments in the query of one and in the body of the other.
        let fits = |member: &&Argument| {
            member.location == ArgumentLocation::Query
                || (member.location == ArgumentLocation::Body && !verb.has_body())
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
