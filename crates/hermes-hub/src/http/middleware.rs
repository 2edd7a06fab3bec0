//! Middleware of every request, `/mcp` included: host and origin, rate limits, tokens; and common response headers.

pub(crate) mod host;
pub(crate) mod trace;

use std::{borrow::Cow, net::IpAddr, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use hermes_config::random::random_digits;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use percent_encoding::percent_decode_str;
use tracing::Instrument as _;

use crate::{
    Hub, Problem, ProblemCode,
    api_types::{Via, redact_keys},
    auth::{
        AuthError, Caller, Identity, RefusedSender, WrongToken,
        rate_limit::{Rate, RateLimitExceeded, RateLimitStatus},
    },
    storage::audit::NewAuditEntry,
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Query parameters in which people send tokens, where logs and histories keep them.
const TOKEN_PARAMETERS: [&str; 6] = [
    "token",
    "access_token",
    "api_key",
    "apikey",
    "key",
    "authorization",
];
/// How often a query is decoded to find a token.
const MAX_DECODINGS: usize = 4;
const MAX_LOGGED_PATH: usize = 200;
const MAX_HEADER_BYTES: usize = 32 * 1024;
const PUBLIC_ROUTES: [&str; 8] = [
    "/docs",
    "/reference",
    "/reference.css",
    "/v1/healthz",
    "/v1/readyz",
    "/v1/openapi.json",
    "/.well-known/oauth-protected-resource/mcp",
    // The person's browser has no token; what it brings is sealed.
    "/oauth/callback",
];

/// The id of a request in logs and errors.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) Arc<str>);

impl RequestId {
    /// The id that the middleware has assigned.
    pub(crate) fn from_request(request: &Request) -> Self {
        request
            .extensions()
            .get()
            .cloned()
            .unwrap_or_else(Self::random)
    }

    pub(crate) fn random() -> Self {
        let (start, end) = (random_digits(16), random_digits(8));
        Self(format!("req_{start}{end}").into())
    }

    /// The id sent by the caller, if it is printable.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let id = headers.get(REQUEST_ID)?.to_str().ok()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
        ((1..=128).contains(&id.len()) && id.bytes().all(is_plain)).then(|| Self(id.into()))
    }
}

pub(crate) fn problem_response(problem: &Problem, id: &RequestId) -> Response {
    let status =
        StatusCode::from_u16(problem.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = problem.to_document(&id.0).to_json();
    let mut response = (
        status,
        [(header::CONTENT_TYPE, "application/problem+json")],
        body,
    )
        .into_response();
    let wait = problem
        .retry_after_ms
        .or((problem.code == ProblemCode::Unavailable).then_some(1000));
    if let Some(milliseconds) = wait {
        response.headers_mut().insert(
            header::RETRY_AFTER,
            milliseconds.div_ceil(1000).max(1).into(),
        );
    }
    response
}

/// Middleware that checks and authenticates a request.
pub(crate) async fn authenticate(
    State(hub): State<Hub>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = RequestId::from_headers(request.headers()).unwrap_or_else(RequestId::random);
    request.extensions_mut().insert(id.clone());
    let span = trace::request_span(&mut request, &id);
    let response = answer_request(&hub, request, next, &id)
        .instrument(span.clone())
        .await;
    trace::record_status(&span, response.status());
    response
}

async fn answer_request(hub: &Hub, mut request: Request, next: Next, id: &RequestId) -> Response {
    let is_mcp = request.uri().path() == "/mcp";
    let (mut response, left) = match check_request(hub, &mut request, id, is_mcp).await {
        Ok(left) => (next.run(request).await, left),
        Err(refused) => (problem_response(&refused.problem, id), refused.rate_limit),
    };
    let status = response.status();
    let headers = response.headers_mut();
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, hub.access().challenge.clone());
    }
    if let Ok(id) = HeaderValue::from_str(&id.0) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(
        "hub-version",
        HeaderValue::from_static(env!("CARGO_PKG_VERSION")),
    );
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers.insert(
        "x-content-type-options",
        HeaderValue::from_static("nosniff"),
    );
    if let Some(left) = left {
        headers.insert("ratelimit-limit", left.limit.into());
        headers.insert("ratelimit-remaining", left.remaining.into());
        headers.insert("ratelimit-reset", left.reset_seconds.into());
    }
    response
}

/// Why a request is refused, with the rate limit if that is the reason.
struct RejectedRequest {
    problem: Problem,
    rate_limit: Option<RateLimitStatus>,
}

