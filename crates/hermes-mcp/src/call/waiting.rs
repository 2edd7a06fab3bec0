//! Gets a live session for a call: at once if there is one, else by waiting or waking within the timeout of its
//! state. And the last check before a call is sent: under `pin_tools: block`, only to the tool that was accepted.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_config::{TransportSettings, server::PinTools};
use tokio::sync::watch;

use super::{CallError, CallRequest, LoginReason};
use crate::{
    connection::{
        ConnectionCommand,
        handle::ServerHandle,
        link::{Link, LinkStatus},
        session::McpSession,
    },
    tools::pins::ChangedToolAdvice,
};

/// How long a call waits for a server that is on its way back.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long after a call asked for an attempt it asks for the next.
const RETRY_INTERVAL: Duration = Duration::from_millis(300);
/// How long a call waits for a parked server.
const WAKE_TIMEOUT: Duration = Duration::from_secs(15);

/// The session to use, waking the server if need be.
pub(crate) async fn acquire_session(handle: &ServerHandle) -> Result<Arc<McpSession>, CallError> {
    let mut link = handle.link.clone();
    let (limit, attempts) = {
        let now = link.borrow_and_update();
        if let Some(session) = open_session(&now) {
            return Ok(session.clone());
        }
        let limit = match now.status {
            LinkStatus::Connecting | LinkStatus::Lazy => handle.server.load().connect_timeout,
            LinkStatus::Reconnecting | LinkStatus::Ready => RECONNECT_TIMEOUT,
            LinkStatus::Parked => WAKE_TIMEOUT,
            LinkStatus::NeedsAuth => {
                return Err(needs_auth_error(handle));
            }
            LinkStatus::Disabled | LinkStatus::Invalid | LinkStatus::Stopped => {
                return Err(not_connected_error(handle, &now));
            }
        };
        if matches!(now.status, LinkStatus::Lazy | LinkStatus::Parked) {
            // A full mailbox means that it is being woken already.
            let _ = handle.mailbox.try_send(ConnectionCommand::Wake);
        }
        // One attempt decides, except for a server that is being tried again and again anyway.
        let attempts = matches!(
            now.status,
            LinkStatus::Connecting | LinkStatus::Lazy | LinkStatus::Parked
        )
        .then_some(now.attempts_ended);
        (limit, attempts)
    };
    let settled = wait_for_session(handle, &mut link, attempts);
    if let Ok(Some(session)) = tokio::time::timeout(limit, settled).await {
        return Ok(session);
    }
    let now = link.borrow();
    match now.status {
        LinkStatus::NeedsAuth => Err(needs_auth_error(handle)),
        _ => Err(not_connected_error(handle, &now)),
    }
}

/// Waits for a session; gives up when none can come any more, or when the attempt that decides has failed.
async fn wait_for_session(
    handle: &ServerHandle,
    link: &mut watch::Receiver<Link>,
    attempts: Option<u64>,
) -> Option<Arc<McpSession>> {
    // To try to connect costs a remote server nothing; a local one would be started again and again.
    let is_remote = !matches!(handle.server.load().transport, TransportSettings::Stdio(_));
    let mut woken_at: Option<Instant> = None;
    loop {
        {
            let now = link.borrow_and_update();
            if let Some(session) = open_session(&now) {
                return Some(session.clone());
            }
            let may_come = matches!(
                now.status,
                LinkStatus::Connecting
                    | LinkStatus::Reconnecting
                    | LinkStatus::Lazy
                    | LinkStatus::Parked
                    | LinkStatus::Ready
            );
            if !may_come || attempts.is_some_and(|before| now.attempts_ended > before) {
                return None;
            }
            let asks = match woken_at {
                None => true,
                Some(at) => is_remote && at.elapsed() >= RETRY_INTERVAL,
            };
            if now.status == LinkStatus::Reconnecting && asks {
                woken_at = Some(Instant::now());
                let _ = handle.mailbox.try_send(ConnectionCommand::WakeForCall);
            }
        }
        tokio::select! {
            changed = link.changed() => changed.ok()?,
            () = tokio::time::sleep(RETRY_INTERVAL) => {}
        }
    }
}

fn open_session(link: &Link) -> Option<&Arc<McpSession>> {
    link.session.as_ref().filter(|session| session.is_open())
}

fn needs_auth_error(handle: &ServerHandle) -> CallError {
    CallError::NeedsAuth {
        server: handle.name.clone(),
        need: LoginReason::Access { reason: None },
    }
}

fn not_connected_error(handle: &ServerHandle, link: &Link) -> CallError {
    CallError::NotConnected {
        server: handle.name.clone(),
        status: link.status,
        detail: link.error.as_ref().map(ToString::to_string),
    }
}

/// How long a call waits for a tool list that is being requested.
const LISTING_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes sure that a tool is still what was accepted. A turn may have begun before it changed, and a change that the
/// server has announced may not be listed yet.
pub(crate) async fn check_pin(
    handle: &ServerHandle,
    session: &McpSession,
    request: &CallRequest,
) -> Result<(), CallError> {
    let CallRequest::Tool(call) = request else {
        return Ok(());
    };
    if handle.server.load().pin_tools != PinTools::Block {
        return Ok(());
    }
    let listed = session.activity.changes.wait_until_listed();
    let listed = tokio::time::timeout(LISTING_TIMEOUT, listed).await;
    listed.map_err(|_| CallError::ToolListStale {
        server: handle.name.clone(),
    })?;
    let link = handle.link.borrow();
    let mut withheld = link.catalog.iter().flat_map(|catalog| &catalog.withheld);
    match withheld.find(|name| name.as_str() == call.name) {
        None => Ok(()),
        Some(tool) => Err(CallError::Withheld(ChangedToolAdvice {
            server: handle.name.clone(),
            tool: tool.clone(),
            tenant: handle.tenant.clone(),
        })),
    }
}
