//! The operations over REST: one route for each row of the table, and replies as HTTP responses.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use axum::{
    Router,
    body::Body as HttpBody,
    extract::{RawPathParams, Request, State, rejection::RawPathParamsRejection},
    response::{IntoResponse, Response},
    routing::{MethodFilter, MethodRouter},
};
use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use crate::{
    Hub, Problem, ProblemCode, TenantId,
    api_types::Via,
    auth::Caller,
    operations::{
        Effect, HttpMethod, NamingStyle, Operation, RequiredAccess,
        dispatch::{self, DispatchedReply},
        manifest_members::add_place_in_yaml,
        table,
    },
    service::call::{ReplyBody, etag_matches},
};

pub(crate) mod arguments;

pub(crate) use crate::http::middleware::{RequestId, bearer_token, problem_response};

type PathParams = Result<RawPathParams, RawPathParamsRejection>;

/// All routes of the table.
pub(crate) fn router(hub: Hub) -> Router {
    let mut paths: BTreeMap<&str, Vec<(&'static Operation, HttpMethod)>> = BTreeMap::new();
    for operation in table().rows() {
        for verb in operation.methods {
            paths
                .entry(operation.path)
                .or_default()
                .push((operation, *verb));
        }
    }
    let mut router = Router::new();
    for (path, operations) in paths {
        router = router.route(path, method_router(&operations));
    }
    router.with_state(hub)
}

pub(crate) fn method_router(operations: &[(&'static Operation, HttpMethod)]) -> MethodRouter<Hub> {
    let mut methods = MethodRouter::new();
    let mut allowed = vec!["OPTIONS"];
    for (operation, verb) in operations.iter().copied() {
        let filter = match verb {
            HttpMethod::Get => MethodFilter::GET,
            HttpMethod::Put => MethodFilter::PUT,
            HttpMethod::Post => MethodFilter::POST,
            HttpMethod::Patch => MethodFilter::PATCH,
            HttpMethod::Delete => MethodFilter::DELETE,
        };
        allowed.push(verb.as_str());
        if verb == HttpMethod::Get {
            allowed.push("HEAD");
        }
        methods = methods.on(
            filter,
            move |State(hub): State<Hub>, path: PathParams, request: Request| {
                handle_request(hub, operation, verb, path, request)
            },
        );
    }
    let allowed: Arc<str> = allowed.join(", ").into();
    methods.fallback(move |request: Request| {
        let allowed = Arc::clone(&allowed);
        async move { method_not_allowed(&request, &allowed) }
    })
}

fn method_not_allowed(request: &Request, allowed: &str) -> Response {
    let mut response = if request.method() == Method::OPTIONS {
        StatusCode::NO_CONTENT.into_response()
    } else {
        let problem = Problem::new(
            ProblemCode::MethodNotAllowed,
            format!("this route takes {allowed}"),
        );
        problem_response(&problem, &RequestId::from_request(request))
    };
    if let Ok(allowed) = allowed.parse() {
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}

pub(crate) async fn route_not_found(request: Request) -> Response {
    let problem = Problem::not_found("there is no such route; `/v1/openapi.json` lists all");
    problem_response(&problem, &RequestId::from_request(&request))
}

async fn handle_request(
    hub: Hub,
    operation: &'static Operation,
    verb: HttpMethod,
    path: PathParams,
    request: Request,
) -> Response {
    let id = RequestId::from_request(&request);
    let Ok(path) = path else {
        let problem = Problem::invalid("the address is not valid UTF-8");
        return problem_response(&problem, &id);
    };
    let is_head = request.method() == Method::HEAD;
    let if_none_match = header_text(request.headers(), &header::IF_NONE_MATCH);
    if if_none_match.is_some() && verb != HttpMethod::Get && operation.effect != Effect::Read {
        let problem = Problem::invalid(
            "`If-None-Match` is for reads; a write takes `If-Match` with the version it changes",
        );
        return problem_response(&problem, &id);
    }
    match dispatch_request(hub, operation, verb, &path, request, &id).await {
        Ok(dispatched) => build_response(dispatched, if_none_match.as_deref(), is_head),
        Err(problem) => problem_response(&problem, &id),
    }
}

async fn dispatch_request(
    hub: Hub,
    operation: &'static Operation,
    verb: HttpMethod,
    path: &RawPathParams,
    request: Request,
    id: &RequestId,
) -> Result<dispatch::DispatchedReply, Problem> {
    let caller = request.extensions().get::<Caller>().cloned();
    let own_tenant = request.extensions().get::<TenantId>().cloned();
    let headers = request.headers();
    let if_match = checked_header(headers, "If-Match")?;
    let range = header_text(headers, &header::RANGE);
    let last_event_id = headers
        .get("last-event-id")
        .map(|value| parse_event_id(value.to_str().unwrap_or_default()))
        .transpose()?;
    let idempotency_key =
        checked_header(headers, "Idempotency-Key")?.filter(|_| verb == HttpMethod::Post);
    let caller = match (caller, operation.access) {
        (Some(caller), _) => caller,
        (None, RequiredAccess::Public) => hub.access().anonymous.clone(),
        (None, _) => {
            return Err(Problem::new(
                ProblemCode::Unauthenticated,
                "present a token as `Authorization: Bearer …`",
            ));
        }
    };
    let mut known = arguments::path_arguments(operation, path);
    let via = match &own_tenant {
        None => Via::Rest,
        // On a private route the key determines the tenant.
        Some(tenant) => {
            known.insert("tenant_id".to_owned(), tenant.as_str().into());
            Via::Agent
        }
    };
    // For the places of what is wrong in it.
    let yaml = Arc::new(OnceLock::new());
    let all = arguments::read_arguments(
        hub.settings().limits.body_bytes,
        operation,
        verb,
        known.clone(),
        request,
        Arc::clone(&yaml),
    );
    let request = dispatch::OperationRequest {
        operation,
        caller,
        via,
        id: id.0.clone(),
        arguments: dispatch::RequestArguments {
            available: known,
            pending: Some(Box::pin(all)),
            naming: NamingStyle::Rest,
        },
        if_match,
        last_event_id,
        range,
        idempotency_key,
    };
    let dispatched = dispatch::dispatch(&hub, request).await;
    dispatched.map_err(|problem| match yaml.get() {
        Some(text) => add_place_in_yaml(problem, text),
        None => problem,
    })
}

fn parse_event_id(text: &str) -> Result<u64, Problem> {
    text.trim()
        .parse()
        .map_err(|_| Problem::invalid("`Last-Event-ID` must be the number of an event"))
}

/// A header that must not be ignored if it is malformed.
fn checked_header(headers: &HeaderMap, name: &str) -> Result<Option<String>, Problem> {
    let value = headers
        .get(name)
        .map(|value| value.to_str().map(str::to_owned));
    value
        .transpose()
        .map_err(|_| Problem::invalid(format!("`{name}` must be plain text")))
}

fn header_text(headers: &HeaderMap, name: &header::HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn build_response(
    dispatched: DispatchedReply,
    if_none_match: Option<&str>,
    is_head: bool,
) -> Response {
    let reply = dispatched.reply;
    let etag = reply
        .etag
        .as_deref()
        .and_then(|etag| HeaderValue::from_str(etag).ok());
    let is_known = match (if_none_match, &reply.etag) {
        (Some(known), Some(etag)) => reply.status == 200 && etag_matches(known, etag),
        _ => false,
    };
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::OK);
    let mut response = match reply.body {
        _ if is_known => StatusCode::NOT_MODIFIED.into_response(),
        ReplyBody::Empty => status.into_response(),
        ReplyBody::Json(document) => {
            let text = document.get().to_owned();
            (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
        }
        ReplyBody::Events(_) if is_head => event_stream_response(HttpBody::empty()),
        ReplyBody::Events(stream) => event_stream_response(HttpBody::from_stream(
            stream.map(Ok::<Bytes, std::convert::Infallible>),
        )),
        ReplyBody::Bytes(headers, body) => {
            let mut response = (status, body).into_response();
            response.headers_mut().extend(headers);
            response
        }
    };
    if let Some(etag) = etag {
        response.headers_mut().insert(header::ETAG, etag);
    }
    if dispatched.is_replay {
        response
            .headers_mut()
            .insert("idempotent-replay", HeaderValue::from_static("true"));
    }
    response
}

fn event_stream_response(body: HttpBody) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, body).into_response()
}
