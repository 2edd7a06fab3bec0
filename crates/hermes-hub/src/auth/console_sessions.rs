//! Sessions of people in the console: a cookie stands for the rights of a token, or of a role that an identity provider
//! has given.

use std::{net::IpAddr, sync::Arc, time::Duration};

use hermes_config::Secret;

use super::{Caller, Principal};
use crate::{
    Problem, TokenId,
    api_types::{KeyHash, Scopes, Time, ids::ConsoleSessionId},
    storage::{
        audit::NewAuditEntry,
        state::{ConsoleSession, NewConsoleSession, SessionHolder, State, StateError},
    },
};

/// A session that is not used for so long is over.
pub(crate) const SESSION_IDLE: Duration = Duration::from_hours(1);
/// A session is over then in any case.
const SESSION_LENGTH: Duration = Duration::from_hours(12);
/// A use is stored at most this often.
const USE_WRITE_INTERVAL: Duration = Duration::from_mins(1);
/// A link signs in for so long.
pub(crate) const LINK_LENGTH: Duration = Duration::from_mins(10);
const MAX_USER_AGENT: usize = 200;

/// A new session: the cookie's value leaves the process once.
pub(crate) struct OpenedSession {
    pub(crate) cookie: Secret<String>,
}

/// Where somebody signs in from.
pub(crate) struct SignInClient<'a> {
    pub(crate) address: IpAddr,
    pub(crate) user_agent: &'a str,
}

/// Somebody who is signed in.
#[derive(Clone)]
pub(crate) struct SignedIn {
    pub(crate) session: Arc<ConsoleSession>,
    /// Of its cookie.
    pub(crate) hash: KeyHash,
    pub(crate) caller: Caller,
}

pub(crate) async fn open_session(
    state: &dyn State,
    holder: SessionHolder,
    place: SignInClient<'_>,
    entry: NewAuditEntry,
) -> Result<OpenedSession, Problem> {
    let cookie = new_secret()?;
    let id = ConsoleSessionId::random().map_err(|error| Problem::internal(&error))?;
    let session = NewConsoleSession {
        id: id.clone(),
        hash: KeyHash::from_key(cookie.expose()),
        holder,
        address: place.address.to_string(),
        user_agent: place.user_agent.chars().take(MAX_USER_AGENT).collect(),
        ends_at: Time::now().after(SESSION_LENGTH),
    };
    let entry = entry.with_target(id.as_str());
    state.open_console_session(session, entry).await?;
    Ok(OpenedSession { cookie })
}

/// 256 random bits, as text.
pub(crate) fn new_secret() -> Result<Secret<String>, Problem> {
    let text = hermes_config::random::random_hex::<32>();
    Ok(text.map_err(|error| Problem::internal(&error))?.into())
}

/// Whether a request shows that somebody is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionUse {
    Person,
    /// A stream that a page opens again and again by itself.
    Stream,
}

/// Who a cookie stands for, with the rights that its token or role has now. `None` if its session is over.
pub(crate) async fn authenticate_cookie(
    state: &dyn State,
    cookie: &str,
    address: IpAddr,
    session_use: SessionUse,
) -> Result<Option<SignedIn>, StateError> {
    authenticate_session(state, KeyHash::from_key(cookie), address, session_use).await
}

/// The same for a person whose request another node has got, or who comes back from another site: not what was known
/// there, since the session may be over.
pub(crate) async fn find_person(
    state: &dyn State,
    session: [u8; 32],
    address: IpAddr,
) -> Result<Option<Caller>, StateError> {
    let hash = KeyHash::from_bytes(session);
    let signed_in = authenticate_session(state, hash, address, SessionUse::Stream).await?;
    Ok(signed_in.map(|signed_in| signed_in.caller))
}

async fn authenticate_session(
    state: &dyn State,
    hash: KeyHash,
    address: IpAddr,
    session_use: SessionUse,
) -> Result<Option<SignedIn>, StateError> {
    let now = Time::now();
    let session = state
        .console_session(&hash, now.before(SESSION_IDLE))
        .await?;
    let Some(session) = session else {
        return Ok(None);
    };
    let (principal, key) = match &session.holder {
        SessionHolder::Token(token) => match state.token(token).await? {
            Some(record) => (Principal::from(&record.token), Some(record.hash)),
            None => return Ok(None),
        },
        SessionHolder::Person(person) => {
            let principal = Principal {
                token: TokenId::for_person(&person.subject),
                name: person.name.clone(),
                scopes: Scopes::granted(Some(person.role), &[]),
                tenants: None,
                expires_at: Some(session.ends_at),
                cidrs: [].into(),
            };
            (principal, None)
        }
    };
    if principal.is_expired(now) || !principal.allows_address(address) {
        return Ok(None);
    }
    if session_use == SessionUse::Person && session.used_at < now.before(USE_WRITE_INTERVAL) {
        state.touch_console_session(&session.id).await?;
    }
    Ok(Some(SignedIn {
        session: Arc::new(session),
        hash,
        caller: Caller {
            principal: Arc::new(principal),
            session: key.is_none().then_some(hash),
            key,
            address,
            caught_up_at: None,
        },
    }))
}
