//! `/oauth/callback`: where a person's browser ends after a login to an MCP server.
//!
//! The address of a login works in every browser, so whoever began it may have sent it to somebody else, who then logs in
//! with their own account. Therefore a page first says whose agent is to use the account, and nothing is handed on until
//! its button is pressed. A program with the token that began the login ends it at once.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use percent_encoding::percent_decode_str;

use crate::{
    Hub, Problem, TokenId,
    api_types::{Time, Via},
    auth::{Caller, Principal, console_sessions::find_person},
    http::middleware::{RequestId, bearer_token, host},
    operations::{
        NamingStyle,
        dispatch::{OperationRequest, RequestArguments, dispatch},
        table,
    },
    service::mcp_servers::login::{self, LoginState},
};

const CONTENT_SECURITY_POLICY: &str =
    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// A browser that comes back, or presses the button.
struct CallbackVisit {
    id: RequestId,
    address: IpAddr,
    query: String,
    presented: Option<HeaderValue>,
}

impl CallbackVisit {
    fn read(hub: &Hub, request: &Request) -> Self {
        Self {
            id: RequestId::from_request(request),
            address: host::client_address(request, &hub.access().trusted_proxies),
            query: request.uri().query().unwrap_or_default().to_owned(),
            presented: request.headers().get(header::AUTHORIZATION).cloned(),
        }
    }

    /// Whether the authorization server has sent a code: otherwise it says why there is none.
    fn brings_code(&self) -> bool {
        let pairs = self.query.split('&');
        let mut names = pairs.map(|pair| pair.split('=').next().unwrap_or_default());
        names.any(|name| percent_decode_str(name).decode_utf8_lossy() == "code")
    }
}

/// A login that was begun here, and by whom.
struct BegunLogin {
    state: LoginState,
    /// With the rights that it has now.
    beginner: Caller,
    /// Whether the visitor has the token that began it.
    is_own: bool,
}

