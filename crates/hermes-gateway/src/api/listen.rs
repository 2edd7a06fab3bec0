//! The API's listener: a TCP port of this machine, or an inherited Unix socket.

use std::{net::IpAddr, time::Duration};

use axum::{Router, serve::ListenerExt};
use futures::future::BoxFuture;
use hermes_config::ApiServerSettings;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

use super::peer::{self, PeerProcess};

/// How long open requests may take at shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

pub enum ApiListener {
    Tcp(TcpListener),
    /// A Unix socket, named or unnamed.
    Unix(UnixListener),
}

/// Why the API cannot listen at the configured address.
#[derive(Debug, thiserror::Error)]
pub enum ListenAddressError {
    /// The key would be readable on the network.
    #[error(
        "`api_server.host` is `{0}`, which is not a loopback address, so the key would be sent unencrypted; \
         set `api_server.allow_http: true` if something else protects it"
    )]
    NotLoopback(String),
    #[error("`api_server.host` is `{0}`, which is not an IP address; use one such as 127.0.0.1")]
    InvalidAddress(String),
}

/// The address to listen on, if it is loopback or explicitly allowed.
pub fn check_address(settings: &ApiServerSettings) -> Result<(IpAddr, u16), ListenAddressError> {
    let host = settings.host.as_str();
    let address = match host {
        "localhost" => "127.0.0.1",
        other => other.trim_start_matches('[').trim_end_matches(']'),
    };
    let address: IpAddr = address
        .parse()
        .map_err(|_| ListenAddressError::InvalidAddress(host.to_owned()))?;
    if !address.is_loopback() && !settings.allow_http {
        return Err(ListenAddressError::NotLoopback(host.to_owned()));
    }
    Ok((address, settings.port))
}

/// Serves until `stop` is cancelled.
pub fn serve(
    api: ApiListener,
    router: Router,
    stop: CancellationToken,
) -> BoxFuture<'static, std::io::Result<()>> {
    Box::pin(async move {
        let overdue = {
            let stop = stop.clone();
            async move {
                stop.cancelled().await;
                tokio::time::sleep(SHUTDOWN_GRACE).await;
            }
        };
        let serving = async {
            match api {
                ApiListener::Tcp(listener) => {
                    // TCP_NODELAY: small event chunks must not wait for acknowledgements.
                    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
                    axum::serve(listener, router)
                        .with_graceful_shutdown(stop.cancelled_owned())
                        .await
                }
                ApiListener::Unix(listener) => {
                    let router = peer::with_opener(router, &listener);
                    let service = router.into_make_service_with_connect_info::<PeerProcess>();
                    axum::serve(listener, service)
                        .with_graceful_shutdown(stop.cancelled_owned())
                        .await
                }
            }
        };
        tokio::select! {
            ended = serving => ended,
            () = overdue => Ok(()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, allow_http: bool) -> Result<(IpAddr, u16), ListenAddressError> {
        check_address(&ApiServerSettings {
            host: host.into(),
            allow_http,
            ..ApiServerSettings::default()
        })
    }

    #[test]
    fn it_listens_beyond_this_machine_only_where_that_is_wanted() {
        for host in ["127.0.0.1", "localhost", "::1", "[::1]", "127.9.9.9"] {
            assert!(check(host, false).is_ok(), "{host}");
        }
        assert!(matches!(
            check("0.0.0.0", false),
            Err(ListenAddressError::NotLoopback(_))
        ));
        assert!(check("0.0.0.0", true).is_ok());
        assert!(matches!(
            check("box.example", true),
            Err(ListenAddressError::InvalidAddress(_))
        ));
    }
}