impl From<Problem> for RejectedRequest {
    fn from(problem: Problem) -> Self {
        Self {
            problem,
            rate_limit: None,
        }
    }
}

async fn check_request(
    hub: &Hub,
    request: &mut Request,
    id: &RequestId,
    is_mcp: bool,
) -> Result<Option<RateLimitStatus>, RejectedRequest> {
    let settings = hub.settings();
    let via = if is_mcp { Via::Mcp } else { Via::Rest };
    let address = admit_request(hub, request, id, via)?;
    let sender = RefusedSender::Address(address);
    let path = request.uri().path();
    if PUBLIC_ROUTES.contains(&path) {
        return Ok(None);
    }
    if hub.is_draining() {
        return Err(Problem::new(
            ProblemCode::Unavailable,
            "the Hub is shutting down; try again in a moment",
        )
        .with_retry_after(5000)
        .into());
    }
    let presented = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let token = presented.and_then(bearer_token);
    let caller = match hub.authenticator().authenticate(token, address).await {
        Ok(caller) => caller,
        Err(refusal) => {
            if let Some(entry) = auth_failure_entry(&refusal, via) {
                hub.record_refusal(sender, entry, path, id);
            }
            if matches!(refusal, AuthError::UnknownKey | AuthError::Expired) {
                count_wrong_token(hub, address, token.unwrap_or_default())?;
            }
            return Err(Problem::from(refusal).into());
        }
    };
    let rate = Rate {
        per_second: f64::from(settings.limits.rps_per_token),
        burst: f64::from(settings.limits.burst),
    };
    let left = hub
        .access()
        .request_limiter
        .check(caller.principal.token.clone(), hub.access().share_of(rate))
        .map_err(|empty| {
            let token = caller.principal.token.as_str();
            let entry = NewAuditEntry::new(token, via, "rate_refused").denied(429);
            hub.record_refusal(sender, entry, path, id);
            RejectedRequest {
                problem: too_many_requests("too many requests with this token", empty),
                rate_limit: Some(empty.status),
            }
        })?;
    let Identity {
        principal,
        key,
        caught_up_at,
    } = caller;
    request.extensions_mut().insert(Caller {
        principal,
        key: Some(key),
        session: None,
        address,
        caught_up_at: Some(caught_up_at),
    });
    Ok(Some(left))
}

/// Checks what every request has to fulfil, whoever sends it. Returns the sender's address.
pub(crate) fn admit_request(
    hub: &Hub,
    request: &Request,
    id: &RequestId,
    via: Via,
) -> Result<IpAddr, Problem> {
    check_header_size(request)?;
    let address = host::client_address(request, &hub.access().trusted_proxies);
    let settings = hub.settings();
    if let Err(problem) = host::check_host_and_origin(&settings, request.uri(), request.headers()) {
        let entry = NewAuditEntry::new("unknown", via, "host_refused");
        let entry = entry.denied(problem.code.status());
        let sender = RefusedSender::Address(address);
        hub.record_refusal(sender, entry, request.uri().path(), id);
        return Err(problem);
    }
    if let Some(query) = request.uri().query() {
        reject_token_in_query(query)?;
    }
    Ok(address)
}

/// Refuses oversized headers. Even larger ones are refused by hyper.
fn check_header_size(request: &Request) -> Result<(), Problem> {
    let headers = request.headers().iter();
    let bytes: usize = headers
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    let address = request.uri().path().len() + request.uri().query().map_or(0, str::len);
    if bytes + address <= MAX_HEADER_BYTES {
        return Ok(());
    }
    Err(Problem::new(
        ProblemCode::HeadersTooLarge,
        format!("address and headers have more than {MAX_HEADER_BYTES} bytes; send fewer"),
    ))
}

/// Counts a wrong token; an error if there were too many.
fn count_wrong_token(hub: &Hub, address: IpAddr, token: &str) -> Result<(), Problem> {
    hub.metrics().record_auth_failure();
    let rate = Rate::per_minute(hub.settings().limits.auth_failures_per_minute);
    let rate = hub.access().share_of(rate);
    let by_address = hub
        .access()
        .wrong_token_limiter
        .check(WrongToken::Address(address), rate);
    let by_beginning = hub
        .access()
        .wrong_token_limiter
        .check(WrongToken::from_prefix(token), rate);
    by_address
        .map_err(|empty| too_many_requests("too many wrong tokens from this address", empty))?;
    by_beginning
        .map_err(|empty| too_many_requests("too many wrong tokens like this one", empty))?;
    Ok(())
}

