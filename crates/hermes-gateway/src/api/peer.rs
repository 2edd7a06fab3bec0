//! Who may call: the peer of a Unix socket, identified through the kernel, and the `Host` header of a request, against
//! DNS rebinding.
//!
//! Under a Hub only the process that opened the socket may call. The key alone is not enough: whoever reads
//! it could change the agent's policy, or decide about other people's approvals.

use axum::{
    Extension, Router,
    extract::{ConnectInfo, Request, State, connect_info::Connected},
    http::{HeaderMap, StatusCode, Uri, header, uri::Authority},
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

const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

#[derive(Debug, Clone)]
pub enum AllowedHosts {
    /// Any name: only this user's processes can connect.
    Any,
    /// Loopback names, and these.
    Names(Vec<String>),
}

impl AllowedHosts {
    /// Whether a request's host name is allowed.
    pub(super) fn allows(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        let Self::Names(names) = self else {
            return true;
        };
        let written = headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok());
        let Some(host) = uri.authority().map(Authority::as_str).or(written) else {
            return false;
        };
        let name = without_port(host);
        let is_named = |known: &str| known.eq_ignore_ascii_case(name) || known == host;
        LOOPBACK_NAMES.into_iter().any(is_named) || names.iter().any(|known| is_named(known))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
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

    use axum::http::HeaderValue;

    fn allows(check: &AllowedHosts, host: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static(host));
        check.allows(&headers, &Uri::from_static("/health"))
    }

    #[test]
    fn only_this_machine_and_listed_names_are_allowed() {
        let check = AllowedHosts::Names(vec!["box.example".into()]);
        for host in ["localhost:8642", "127.0.0.1", "[::1]:8642", "BOX.example:1"] {
            assert!(allows(&check, host), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:8642", ""] {
            assert!(!allows(&check, host), "{host}");
        }
        assert!(!check.allows(&HeaderMap::new(), &Uri::from_static("/health")));
        assert!(AllowedHosts::Any.allows(&HeaderMap::new(), &Uri::from_static("/health")));
    }
}
