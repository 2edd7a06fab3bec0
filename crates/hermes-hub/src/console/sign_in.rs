//! Signing in: by a link that works once, or with a token; and signing out.

use std::sync::Arc;

use askama::Template;
use axum::{
    Extension, Form,
    extract::{FromRequest, Request, State},
    response::{Html, IntoResponse, Redirect, Response},
};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;

use super::{
    actions::{is_local, status_of},
    assets,
    frame::other_languages,
    interrupted_form::{InterruptedForm, offer_again},
    language::texts_for,
    pages::problem_message,
    provider_sign_in,
    request::{PageRequest, find_request_id, parse_query, sender_address},
    session_cookie::{CsrfToken, set_cookie},
    texts::Texts,
};
use crate::{
    Hub, Problem, ProblemCode, TokenId,
    api_types::{KeyHash, Via},
    auth::{
        console_sessions::{SignInClient, SignedIn, open_session},
        oidc::OidcSignIn,
    },
    http::middleware::RequestId,
    storage::{audit::NewAuditEntry, state::SessionHolder},
};

pub(super) const PATH: &str = "/sign-in";
/// What is there for those who are not signed in.
pub(super) const OPEN_PATHS: &[&str] = &[
    PATH,
    super::language::PATH,
    provider_sign_in::BEGIN_PATH,
    provider_sign_in::CALLBACK_PATH,
];

/// Where to sign in on the way to another page.
pub(super) fn address_for(wanted: &str) -> String {
    if wanted == "/" {
        return PATH.to_owned();
    }
    let next: String = url::form_urlencoded::byte_serialize(wanted.as_bytes()).collect();
    format!("{PATH}?next={next}")
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    texts: &'static Texts,
    next: &'a str,
    refused: Option<RefusedSignIn>,
    /// What was sent when the session had ended.
    interrupted: Option<InterruptedForm>,
    /// Where the Hub is reached without encryption from another machine, this is said.
    is_plain: bool,
    /// Where to sign in at the provider, if there is one.
    provider: Option<String>,
}

/// Why nobody was signed in, and by which request.
pub(super) struct RefusedSignIn {
    pub(super) problem: Problem,
    pub(super) request_id: String,
}

impl RefusedSignIn {
    pub(super) fn new(problem: Problem, extensions: &http::Extensions) -> Self {
        Self {
            problem,
            request_id: find_request_id(extensions).0.to_string(),
        }
    }
}

impl SignInPage<'_> {
    fn refusal<'a>(&self, refused: &'a RefusedSignIn) -> &'a str {
        problem_message(self.texts, &refused.problem)
    }

    fn t<'a>(&'a self, key: &'a str) -> &'a str {
        self.texts.get(key)
    }

    fn asset(&self, name: &str) -> &'static str {
        assets::address(name)
    }

    fn other_languages(&self) -> Vec<(&'static str, &'static str)> {
        other_languages(self.texts)
    }
}

pub(super) async fn show(State(hub): State<Hub>, request: Request) -> Response {
    let query = parse_query(request.uri().query().unwrap_or_default());
    let next = query.get("next").map_or("/", String::as_str);
    render(&hub, request.headers(), next, None, None)
}

