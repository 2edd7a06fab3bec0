//! What a Hub passes down: who this home is, the key it presents, the socket it calls on, and its first directives.
//!
//! `HERMES_TENANT_ID` says that there is one. It then gives `HERMES_RUNTIME_KEY` and, as a number, the descriptor of a
//! listening Unix socket in `HERMES_API_FD`. Its directives are JSON on stdin, which it closes. Without any there, no
//! optional feature is on until they come over the socket.

use std::{
    io::{self, IsTerminal as _, Read as _},
    os::{
        fd::{BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
        unix::net::UnixListener,
    },
};

use hermes_agent::ceiling::Directives;
use hermes_config::Secret;
use hermes_gateway::gateway::Direction;
use rustix::io::{FdFlags, fcntl_setfd};
use serde_json::json;

use crate::failure::Failure;

const TENANT: &str = "HERMES_TENANT_ID";
const KEY: &str = "HERMES_RUNTIME_KEY";
const LISTENER: &str = "HERMES_API_FD";

/// What was passed down.
pub(super) struct Inherited {
    pub(super) direction: Direction,
    pub(super) directives: Directives,
    /// What clients present, if that is not the home's own key.
    pub(super) key: Option<Secret<String>>,
    pub(super) listener: Option<UnixListener>,
}

impl Inherited {
    pub(super) fn read() -> Result<Self, Failure> {
        let listener = listener()?;
        let Some(tenant) = variable(TENANT) else {
            return Ok(Self {
                direction: Direction::Own,
                directives: Directives::default(),
                key: None,
                listener,
            });
        };
        let key = variable(KEY);
        if key.is_none() || listener.is_none() {
            return Err(Failure::usage(format!(
                "`{TENANT}` is set, so `{KEY}` and `{LISTENER}` must be, too"
            ))
            .hint("a Hub sets all three; without one, unset it"));
        }
        Ok(Self {
            direction: Direction::Hub { tenant },
            directives: directives()?,
            key: key.map(Secret::new),
            listener,
        })
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The directives on stdin. Nothing there leaves every optional feature off: what a Hub may forbid must not begin.
fn directives() -> Result<Directives, Failure> {
    let mut text = String::new();
    let mut stdin = std::io::stdin();
    if !stdin.is_terminal() {
        stdin.read_to_string(&mut text)?;
    }
    if text.trim().is_empty() {
        return Ok(Directives {
            policy: json!({"features": {"enabled": []}}),
            ..Directives::default()
        });
    }
    serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("the directives on stdin are not usable: {error}")))
}

/// The socket behind a number. Processes that the agent starts do not get it.
fn listener() -> Result<Option<UnixListener>, Failure> {
    let Some(number) = variable(LISTENER) else {
        return Ok(None);
    };
    let unusable = |reason: String| {
        Failure::usage(format!(
            "`{LISTENER}={number}` is no listening Unix socket: {reason}"
        ))
    };
    let descriptor: RawFd = match number.parse() {
        Ok(descriptor) if descriptor > 2 => descriptor,
        _ => return Err(unusable("not the number of a descriptor".into())),
    };
    let owned = take(descriptor).map_err(|error| unusable(error.to_string()))?;
    let listener = UnixListener::from(owned);
    listener
        .set_nonblocking(true)
        .and_then(|()| listener.local_addr())
        .map_err(|error| unusable(error.to_string()))?;
    Ok(Some(listener))
}

/// Takes over a descriptor, if there is one of that number.
#[expect(
    unsafe_code,
    reason = "whoever starts us hands the descriptor over; nothing else of this process knows it"
)]
fn take(descriptor: RawFd) -> io::Result<OwnedFd> {
    // Looked at first: only an open one may be owned.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
