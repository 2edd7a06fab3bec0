//! Who is signed in to the console, and links that sign in.

use std::net::Ipv4Addr;

use hermes_config::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NoInput;
use crate::{
    Hub, Problem, TokenId,
    api_types::{KeyHash, Scope, Time, ids::ConsoleSessionId},
    auth::console_sessions::{LINK_LENGTH, SESSION_IDLE, new_secret},
    service::call::{Call, Reply},
    storage::{
        audit::NewAuditEntry,
        state::{ConsoleSession, SessionHolder, StateError},
    },
};

/// Where a link leads to. The code is behind `#`, which browsers do not send.
pub(crate) const LINK_PATH: &str = "/sign-in#code=";

/// A link that signs in to the console once.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignInLink {
    expires_at: Time,
}

/// Makes a link with the rights of the caller's token.
pub(crate) async fn make_link(call: Call, _: NoInput) -> Result<Reply, Problem> {
    let token = TokenId::parse(call.principal().token.as_str()).map_err(|_| {
        Problem::denied("only the holder of a token can make a link; sign in with a token")
            .with_reason("token")
    })?;
    let (address, expires_at) = store_link(&call.hub, &token, call.entry.clone()).await?;
    let reply = Reply::json_with_secret(&SignInLink { expires_at }, "url", address.expose())?;
    Ok(reply.status(201))
}

async fn store_link(
    hub: &Hub,
    token: &TokenId,
    entry: NewAuditEntry,
) -> Result<(Secret<String>, Time), Problem> {
    let code = new_secret()?;
    let expires_at = Time::now().after(LINK_LENGTH);
    let hash = KeyHash::from_key(code.expose());
    hub.state()
        .add_sign_in_link(&hash, token, expires_at, entry)
        .await?;
    let settings = hub.settings();
    let place = settings.public_url.trim_end_matches('/');
    let address = format!("{place}{LINK_PATH}{}", code.expose());
    Ok((address.into(), expires_at))
}

impl Hub {
    /// A link for the owner of this process, with the rights of the token in `admin_token_file`. `None` if somebody is
    /// signed in, or if there is no such token any more.
    pub async fn first_sign_in_link(&self) -> Result<Option<Secret<String>>, Problem> {
        let idle_since = Time::now().before(SESSION_IDLE);
        let sessions = self.state().console_sessions(None, idle_since).await?;
        let file = self.settings().admin_token_file.clone();
        let (true, Ok(token)) = (sessions.is_empty(), tokio::fs::read_to_string(file).await) else {
            return Ok(None);
        };
        let here = Ipv4Addr::LOCALHOST.into();
        let presented = self.authenticator().authenticate(Some(token.trim()), here);
        let Ok(identity) = presented.await else {
            return Ok(None);
        };
        let entry = NewAuditEntry::by_hub("create_sign_in_link");
        let (address, _) = store_link(self, &identity.principal.token, entry).await?;
        Ok(Some(address))
    }
}

/// Somebody's session in the console.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConsoleSessionView {
    session_id: ConsoleSessionId,
    /// The token, if it was signed in with one.
    token_id: Option<TokenId>,
    /// The person, if an identity provider has signed them in.
    person: Option<String>,
    /// Where it was opened from.
    address: String,
    user_agent: String,
    created_at: Time,
    used_at: Time,
    ends_at: Time,
}

impl From<ConsoleSession> for ConsoleSessionView {
    fn from(session: ConsoleSession) -> Self {
        let (token_id, person) = match session.holder {
            SessionHolder::Token(token) => (Some(token), None),
            SessionHolder::Person(person) => (None, Some(person.name)),
        };
        Self {
            session_id: session.id,
            token_id,
            person,
            address: session.address,
            user_agent: session.user_agent,
            created_at: session.created_at,
            used_at: session.used_at,
            ends_at: session.ends_at,
        }
    }
}

/// Sessions in the console.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConsoleSessionList {
    sessions: Vec<ConsoleSessionView>,
}

/// All sessions for those who manage tokens, their own for the others.
pub(crate) async fn list(call: Call, _: NoInput) -> Result<Reply, Problem> {
    Reply::json(&ConsoleSessionList {
        sessions: visible_sessions(&call)
            .await?
            .into_iter()
            .map(Into::into)
            .collect(),
    })
}

async fn visible_sessions(call: &Call) -> Result<Vec<ConsoleSession>, Problem> {
    let principal = call.principal();
    let sees_all = principal.scopes.contains(Scope::TokensAdmin) && principal.tenants.is_none();
    let idle_since = Time::now().before(SESSION_IDLE);
    let is_token = TokenId::parse(principal.token.as_str()).is_ok();
    let own = (!sees_all && is_token).then_some(&principal.token);
    let mut sessions = call.hub.state().console_sessions(own, idle_since).await?;
    if !sees_all && !is_token {
        sessions.retain(|session| match &session.holder {
            SessionHolder::Person(person) => {
                TokenId::for_person(&person.subject) == principal.token
            }
            SessionHolder::Token(_) => false,
        });
    }
    Ok(sessions)
}

/// Names a session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConsoleSessionRef {
    /// The session's id.
    session_id: ConsoleSessionId,
}

pub(crate) async fn end(call: Call, input: ConsoleSessionRef) -> Result<Reply, Problem> {
    let visible = visible_sessions(&call).await?;
    if !visible.iter().any(|session| session.id == input.session_id) {
        return Err(StateError::NotFound { what: "session" }.into());
    }
    let entry = call.entry.clone().with_target(input.session_id.as_str());
    call.hub
        .state()
        .end_console_session(&input.session_id, entry)
        .await?;
    Ok(Reply::empty())
}
