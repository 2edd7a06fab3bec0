//! The middleware of the console: whose cookie it is, and whether a change comes from a page of our own.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};
use hermes_config::{Secret, to_hex};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use sha2::{Digest, Sha256};

use super::{CONTENT_SECURITY_POLICY, interrupted_form::InterruptedForm, sign_in};
use crate::{
    Hub, Problem,
    api_types::Via,
    auth::console_sessions::{self, SessionUse, SignedIn},
    http::middleware::{RequestId, admit_request},
    settings::Settings,
};

/// The header in which scripts send the token of a page.
const CSRF_HEADER: &str = "x-hub-csrf";

/// The address of the sender.
#[derive(Clone, Copy)]
pub(super) struct SenderAddress(pub(super) std::net::IpAddr);

/// What every form of a session carries. It is derived from the cookie, which pages of others cannot read.
#[derive(Clone)]
pub(super) struct CsrfToken(pub(super) String);

impl CsrfToken {
    fn from_cookie(cookie: &str) -> Self {
        let digest = Sha256::digest(format!("csrf:{cookie}"));
        Self(to_hex(&digest[..16]))
    }

    /// For the session of a `Set-Cookie`.
    pub(super) fn from_header(cookie: &HeaderValue) -> Option<Self> {
        let (_, value) = cookie.to_str().ok()?.split_once('=')?;
        Some(Self::from_cookie(value.split(';').next()?))
    }

    pub(super) fn matches(&self, presented: &str) -> bool {
        let (own, other) = (Sha256::digest(&self.0), Sha256::digest(presented));
        own == other
    }

    /// Refuses a form that was not made for this session.
    pub(super) fn check(&self, presented: Option<&str>) -> Result<(), Problem> {
        match presented {
            Some(presented) if self.matches(presented) => Ok(()),
            _ => Err(foreign_form()),
        }
    }
}

pub(crate) async fn authenticate(
    State(hub): State<Hub>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = RequestId::from_headers(request.headers()).unwrap_or_else(RequestId::random);
    request.extensions_mut().insert(id.clone());
    let mut response = match prepare(&hub, &mut request, &id).await {
        Ok(None) => next.run(request).await,
        Ok(Some(redirect)) => redirect,
        Err(problem) => super::pages::problem_page(&request, &problem),
    };
    add_headers(response.headers_mut(), &id);
    response
}

