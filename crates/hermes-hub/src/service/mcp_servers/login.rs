//! Logins to remote servers. The tenant's process begins one and keeps its tokens; the person's browser ends at the Hub,
//! which hands the address on to that process.
//!
//! What comes back with the browser (`state`) says whose login it is, sealed with the Hub's key: the tenant, the server, the
//! token that began it, and until when. So any node can take it, and nobody can make one. The agent keeps the same
//! text until the login is finished or another is begun, so it works once.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hermes_protocol::{AgentReply, AgentRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_feature, find_entry};
use crate::{
    Hub, Problem, ProblemCode, TenantId,
    api_types::Time,
    auth::Principal,
    service::{
        agent::{ask_agent, unexpected_reply},
        call::{Call, Reply},
        home_config::read_config,
    },
    storage::encryption::{EncryptedSecret, EncryptionContext},
};

/// Where browsers end.
pub(crate) const CALLBACK_PATH: &str = "/oauth/callback";
const LOGIN_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a person has: as long as a code of an authorization server usually lives.
const PENDING_TIME: Duration = Duration::from_mins(10);
const MAX_ADDRESS_BYTES: usize = 16 * 1024;

/// Begins a login, or ends one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogInToServer {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The server's name.
    server: String,
    /// The whole address that the browser was sent to, if it could not reach the Hub: this ends the login. Only the token
    /// that began it may.
    address: Option<String>,
}

/// A login that was begun or finished.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerLogin {
    /// The server's name.
    server: String,
    /// `pending` until a person has logged in, then `done`.
    status: &'static str,
    /// The address to open in a browser.
    url: Option<String>,
    /// Until when the login can be finished, or when the access token ends.
    expires_at: Option<Time>,
    /// Who issued the tokens.
    issuer: Option<String>,
    /// What they allow.
    scope: Option<String>,
}

/// Whose login it is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LoginState {
    /// The tenant's id, and its uid: another tenant may get the id.
    pub(crate) tenant: TenantId,
    uid: String,
    pub(crate) server: String,
    /// The id of whoever began it: a token, or a person whom an identity provider knows, whose id is not one of a token.
    #[serde(rename = "token")]
    pub(crate) beginner: String,
    /// The session of a person who began it without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<[u8; 32]>,
    expires_at: Time,
}

pub(crate) async fn log_in(call: Call, input: LogInToServer) -> Result<Reply, Problem> {
    check_feature(&call)?;
    let document = read_config(&call).await?;
    find_entry(&document, &input.server)?;
    call.record_audit().await?;
    match input.address {
        None => begin(&call, input.server).await,
        Some(address) => finish(&call, &input.server, &address).await,
    }
}

async fn begin(call: &Call, server: String) -> Result<Reply, Problem> {
    let record = call.tenant()?;
    let expires_at = Time::now().after(PENDING_TIME);
    let state = LoginState {
        tenant: record.id.clone(),
        uid: record.uid.clone(),
        server: server.clone(),
        beginner: call.principal().token.to_string(),
        session: call.caller.session.map(|session| *session.as_bytes()),
        expires_at,
    };
    let request = AgentRequest::BeginLogin {
        server: server.clone(),
        redirect_uri: format!(
            "{}{CALLBACK_PATH}",
            call.hub.settings().public_url.trim_end_matches('/')
        ),
        state: seal_state(&call.hub, &state)?,
    };
    match ask_agent(&call.hub, &record.id, &request, LOGIN_TIMEOUT).await? {
        AgentReply::LoginBegun(login) => Reply::json(&ServerLogin {
            server,
            status: "pending",
            url: Some(login.url),
            expires_at: Some(expires_at),
            issuer: None,
            scope: None,
        }),
        _ => Err(unexpected_reply()),
    }
}

async fn finish(call: &Call, server: &str, address: &str) -> Result<Reply, Problem> {
    let query = address.split_once('?').map_or(address, |(_, query)| query);
    let state = open_state(&call.hub, query)?;
    let record = call.tenant()?;
    if state.tenant != record.id || state.uid != record.uid || state.server != server {
        return Err(other_login());
    }
    check_beginner(&state, call.principal())?;
    let request = AgentRequest::FinishLogin {
        server: state.server.clone(),
        address: format!("{CALLBACK_PATH}?{query}"),
    };
    match ask_agent(&call.hub, &record.id, &request, LOGIN_TIMEOUT).await? {
        AgentReply::LoggedIn(report) => Reply::json(&ServerLogin {
            server: state.server,
            status: "done",
            url: None,
            expires_at: report.expires_at.map(unix_time),
            issuer: Some(report.issuer),
            scope: report.scope,
        }),
        _ => Err(unexpected_reply()),
    }
}

/// Refuses whoever did not begin the login.
pub(crate) fn check_beginner(state: &LoginState, principal: &Principal) -> Result<(), Problem> {
    if state.beginner == principal.token.as_str() {
        return Ok(());
    }
    Err(
        Problem::denied("this login was begun with another token; only that one may finish it")
            .with_reason("other_token"),
    )
}

pub(super) fn unix_time(seconds: u64) -> Time {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    Time::from_millis(seconds.saturating_mul(1000))
}

fn other_login() -> Problem {
    Problem::precondition("this is the end of another login; begin again")
        .with_reason("login_state")
}

fn seal_state(hub: &Hub, state: &LoginState) -> Result<String, Problem> {
    let text = serde_json::to_string(state).map_err(|error| Problem::internal(&error))?;
    let sealed = hub
        .key()
        .encrypt(&EncryptionContext::login_state(), &text)
        .map_err(|error| Problem::internal(&error))?;
    Ok(URL_SAFE_NO_PAD.encode(sealed.as_bytes()))
}

/// The state in a query, if it was sealed here and is not too old.
pub(crate) fn open_state(hub: &Hub, query: &str) -> Result<LoginState, Problem> {
    if query.len() > MAX_ADDRESS_BYTES {
        return Err(Problem::new(
            ProblemCode::PayloadTooLarge,
            "the address is too long",
        ));
    }
    let query = query.split('#').next().unwrap_or_default();
    let sealed = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("state="));
    let opened = sealed
        .and_then(|sealed| URL_SAFE_NO_PAD.decode(sealed).ok())
        .map(EncryptedSecret::from_bytes)
        .and_then(|sealed| {
            let context = EncryptionContext::login_state();
            hub.key().decrypt(&context, &sealed).ok()
        })
        .and_then(|text| serde_json::from_str::<LoginState>(text.expose()).ok());
    let state = opened.ok_or_else(|| {
        Problem::invalid("this is not the end of a login that was begun here; begin again")
            .with_reason("login_state")
    })?;
    if state.expires_at <= Time::now() {
        return Err(Problem::precondition("this login is too old; begin again")
            .with_reason("login_expired"));
    }
    Ok(state)
}
