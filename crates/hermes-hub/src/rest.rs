//! The operations over REST: one route for each row of the table.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    extract::{RawPathParams, Request, State, rejection::RawPathParamsRejection},
    response::{IntoResponse, Response},
    routing::{MethodFilter, MethodRouter},
};
use http::{HeaderMap, Method, StatusCode, header};

use crate::{
    Code, Hub, Problem, TenantId,
    dispatch::{self, Visitor},
    operations::{Access, Effect, Naming, Operation, Verb, table},
    shapes::Via,
};

mod address;
pub(crate) mod arguments;
pub(crate) mod door;
mod host;
mod respond;

pub(crate) use door::{RequestId, bearer, problem_response};

type PathParams = Result<RawPathParams, RawPathParamsRejection>;

/// All routes of the table.
pub(crate) fn router(hub: Hub) -> Router {
    let mut paths: BTreeMap<&str, Vec<(&'static Operation, Verb)>> = BTreeMap::new();
    for operation in table().rows() {
        for verb in operation.verbs {
            paths
                .entry(operation.path)
                .or_default()
                .push((operation, *verb));
        }
    }
    let mut router = Router::new();
    for (path, operations) in paths {
        router = router.route(path, methods(&operations));
    }
    router.with_state(hub)
}

pub(crate) fn methods(operations: &[(&'static Operation, Verb)]) -> MethodRouter<Hub> {
    let mut methods = MethodRouter::new();
    let mut allowed = vec!["OPTIONS"];
    for (operation, verb) in operations.iter().copied() {
        let filter = match verb {
            Verb::Get => MethodFilter::GET,
            Verb::Put => MethodFilter::PUT,
            Verb::Post => MethodFilter::POST,
            Verb::Patch => MethodFilter::PATCH,
            Verb::Delete => MethodFilter::DELETE,
        };
        allowed.push(verb.word());
        if verb == Verb::Get {
            allowed.push("HEAD");
        }
        methods = methods.on(
            filter,
            move |State(hub): State<Hub>, path: PathParams, request: Request| {
                answer(hub, operation, verb, path, request)
            },
        );
    }
    let allowed: Arc<str> = allowed.join(", ").into();
    methods.fallback(move |request: Request| {
        let allowed = Arc::clone(&allowed);
        async move { other_method(&request, &allowed) }
    })
}

fn other_method(request: &Request, allowed: &str) -> Response {
    let mut response = if request.method() == Method::OPTIONS {
        StatusCode::NO_CONTENT.into_response()
    } else {
        let problem = Problem::new(
            Code::MethodNotAllowed,
            format!("this route takes {allowed}"),
        );
        problem_response(&problem, &RequestId::of(request))
    };
    if let Ok(allowed) = allowed.parse() {
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}

pub(crate) async fn no_route(request: Request) -> Response {
    let problem = Problem::not_found("there is no such route; `/v1/openapi.json` lists all");
    problem_response(&problem, &RequestId::of(&request))
}

async fn answer(
    hub: Hub,
    operation: &'static Operation,
    verb: Verb,
    path: PathParams,
    request: Request,
) -> Response {
    let id = RequestId::of(&request);
    let Ok(path) = path else {
        let problem = Problem::invalid("the address is not valid UTF-8");
        return problem_response(&problem, &id);
    };
    let is_head = request.method() == Method::HEAD;
    let if_none_match = text(request.headers(), &header::IF_NONE_MATCH);
    if if_none_match.is_some() && verb != Verb::Get && operation.effect != Effect::Reads {
        let problem = Problem::invalid(
            "`If-None-Match` is for reads; a write takes `If-Match` with the version it changes",
        );
        return problem_response(&problem, &id);
    }
    match run(hub, operation, verb, &path, request, &id).await {
        Ok(dispatched) => respond::reply(dispatched, if_none_match.as_deref(), is_head),
        Err(problem) => problem_response(&problem, &id),
    }
}

async fn run(
    hub: Hub,
    operation: &'static Operation,
    verb: Verb,
    path: &RawPathParams,
    request: Request,
    id: &RequestId,
) -> Result<dispatch::Dispatched, Problem> {
    let caller = request.extensions().get::<Visitor>().cloned();
    let own_tenant = request.extensions().get::<TenantId>().cloned();
    let headers = request.headers();
    let if_match = plain(headers, "If-Match")?;
    let range = text(headers, &header::RANGE);
    let last_event_id = headers
        .get("last-event-id")
        .map(|value| event_id(value.to_str().unwrap_or_default()))
        .transpose()?;
    let idempotency_key = plain(headers, "Idempotency-Key")?.filter(|_| verb == Verb::Post);
    let visitor = match (caller, operation.access) {
        (Some(visitor), _) => visitor,
        (None, Access::Open) => hub.nobody(),
        (None, _) => {
            return Err(Problem::new(
                Code::Unauthenticated,
                "present a token as `Authorization: Bearer …`",
            ));
        }
    };
    let mut known = arguments::in_path(operation, path);
    let via = match &own_tenant {
        None => Via::Rest,
        // On a private route the key determines the tenant.
        Some(tenant) => {
            known.insert("tenant_id".to_owned(), tenant.as_str().into());
            Via::Agent
        }
    };
    let all = arguments::of(
        hub.settings().limits.body_bytes,
        operation,
        verb,
        known.clone(),
        request,
    );
    let request = dispatch::Request {
        operation,
        visitor,
        via,
        id: id.0.clone(),
        arguments: dispatch::Arguments {
            known,
            all: Some(Box::pin(all)),
            naming: Naming::Rest,
        },
        if_match,
        last_event_id,
        range,
        idempotency_key,
    };
    dispatch::dispatch(&hub, request).await
}

fn event_id(text: &str) -> Result<u64, Problem> {
    text.trim()
        .parse()
        .map_err(|_| Problem::invalid("`Last-Event-ID` must be the number of an event"))
}

/// A header that must not be ignored if it is malformed.
fn plain(headers: &HeaderMap, name: &str) -> Result<Option<String>, Problem> {
    let value = headers
        .get(name)
        .map(|value| value.to_str().map(str::to_owned));
    value
        .transpose()
        .map_err(|_| Problem::invalid(format!("`{name}` must be plain text")))
}

fn text(headers: &HeaderMap, name: &header::HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}
