//! Signing in at an identity provider: the way there, the way back, and signing out there.

use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::{
    Extension,
    extract::{Request, State},
    response::{Html, IntoResponse, Redirect, Response},
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use hermes_config::Secret;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::{
    actions::is_local,
    assets,
    language::texts_for,
    request::{PageRequest, parse_query},
    session_cookie::{CookieSameSite, build_cookie, find_cookie, pending_cookie_name},
    sign_in::{self, RefusedSignIn},
    texts::Texts,
};
use crate::{
    Hub, Problem,
    api_types::Time,
    auth::oidc::{OidcError, OidcSignIn, PendingSignIn, ProviderReturn},
    settings::{OidcSettings, Settings},
    storage::{
        encryption::{EncryptedSecret, EncryptionContext},
        state::{SessionHolder, SignedInPerson},
    },
};

pub(super) const BEGIN_PATH: &str = "/sign-in/provider";
pub(super) const CALLBACK_PATH: &str = "/sign-in/callback";
/// Servers refuse addresses that are much longer.
const MAX_ID_TOKEN: usize = 6000;
/// Whoever takes longer begins again.
const PENDING_LENGTH: Duration = Duration::from_mins(10);

/// Where a sign-in at the provider begins.
pub(super) fn begin_address(next: &str) -> String {
    let next: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
    format!("{BEGIN_PATH}?next={next}")
}

/// The address that the provider must know.
fn redirect_uri(settings: &Settings) -> String {
    format!("{}{CALLBACK_PATH}", settings.public_url)
}

/// Sends the browser to the provider.
pub(super) async fn begin(
    State(hub): State<Hub>,
    Extension(provider): Extension<Arc<OidcSignIn>>,
    request: Request,
) -> Response {
    let query = parse_query(request.uri().query().unwrap_or_default());
    let next = query.get("next").map_or("/", String::as_str);
    let next = if is_local(next) { next } else { "/" };
    match redirect_to_provider(&hub, &provider, next).await {
        Ok(response) => response,
        Err(problem) => {
            let refused = RefusedSignIn::new(problem, request.extensions());
            refuse(&hub, request.headers(), next, refused)
        }
    }
}

async fn redirect_to_provider(
    hub: &Hub,
    provider: &OidcSignIn,
    next: &str,
) -> Result<Response, Problem> {
    let settings = hub.settings();
    let oidc = wanted(&settings)?;
    let expires_at = Time::now().after(PENDING_LENGTH);
    let uri = redirect_uri(&settings);
    let (address, pending) = provider.begin(oidc, &uri, next, expires_at).await?;
    let text = serde_json::to_string(&pending).map_err(|error| Problem::internal(&error))?;
    let sealed = hub
        .key()
        .encrypt(&EncryptionContext::sign_in(), &text)
        .map_err(|error| Problem::internal(&error))?;
    let value = Secret::new(BASE64_URL_SAFE_NO_PAD.encode(sealed.as_bytes()));
    let cookie = pending_cookie(&settings, Some(&value));
    Ok((cookie, Redirect::to(&address)).into_response())
}

fn wanted(settings: &Settings) -> Result<&OidcSettings, Problem> {
    settings.oidc.as_ref().ok_or_else(|| {
        Problem::not_found("this Hub has no sign-in provider").with_reason("no_provider")
    })
}

fn pending_cookie(
    settings: &Settings,
    value: Option<&Secret<String>>,
) -> Option<[(header::HeaderName, HeaderValue); 1]> {
    let name = pending_cookie_name(settings);
    let cookie = build_cookie(settings, &name, value, CookieSameSite::Lax)?;
    Some([(header::SET_COOKIE, cookie)])
}

#[derive(Template)]
#[template(path = "onward.html")]
struct RedirectPage<'a> {
    texts: &'static Texts,
    title: &'a str,
    link: &'a str,
    address: &'a str,
}

impl RedirectPage<'_> {
    fn asset(&self, name: &str) -> &'static str {
        assets::address(name)
    }
}

