//! Gets a live session for a call: at once if there is one, else by waiting or waking within the timeout of its state.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_config::TransportSettings;
use tokio::sync::watch;

use super::{CallError, LoginNeed};
use crate::{
    connection::Command,
    link::{Link, Status},
    owner::Owner,
    session::Session,
};

/// How long a call waits for a server that is on its way back.
const RECONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long after a call asked for an attempt it asks for the next.
const NEXT_ATTEMPT: Duration = Duration::from_millis(300);
/// How long a call waits for a parked server.
const WAKE_LIMIT: Duration = Duration::from_secs(15);

/// The session to use, waking the server if need be.
pub(crate) async fn session(owner: &Owner) -> Result<Arc<Session>, CallError> {
    let mut link = owner.link.clone();
    let (limit, attempts) = {
        let now = link.borrow_and_update();
        if let Some(session) = open_session(&now) {
            return Ok(session.clone());
        }
        let limit = match now.status {
            Status::Connecting | Status::Lazy => owner.server.load().connect_timeout,
            Status::Reconnecting | Status::Ready => RECONNECT_LIMIT,
            Status::Parked => WAKE_LIMIT,
            Status::NeedsAuth => {
                return Err(needs_auth(owner));
            }
            Status::Disabled | Status::Invalid | Status::Stopped => {
                return Err(refusal(owner, &now));
            }
        };
        if matches!(now.status, Status::Lazy | Status::Parked) {
            // A full mailbox means that it is being woken already.
            let _ = owner.mailbox.try_send(Command::Wake);
        }
        // One attempt decides, except for a server that is being tried again and again anyway.
        let attempts = matches!(
            now.status,
            Status::Connecting | Status::Lazy | Status::Parked
        )
        .then_some(now.attempts_ended);
        (limit, attempts)
    };
    let settled = settle(owner, &mut link, attempts);
    if let Ok(Some(session)) = tokio::time::timeout(limit, settled).await {
        return Ok(session);
    }
    let now = link.borrow();
    match now.status {
        Status::NeedsAuth => Err(needs_auth(owner)),
        _ => Err(refusal(owner, &now)),
    }
}

/// Waits for a session; gives up when none can come any more, or when the attempt that decides has failed.
async fn settle(
    owner: &Owner,
    link: &mut watch::Receiver<Link>,
    attempts: Option<u64>,
) -> Option<Arc<Session>> {
    // To try to connect costs a remote server nothing; a local one would be started again and again.
    let is_remote = !matches!(owner.server.load().transport, TransportSettings::Stdio(_));
    let mut asked: Option<Instant> = None;
    loop {
        {
            let now = link.borrow_and_update();
            if let Some(session) = open_session(&now) {
                return Some(session.clone());
            }
            let may_come = matches!(
                now.status,
                Status::Connecting
                    | Status::Reconnecting
                    | Status::Lazy
                    | Status::Parked
                    | Status::Ready
            );
            if !may_come || attempts.is_some_and(|before| now.attempts_ended > before) {
                return None;
            }
            let asks = match asked {
                None => true,
                Some(at) => is_remote && at.elapsed() >= NEXT_ATTEMPT,
            };
            if now.status == Status::Reconnecting && asks {
                asked = Some(Instant::now());
                let _ = owner.mailbox.try_send(Command::CallWaits);
            }
        }
        tokio::select! {
            changed = link.changed() => changed.ok()?,
            () = tokio::time::sleep(NEXT_ATTEMPT) => {}
        }
    }
}

fn open_session(link: &Link) -> Option<&Arc<Session>> {
    link.session.as_ref().filter(|session| session.is_open())
}

fn needs_auth(owner: &Owner) -> CallError {
    CallError::NeedsAuth {
        server: owner.name.clone(),
        need: LoginNeed::Access { reason: None },
    }
}

fn refusal(owner: &Owner, link: &Link) -> CallError {
    CallError::NotConnected {
        server: owner.name.clone(),
        status: link.status,
        detail: link.error.as_ref().map(ToString::to_string),
    }
}