fn add_headers(headers: &mut HeaderMap, id: &RequestId) {
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer`, browsers send forms without an origin.
        (header::REFERRER_POLICY, "same-origin"),
        (
            header::HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in fixed {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    if let Ok(id) = HeaderValue::from_str(&id.0) {
        headers.insert("x-request-id", id);
    }
}

/// Finds out who asks. Whoever is not signed in is sent to where that is done.
async fn prepare(
    hub: &Hub,
    request: &mut Request,
    id: &RequestId,
) -> Result<Option<Response>, Problem> {
    let address = admit_request(hub, request, id, Via::Console)?;
    request.extensions_mut().insert(SenderAddress(address));
    let is_change = !matches!(*request.method(), Method::GET | Method::HEAD);
    if is_change {
        check_origin(request.headers())?;
    }
    let cookie = read_cookie(&hub.settings(), request.headers());
    let signed_in = match &cookie {
        Some(cookie) => {
            let session_use = match request.uri().path() {
                super::LIVE_PATH => SessionUse::Stream,
                _ => SessionUse::Person,
            };
            let cookie = cookie.expose();
            console_sessions::authenticate_cookie(hub.state(), cookie, address, session_use).await?
        }
        None => None,
    };
    let is_open = sign_in::OPEN_PATHS.contains(&request.uri().path());
    let (Some(cookie), Some(signed_in)) = (cookie, signed_in) else {
        if is_open {
            return Ok(None);
        }
        return Ok(Some(ask_to_sign_in(hub, request).await));
    };
    let csrf = CsrfToken::from_cookie(cookie.expose());
    if let Some(sent) = request.headers().get(CSRF_HEADER) {
        csrf.check(sent.to_str().ok())?;
    }
    request.extensions_mut().insert(csrf);
    request.extensions_mut().insert::<SignedIn>(signed_in);
    Ok(None)
}

pub(super) fn foreign_form() -> Problem {
    Problem::denied("this form was not made for your session; load the page again and repeat it")
        .with_reason("csrf")
}

async fn ask_to_sign_in(hub: &Hub, request: &mut Request) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_part = request.headers().contains_key("hx-request");
    if !is_read
        && !is_part
        && let Some(form) = InterruptedForm::read(request).await
    {
        let next = page_before(request.headers()).unwrap_or_else(|| "/".to_owned());
        return sign_in::render(hub, request.headers(), &next, None, Some(form));
    }
    // A browser takes no page for a stream of events, and says so to whoever reads its log.
    if wants_events(request.headers()) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let wanted = request.uri().path_and_query();
    let wanted = wanted
        .filter(|_| is_read)
        .map_or("/", |wanted| wanted.as_str());
    let target = sign_in::address_for(wanted);
    if is_part {
        // A part of a page: the whole page has to go.
        let target = HeaderValue::from_str(&target).ok();
        let mut response = StatusCode::UNAUTHORIZED.into_response();
        if let Some(target) = target {
            response.headers_mut().insert("hx-redirect", target);
        }
        return response;
    }
    Redirect::to(&target).into_response()
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT);
    accepted.is_some_and(|accepted| accepted.as_bytes() == b"text/event-stream")
}

/// The page that a form was on.
fn page_before(headers: &HeaderMap) -> Option<String> {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let referer = url::Url::parse(text(header::REFERER)?).ok()?;
    let host = match referer.port() {
        Some(port) => format!("{}:{port}", referer.host_str()?),
        None => referer.host_str()?.to_owned(),
    };
    (Some(host.as_str()) == text(header::HOST)).then(|| match referer.query() {
        Some(query) => format!("{}?{query}", referer.path()),
        None => referer.path().to_owned(),
    })
}

/// A change must come from a page of this very origin: another port of the same host is somebody else.
fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_own = if let Some(site) = text("sec-fetch-site") {
        site == "same-origin"
    } else {
        let origin = text("origin").and_then(|origin| origin.split_once("://"));
        let host = text("host");
        host.is_some() && origin.map(|(_, host)| host) == host
    };
    if is_own {
        return Ok(());
    }
    Err(
        Problem::denied("this change was sent by a page of another origin; it was not made")
            .with_reason("origin"),
    )
}

/// Cookies are shared by the ports of a host: each Hub has a name of its own.
fn cookie_name(settings: &Settings) -> String {
    if is_secure(settings) {
        "__Host-hermes".to_owned()
    } else {
        // Browsers do not tell ports of a host apart. All nodes behind one address have the same cookie.
        let address = url::Url::parse(&settings.public_url).ok();
        let port = address.and_then(|address| address.port_or_known_default());
        format!("hermes_{}", port.unwrap_or_else(|| settings.listen.port()))
    }
}

/// Whether the Hub is reached over TLS, so that cookies are for that alone.
pub(super) fn is_secure(settings: &Settings) -> bool {
    settings.public_url.starts_with("https://")
}

fn read_cookie(settings: &Settings, headers: &HeaderMap) -> Option<Secret<String>> {
    find_cookie(&cookie_name(settings), headers)
}

/// The value of a cookie.
pub(super) fn find_cookie(name: &str, headers: &HeaderMap) -> Option<Secret<String>> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let mut pairs = cookies
        .filter_map(|cookies| cookies.to_str().ok())
        .flat_map(|cookies| cookies.split(';'));
    pairs.find_map(|pair| {
        let (found, value) = pair.trim().split_once('=')?;
        (found == name && !value.is_empty()).then(|| value.to_owned().into())
    })
}

/// The name of the cookie of a sign-in that has begun elsewhere.
pub(super) fn pending_cookie_name(settings: &Settings) -> String {
    format!("{}_pending", cookie_name(settings))
}

/// Which pages of others a browser sends a cookie along from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CookieSameSite {
    /// None.
    Strict,
    /// Where somebody follows a link or is sent on.
    Lax,
}

/// The `Set-Cookie` of a new session, or of none.
pub(super) fn set_cookie(
    settings: &Settings,
    value: Option<&Secret<String>>,
) -> Option<HeaderValue> {
    let name = cookie_name(settings);
    build_cookie(settings, &name, value, CookieSameSite::Strict)
}

pub(super) fn build_cookie(
    settings: &Settings,
    name: &str,
    value: Option<&Secret<String>>,
    reach: CookieSameSite,
) -> Option<HeaderValue> {
    let secure = if is_secure(settings) { "; Secure" } else { "" };
    let (value, age) = match value {
        Some(value) => (value.expose().as_str(), ""),
        None => ("", "; Max-Age=0"),
    };
    let reach = match reach {
        CookieSameSite::Strict => "Strict",
        CookieSameSite::Lax => "Lax",
    };
    let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite={reach}{secure}{age}");
    let mut cookie = HeaderValue::from_str(&cookie).ok()?;
    cookie.set_sensitive(true);
    Some(cookie)
}
