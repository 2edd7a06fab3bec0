//! The HTTP clients behind all models of a process.

use std::{sync::OnceLock, time::Duration};

use reqwest::{Client, ClientBuilder, redirect};
use url::Url;

use crate::model::address;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Clients that are made when they are first needed, since reading the system's certificates takes time.
#[derive(Debug, Default)]
pub struct HttpClients {
    secure: OnceLock<Client>,
    plain: OnceLock<Client>,
    loopback: OnceLock<Client>,
}

impl HttpClients {
    /// The client for an address.
    pub(in crate::model) fn for_address(&self, address: &Url) -> Result<&Client, reqwest::Error> {
        let (place, build): (_, fn() -> ClientBuilder) = if address.scheme() != "http" {
            (&self.secure, secure)
        } else if address::is_loopback(address) {
            (&self.loopback, loopback)
        } else {
            (&self.plain, plain)
        };
        if let Some(client) = place.get() {
            return Ok(client);
        }
        let client = build().build()?;
        Ok(place.get_or_init(|| client))
    }
}

/// No redirect is followed: a key is for one host only.
fn secure() -> ClientBuilder {
    Client::builder()
        .user_agent(concat!("hermes/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .redirect(redirect::Policy::none())
}

/// Without TLS no certificates are needed, which not every system has.
fn plain() -> ClientBuilder {
    secure()
        .tls_certs_only([])
        // A server that leaves Nagle's algorithm on stalls a reply by 40 ms on a connection used before.
        .pool_max_idle_per_host(0)
}

/// No proxy can reach this machine's own servers.
fn loopback() -> ClientBuilder {
    plain().no_proxy()
}
