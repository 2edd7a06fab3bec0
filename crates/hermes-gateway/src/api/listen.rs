//! Where the API listens: a port of this machine, or a socket that was passed down.

use std::{net::IpAddr, time::Duration};

use axum::{Router, serve::ListenerExt};
use hermes_config::ApiServerSettings;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

use super::peer::{self, Peer};

/// How long answers may take that are under way at the end.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// A socket that takes connections.
pub enum Door {
    /// A port.
    Tcp(TcpListener),
    /// A socket in the file system, or without a name.
    Unix(UnixListener),
}

/// Why the API can not listen where it should.
#[derive(Debug, thiserror::Error)]
pub enum BadAddress {
    /// Everybody on the way could read the key.
    #[error(
        "`api_server.host` is `{0}`, beyond this machine, where the key would travel in the open; \
         set `api_server.allow_http: true` if something else protects it"
    )]
    BeyondThisMachine(String),
    /// It is no address.
    #[error("`api_server.host` is `{0}`, which is no address; write one such as 127.0.0.1")]
    NoAddress(String),
}

/// The address to listen on, if that is safe or wanted.
pub fn check_address(settings: &ApiServerSettings) -> Result<(IpAddr, u16), BadAddress> {
    let host = settings.host.as_str();
    let address = match host {
        "localhost" => "127.0.0.1",
        other => other.trim_start_matches('[').trim_end_matches(']'),
    };
    let address: IpAddr = address
        .parse()
        .map_err(|_| BadAddress::NoAddress(host.to_owned()))?;
    if !address.is_loopback() && !settings.allow_http {
        return Err(BadAddress::BeyondThisMachine(host.to_owned()));
    }
    Ok((address, settings.port))
}

/// Serves until `stop` is cancelled.
pub async fn serve(door: Door, router: Router, stop: CancellationToken) -> std::io::Result<()> {
    let overdue = {
        let stop = stop.clone();
        async move {
            stop.cancelled().await;
            tokio::time::sleep(LAST_ANSWERS).await;
        }
    };
    let serving = async {
        match door {
            Door::Tcp(listener) => {
                // No piece of an answer waits until the one before is acknowledged: events come in small ones.
                let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
                axum::serve(listener, router)
                    .with_graceful_shutdown(stop.cancelled_owned())
                    .await
            }
            Door::Unix(listener) => {
                let router = peer::with_opener(router, &listener);
                let service = router.into_make_service_with_connect_info::<Peer>();
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, allow_http: bool) -> Result<(IpAddr, u16), BadAddress> {
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
            Err(BadAddress::BeyondThisMachine(_))
        ));
        assert!(check("0.0.0.0", true).is_ok());
        assert!(matches!(
            check("box.example", true),
            Err(BadAddress::NoAddress(_))
        ));
    }
}