/// The audit entry of an authentication failure.
fn auth_failure_entry(refusal: &AuthError, via: Via) -> Option<NewAuditEntry> {
    let (actor, action, status) = match refusal {
        AuthError::RuntimeKey { tenant } => (
            tenant
                .as_ref()
                .map_or("unknown", |tenant| tenant.as_str())
                .to_owned(),
            "runtime_key_refused",
            403,
        ),
        AuthError::AddressNotAllowed { token } => (token.to_string(), "token_refused", 403),
        AuthError::UnknownKey | AuthError::Expired => ("unknown".to_owned(), "token_refused", 401),
        AuthError::MissingKey => ("unknown".to_owned(), "token_missing", 401),
        AuthError::ManagementToken | AuthError::State(_) => return None,
    };
    let mut entry = NewAuditEntry::new(actor, via, action).denied(status);
    if let AuthError::RuntimeKey {
        tenant: Some(tenant),
    } = refusal
    {
        entry = entry.for_tenant(tenant);
    }
    Some(entry)
}

pub(crate) fn too_many_requests(what: &str, empty: RateLimitExceeded) -> Problem {
    let wait = u64::try_from(empty.retry_after.max(Duration::from_millis(1)).as_millis())
        .unwrap_or(60_000);
    Problem::new(
        ProblemCode::ResourceExhausted,
        format!("{what}; wait a moment"),
    )
    .with_reason("rate")
    .with_retry_after(wait)
}

pub(crate) fn bearer_token(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn reject_token_in_query(query: &str) -> Result<(), Problem> {
    let holds_token = query.split('&').any(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode_fully(name), decode_fully(value));
        let holds_key = |text: &str| {
            text.starts_with("hub_mgmt_")
                || text.starts_with("hub_rt_")
                || redact_keys(text) != text
        };
        TOKEN_PARAMETERS.contains(&name.to_ascii_lowercase().as_str())
            || holds_key(&name)
            || holds_key(&value)
    });
    if holds_token {
        return Err(Problem::invalid(
            "a token does not belong in the address; send it as `Authorization: Bearer …`, and rotate this one",
        ));
    }
    Ok(())
}

/// A part of a query, decoded as often as it was encoded.
fn decode_fully(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for _ in 0..MAX_DECODINGS {
        if !text.contains('%') {
            break;
        }
        let decoded = percent_decode_str(&text).decode_utf8_lossy().into_owned();
        if decoded == text {
            break;
        }
        text = Cow::Owned(decoded);
    }
    text
}

impl Hub {
    /// Authenticates a token that was not sent in a header, and counts wrong ones.
    pub(crate) async fn authenticate_sender(
        &self,
        token: Option<&str>,
        address: IpAddr,
    ) -> Result<Identity, Problem> {
        match self.authenticator().authenticate(token, address).await {
            Ok(identity) => Ok(identity),
            Err(refusal) => {
                if matches!(refusal, AuthError::UnknownKey | AuthError::Expired) {
                    self.count_wrong_token(address, token.unwrap_or_default())?;
                }
                Err(refusal.into())
            }
        }
    }

    /// Counts a wrong token; an error if there were too many.
    pub(crate) fn count_wrong_token(&self, address: IpAddr, token: &str) -> Result<(), Problem> {
        count_wrong_token(self, address, token)
    }

    /// Logs a refused request, or counts it.
    pub(crate) fn record_refusal(
        &self,
        sender: RefusedSender,
        entry: NewAuditEntry,
        path: &str,
        id: &RequestId,
    ) {
        let per_minute = self.settings().limits.auth_failures_per_minute;
        if !self.access().refusals.should_log(sender, per_minute) {
            return;
        }
        let mut entry = entry.with_target(redact_path(path));
        entry.request_id = id.0.to_string();
        tracing::info!(
            requestId = %entry.request_id,
            reason = %entry.action,
            status = entry.status,
            from = %sender,
            path = entry.target.as_deref().unwrap_or_default(),
            "request refused"
        );
        self.record_read(entry);
    }
}

/// A path without keys, however they are encoded.
fn redact_path(path: &str) -> String {
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let clean = redact_keys(&decoded);
    clean.chars().take(MAX_LOGGED_PATH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_in_a_path_is_written_down() {
        let key = format!("hub_rt_{}_123456", "a".repeat(43));
        for path in [
            format!("/v1/{key}"),
            format!("/v1/{}", key.replace('_', "%5F")),
        ] {
            assert_eq!(redact_path(&path), "/v1/hub_rt_[REDACTED]");
        }
    }
}