pub(super) fn render(
    hub: &Hub,
    headers: &HeaderMap,
    next: &str,
    refused: Option<RefusedSignIn>,
    interrupted: Option<InterruptedForm>,
) -> Response {
    let settings = hub.settings();
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let is_local_host = host.is_none_or(|host| {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
            _ => host,
        };
        matches!(name, "localhost" | "127.0.0.1" | "[::1]")
    });
    let next = if is_local(next) { next } else { "/" };
    let status = match (&refused, &interrupted) {
        (Some(refused), _) => status_of(&refused.problem),
        (None, Some(_)) => StatusCode::UNAUTHORIZED,
        (None, None) => StatusCode::OK,
    };
    let page = SignInPage {
        texts: texts_for(headers),
        next,
        provider: settings
            .oidc
            .is_some()
            .then(|| provider_sign_in::begin_address(next)),
        refused,
        interrupted,
        is_plain: !settings.public_url.starts_with("https://") && !is_local_host,
    };
    match page.render() {
        Ok(text) => (status, Html(text)).into_response(),
        Err(error) => {
            tracing::error!(%error, "failed to render the sign-in page");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// One of the two.
#[derive(Deserialize)]
pub(super) struct SignInForm {
    #[serde(default)]
    token: String,
    #[serde(default)]
    code: String,
    #[serde(default)]
    next: String,
    #[serde(default)]
    form_address: String,
    #[serde(default)]
    form_fields: String,
}

pub(super) async fn submit(State(hub): State<Hub>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let request = Request::from_parts(parts.clone(), body);
    let Ok(Form(mut form)) = Form::<SignInForm>::from_request(request, &hub).await else {
        let problem =
            Problem::invalid("the form cannot be read; load the page again and repeat it")
                .with_reason("unreadable_form");
        let refused = RefusedSignIn::new(problem, &parts.extensions);
        return render(&hub, &parts.headers, "/", Some(refused), None);
    };
    let interrupted = InterruptedForm::from_fields(
        std::mem::take(&mut form.form_address),
        std::mem::take(&mut form.form_fields),
    );
    let next = if is_local(&form.next) {
        form.next.as_str()
    } else {
        "/"
    };
    let headers = std::mem::take(&mut parts.headers);
    match open(&hub, &headers, &parts.extensions, &form).await {
        Ok(cookie) => {
            let offered = interrupted.and_then(|form| {
                let csrf = CsrfToken::from_header(&cookie)?;
                offer_again(texts_for(&headers), &form, &csrf.0, next)
            });
            let page = offered.unwrap_or_else(|| Redirect::to(next).into_response());
            ([(header::SET_COOKIE, cookie)], page).into_response()
        }
        Err(problem) => {
            let refused = RefusedSignIn::new(problem, &parts.extensions);
            render(&hub, &headers, next, Some(refused), interrupted)
        }
    }
}

/// Opens a session by a token or a link. Returns its cookie.
async fn open(
    hub: &Hub,
    headers: &HeaderMap,
    extensions: &http::Extensions,
    form: &SignInForm,
) -> Result<http::HeaderValue, Problem> {
    let address = sender_address(extensions);
    let token = if form.code.is_empty() {
        let presented = Some(form.token.trim()).filter(|token| !token.is_empty());
        let identity = hub.authenticate_sender(presented, address).await?;
        identity.principal.token.clone()
    } else {
        let hash = KeyHash::from_key(&form.code);
        let Some(token) = hub.state().take_sign_in_link(&hash).await? else {
            hub.count_wrong_token(address, &form.code)?;
            return Err(Problem::new(
                ProblemCode::Unauthenticated,
                "this link was used already or is too old; make another one with `hermes hub login-link`",
            ).with_reason("link_used"));
        };
        token
    };
    open_for(hub, headers, extensions, SessionHolder::Token(token)).await
}

/// Opens a new session, so that one that somebody else has begun is of no use, and ends the one that this browser had.
/// Returns its cookie.
pub(super) async fn open_for(
    hub: &Hub,
    headers: &HeaderMap,
    extensions: &http::Extensions,
    holder: SessionHolder,
) -> Result<http::HeaderValue, Problem> {
    let user_agent = headers.get(header::USER_AGENT);
    let place = SignInClient {
        address: sender_address(extensions),
        user_agent: user_agent
            .and_then(|agent| agent.to_str().ok())
            .unwrap_or_default(),
    };
    let actor = match &holder {
        SessionHolder::Token(token) => token.clone(),
        SessionHolder::Person(person) => TokenId::for_person(&person.subject),
    };
    let mut entry = NewAuditEntry::new(actor.as_str(), Via::Console, "sign_in");
    entry.request_id = find_request_id(extensions).0.to_string();
    let opened = open_session(hub.state(), holder, place, entry).await?;
    let cookie = set_cookie(&hub.settings(), Some(&opened.cookie))
        .ok_or_else(|| Problem::internal(&"the cookie is not a header"))?;
    if let Some(earlier) = extensions.get::<SignedIn>() {
        end_session(hub, earlier, &find_request_id(extensions)).await;
    }
    Ok(cookie)
}

/// Ends a session whose cookie is given up.
async fn end_session(hub: &Hub, signed_in: &SignedIn, id: &RequestId) {
    let actor = signed_in.caller.principal.token.as_str();
    let session = &signed_in.session.id;
    let mut entry =
        NewAuditEntry::new(actor, Via::Console, "sign_out").with_target(session.as_str());
    entry.request_id = id.0.to_string();
    if let Err(error) = hub.state().end_console_session(session, entry).await {
        tracing::warn!(%error, "failed to end a console session");
    }
}

#[derive(Deserialize)]
pub(super) struct SignOutForm {
    #[serde(default)]
    csrf: String,
}

pub(super) async fn sign_out(
    request: PageRequest,
    Extension(provider): Extension<Arc<OidcSignIn>>,
    Form(form): Form<SignOutForm>,
) -> Response {
    if let Err(problem) = request.csrf.check(Some(&form.csrf)) {
        return super::pages::problem_in_place(&request, &problem);
    }
    end_session(&request.hub, &request.signed_in, &request.id).await;
    let cookie = set_cookie(&request.hub.settings(), None);
    let cookie = cookie.map(|cookie| [(header::SET_COOKIE, cookie)]);
    if let Some(page) = provider_sign_in::sign_out_page(&request, &provider).await {
        return (cookie, page).into_response();
    }
    (cookie, Redirect::to(PATH)).into_response()
}