/// The browser comes back.
pub(crate) async fn receive_login(State(hub): State<Hub>, request: Request) -> Response {
    // A request for the headers alone must not end a login.
    if request.method() != Method::GET {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let visit = CallbackVisit::read(&hub, &request);
    let login = match find_login(&hub, &visit).await {
        Ok(login) => login,
        Err(problem) => return failure_page(&problem),
    };
    if login.is_own || !visit.brings_code() {
        return finish(&hub, visit, login).await;
    }
    confirmation_page(&visit, &login)
}

/// The person has pressed the button.
pub(crate) async fn confirm_login(State(hub): State<Hub>, request: Request) -> Response {
    if comes_from_another_site(request.headers()) {
        let problem = Problem::denied("only the page of this Hub finishes a login");
        return failure_page(&problem.with_reason("origin"));
    }
    let visit = CallbackVisit::read(&hub, &request);
    match find_login(&hub, &visit).await {
        Ok(login) => finish(&hub, visit, login).await,
        Err(problem) => failure_page(&problem),
    }
}

/// As a browser tells it. One that does not has sent an `Origin`, which was checked before.
fn comes_from_another_site(headers: &HeaderMap) -> bool {
    headers
        .get("sec-fetch-site")
        .is_some_and(|site| site != "same-origin")
}

async fn find_login(hub: &Hub, visit: &CallbackVisit) -> Result<BegunLogin, Problem> {
    let state = login::open_state(hub, &visit.query)?;
    // A browser usually presents no token.
    if let Some(presented) = &visit.presented {
        let token = presented.to_str().ok().and_then(bearer_token);
        let authenticated = hub.authenticator().authenticate(token, visit.address);
        login::check_beginner(&state, &authenticated.await?.principal)?;
    }
    let beginner = find_beginner(hub, &state, visit.address).await?;
    Ok(BegunLogin {
        state,
        beginner,
        is_own: visit.presented.is_some(),
    })
}

/// Ends the login in the name of whoever began it, and tells what came of it.
async fn finish(hub: &Hub, visit: CallbackVisit, login: BegunLogin) -> Response {
    let server = login.state.server.clone();
    match hand_on(hub, visit, login).await {
        Ok(()) => page(
            StatusCode::OK,
            "Logged in",
            &format!(
                "<p>The agent can use `{}` now. You can close this page.</p>",
                escape(&server)
            ),
        ),
        Err(problem) => failure_page(&problem),
    }
}

async fn hand_on(hub: &Hub, visit: CallbackVisit, login: BegunLogin) -> Result<(), Problem> {
    let operation = table()
        .find("log_in_to_mcp_server")
        .ok_or_else(|| Problem::internal(&"there is no operation for logins"))?;
    let BegunLogin {
        state, beginner, ..
    } = login;
    let address = format!("{}?{}", login::CALLBACK_PATH, visit.query);
    let arguments = [
        ("tenant_id", state.tenant.to_string()),
        ("server", state.server),
        ("address", address),
    ];
    let available = arguments.map(|(name, value)| (name.to_owned(), value.into()));
    let request = OperationRequest {
        operation,
        caller: beginner,
        via: Via::Rest,
        id: visit.id.0,
        arguments: RequestArguments {
            available: available.into_iter().collect(),
            pending: None,
            naming: NamingStyle::Tool,
        },
        if_match: None,
        last_event_id: None,
        range: None,
        idempotency_key: None,
    };
    dispatch(hub, request).await?;
    Ok(())
}

/// Whoever began a login: the holder of a token, or a person whom an identity provider has signed in.
async fn find_beginner(hub: &Hub, state: &LoginState, address: IpAddr) -> Result<Caller, Problem> {
    if let Some(session) = state.session {
        let found = find_person(hub.state(), session, address).await?;
        return found.ok_or_else(|| {
            Problem::denied("whoever began this login is signed out; sign in and begin again")
                .with_reason("session")
        });
    }
    let record = match TokenId::parse(&state.beginner) {
        Ok(token) => hub.state().token(&token).await?,
        Err(_) => None,
    };
    let caller = record.map(|record| Caller {
        principal: Arc::new(Principal::from(&record.token)),
        key: Some(record.hash),
        session: None,
        address,
        caught_up_at: None,
    });
    let caller = caller.filter(|caller| !caller.principal.is_expired(Time::now()));
    caller.ok_or_else(|| {
        Problem::denied("the token that began this login is no longer valid; begin again")
            .with_reason("token")
    })
}

/// Asks the person whose account it is.
fn confirmation_page(visit: &CallbackVisit, login: &BegunLogin) -> Response {
    let mut response = page(
        StatusCode::OK,
        "Finish this login?",
        &format!(
            "<p><b>{who}</b> has begun a login to the MCP server <b>{server}</b> for the agent of the tenant \
             <b>{tenant}</b>. If you go on, this agent works with the account that you have just used.</p>\n\
             <p>Go on only if you have begun this login, or know who has. Otherwise close this page: nothing was handed \
             on.</p>\n\
             <form method=\"post\" action=\"?{query}\"><button>Let the agent use this account</button></form>",
            who = escape(&login.beginner.principal.name),
            server = escape(&login.state.server),
            tenant = escape(login.state.tenant.as_str()),
            query = escape(&visit.query),
        ),
    );
    // With `no-referrer`, browsers do not tell where the button was pressed.
    response.headers_mut().insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("same-origin"),
    );
    response
}

fn failure_page(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.code.status());
    page(
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        "Not logged in",
        &format!("<p>{}</p>", escape(&problem.message)),
    )
}

/// A page with this content, which is HTML.
fn page(status: StatusCode, title: &str, content: &str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let body = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n<h1>{title}</h1>\n{content}\n</html>\n"
    );
    (status, headers, body).into_response()
}

/// The text comes from servers and authorization servers.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