/// Comes back from the provider. What follows is a page and no redirect: a browser does not send a strict cookie along
/// on a way that has begun at another site.
pub(super) async fn finish(
    State(hub): State<Hub>,
    Extension(provider): Extension<Arc<OidcSignIn>>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let settings = hub.settings();
    let pending = open_pending(&hub, &parts.headers);
    let next = pending.as_ref().map_or("/", |pending| &pending.next);
    let returned = parts.uri.query().unwrap_or_default();
    let returned = parse_return(returned);
    let opened = async {
        let oidc = wanted(&settings)?;
        let pending = pending.as_ref().ok_or(OidcError::State)?;
        let uri = redirect_uri(&settings);
        let (mut person, id_token) = provider.finish(oidc, &uri, pending, &returned).await?;
        person.id_token = seal_id_token(&hub, &person, &id_token);
        let holder = SessionHolder::Person(person);
        sign_in::open_for(&hub, &parts.headers, &parts.extensions, holder).await
    };
    let forgotten = pending_cookie(&settings, None);
    match opened.await {
        Ok(cookie) => {
            let texts = texts_for(&parts.headers);
            let page = RedirectPage {
                texts,
                title: texts.get("onward.signed_in"),
                link: texts.get("onward.go_on"),
                address: next,
            };
            let mut response = onward(&page);
            response.headers_mut().append(header::SET_COOKIE, cookie);
            add_cookie(response, forgotten)
        }
        Err(problem) => {
            let refused = RefusedSignIn::new(problem, &parts.extensions);
            add_cookie(refuse(&hub, &parts.headers, next, refused), forgotten)
        }
    }
}

fn onward(page: &RedirectPage<'_>) -> Response {
    match page.render() {
        Ok(text) => Html(text).into_response(),
        Err(error) => {
            tracing::error!(%error, "failed to render the sign-in page");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn add_cookie(
    mut response: Response,
    cookie: Option<[(header::HeaderName, HeaderValue); 1]>,
) -> Response {
    for (name, value) in cookie.into_iter().flatten() {
        response.headers_mut().append(name, value);
    }
    response
}

fn parse_return(query: &str) -> ProviderReturn {
    let members = parse_query(query).into_iter();
    let members = members.map(|(name, value)| (name, value.into())).collect();
    serde_json::from_value(serde_json::Value::Object(members)).unwrap_or_default()
}

/// The sign-in that this browser has begun.
fn open_pending(hub: &Hub, headers: &HeaderMap) -> Option<PendingSignIn> {
    let cookie = find_cookie(&pending_cookie_name(&hub.settings()), headers)?;
    let sealed = BASE64_URL_SAFE_NO_PAD.decode(cookie.expose()).ok()?;
    let sealed = EncryptedSecret::from_bytes(sealed);
    let context = EncryptionContext::sign_in();
    let opened = hub.key().decrypt(&context, &sealed).ok()?;
    serde_json::from_str(opened.expose()).ok()
}

/// The ID token as the session keeps it. One that no address has room for is not kept.
fn seal_id_token(hub: &Hub, person: &SignedInPerson, id_token: &Secret<String>) -> Option<String> {
    if id_token.expose().len() > MAX_ID_TOKEN {
        return None;
    }
    let context = EncryptionContext::id_token(&person.subject);
    let sealed = hub.key().encrypt(&context, id_token.expose()).ok()?;
    Some(BASE64_URL_SAFE_NO_PAD.encode(sealed.as_bytes()))
}

fn open_id_token(hub: &Hub, person: &SignedInPerson) -> Option<Secret<String>> {
    let sealed = BASE64_URL_SAFE_NO_PAD.decode(person.id_token.as_ref()?);
    let sealed = EncryptedSecret::from_bytes(sealed.ok()?);
    let context = EncryptionContext::id_token(&person.subject);
    hub.key().decrypt(&context, &sealed).ok()
}

/// Shows the sign-in page with what went wrong.
fn refuse(hub: &Hub, headers: &HeaderMap, next: &str, refused: RefusedSignIn) -> Response {
    let reason = &refused.problem.message;
    tracing::info!(%reason, "sign-in at the provider refused");
    sign_in::render(hub, headers, next, Some(refused), None)
}

/// After signing out here, the page that leads to signing out at the provider, for those who came from there.
pub(super) async fn sign_out_page(
    request: &PageRequest,
    provider: &OidcSignIn,
) -> Option<Response> {
    let SessionHolder::Person(person) = &request.signed_in.session.holder else {
        return None;
    };
    let settings = request.hub.settings();
    let oidc = settings.oidc.as_ref()?;
    let back = format!("{}{}", settings.public_url, sign_in::PATH);
    let id_token = open_id_token(&request.hub, person);
    let address = provider
        .sign_out_address(oidc, person, id_token.as_ref(), &back)
        .await?;
    Some(onward(&RedirectPage {
        texts: request.texts,
        title: request.texts.get("onward.signed_out"),
        link: request.texts.get("onward.sign_out_there"),
        address: &address,
    }))
}
