//! `/oauth/callback`: where a person's browser ends after a login to an MCP server. The page says what came of it.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{HeaderValue, Method, StatusCode, header};

use crate::{
    Hub, Problem,
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

const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

pub(crate) async fn finish_login(State(hub): State<Hub>, request: Request) -> Response {
    // A request for the headers alone must not end a login.
    if request.method() != Method::GET {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let id = RequestId::from_request(&request);
    let address = host::client_address(&request, &hub.access().trusted_proxies);
    let query = request.uri().query().unwrap_or_default().to_owned();
    let presented = request.headers().get(header::AUTHORIZATION).cloned();
    match finish(&hub, id, query, presented, address).await {
        Ok(server) => page(
            StatusCode::OK,
            "Logged in",
            &format!("The agent can use `{server}` now. You can close this page."),
        ),
        Err(problem) => {
            let status = StatusCode::from_u16(problem.code.status());
            page(
                status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                "Not logged in",
                &problem.message,
            )
        }
    }
}

/// Ends the login in the name of the token that began it, with the rights that it has now. Returns the server's name.
async fn finish(
    hub: &Hub,
    id: RequestId,
    query: String,
    presented: Option<HeaderValue>,
    address: IpAddr,
) -> Result<String, Problem> {
    let state = login::open_state(hub, &query)?;
    // A browser usually presents no token.
    if let Some(presented) = presented {
        let token = presented.to_str().ok().and_then(bearer_token);
        let identity = hub.authenticator().authenticate(token, address).await?;
        login::check_beginner(&state, &identity.principal)?;
    }
    let caller = find_beginner(hub, &state, address).await?;
    let operation = table()
        .find("log_in_to_mcp_server")
        .ok_or_else(|| Problem::internal(&"there is no operation for logins"))?;
    let arguments = [
        ("tenant_id", state.tenant.to_string()),
        ("server", state.server.clone()),
        ("address", format!("{}?{query}", login::CALLBACK_PATH)),
    ];
    let available = arguments.map(|(name, value)| (name.to_owned(), value.into()));
    let request = OperationRequest {
        operation,
        caller,
        via: Via::Rest,
        id: id.0,
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
    Ok(state.server)
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
    let record = hub.state().token(&state.token).await?;
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

fn page(status: StatusCode, title: &str, text: &str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let (title, text) = (escape(title), escape(text));
    let body = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n<h1>{title}</h1>\n<p>{text}</p>\n</html>\n"
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
