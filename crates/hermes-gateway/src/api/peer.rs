//! Identifies the peer of a Unix socket through the kernel.
//!
//! Under a Hub only the process that opened the socket may call. The key alone is not enough: whoever reads
//! it could change the agent's policy, or decide about other people's approvals.

use axum::{
    Extension, Router,
    extract::{ConnectInfo, Request, State, connect_info::Connected},
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse as _, Response},
    serve::IncomingStream,
};
use tokio::net::UnixListener;

use super::{ApiState, error::ApiError};

/// The process that connected, if the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerProcess(Option<i32>);

impl Connected<IncomingStream<'_, UnixListener>> for PeerProcess {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        let credentials = stream.io().peer_cred().ok();
        Self(credentials.and_then(|credentials| credentials.pid()))
    }
}

/// The process that opened the listener, if the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SocketOpener(Option<i32>);

/// Adds the opener of the listener to all requests.
pub(super) fn with_opener(router: Router, listener: &UnixListener) -> Router {
    router.layer(Extension(find_opener(listener)))
}

#[cfg(target_os = "linux")]
fn find_opener(listener: &UnixListener) -> SocketOpener {
    // For a listening socket, the kernel reports the process that called listen.
    let credentials = rustix::net::sockopt::socket_peercred(listener).ok();
    SocketOpener(credentials.map(|credentials| credentials.pid.as_raw_nonzero().get()))
}

#[cfg(not(target_os = "linux"))]
fn find_opener(_: &UnixListener) -> SocketOpener {
    SocketOpener(None)
}

pub(super) async fn check_peer(
    State(_): State<ApiState>,
    request: Request,
    next: Next,
) -> Response {
    let extensions = request.extensions();
    let peer = extensions
        .get::<ConnectInfo<PeerProcess>>()
        .map(|peer| peer.0);
    let opener = extensions.get::<SocketOpener>().copied();
    if is_opener(peer, opener) {
        return next.run(request).await;
    }
    let pid = peer.and_then(|peer| peer.0).unwrap_or_default();
    let path = request.uri().path();
    tracing::warn!(
        pid,
        path,
        "rejected a request from a process that is not the Hub"
    );
    let error = ApiError::new(
        StatusCode::FORBIDDEN,
        "permission_error",
        "not_the_hub",
        "this agent only accepts requests from its Hub, even with the right key",
    );
    error.into_response()
}

fn is_opener(peer: Option<PeerProcess>, opener: Option<SocketOpener>) -> bool {
    match (peer, opener) {
        (Some(PeerProcess(Some(peer))), Some(SocketOpener(Some(opener)))) => peer == opener,
        // Other systems do not report the opener; there the key has to suffice.
        (Some(_), Some(_)) => cfg!(not(target_os = "linux")),
        // Under a Hub, a gateway is reachable only through its socket.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn nobody_but_the_process_that_opened_the_socket_is_let_in() {
        let peer = |pid| Some(PeerProcess(pid));
        let opener = |pid| Some(SocketOpener(pid));
        assert!(is_opener(peer(Some(7)), opener(Some(7))));
        for (other, hub) in [
            (peer(Some(8)), opener(Some(7))),
            (peer(None), opener(Some(7))),
            (peer(Some(7)), opener(None)),
            (peer(None), opener(None)),
            (None, opener(Some(7))),
            (peer(Some(7)), None),
        ] {
            assert!(!is_opener(other, hub), "{other:?} {hub:?}");
        }
    }
}
