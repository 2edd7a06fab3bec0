//! The HTTP clients behind all models of a process.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use reqwest::{Client, ClientBuilder, redirect};
use url::Url;

use crate::{
    model::endpoint,
    policy::{AllowedNetworks, EgressDenied, PolicyHandle, PublicResolver},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// HTTP clients, created at first use since loading the system's certificates takes time.
#[derive(Debug, Default)]
pub struct HttpClients {
    policy: PolicyHandle,
    secure: OnceLock<Client>,
    plain: OnceLock<Client>,
    loopback: OnceLock<Client>,
    public: OnceLock<Client>,
}

/// Why there is no client for an address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error(transparent)]
    EgressDenied(#[from] EgressDenied),
    #[error(transparent)]
    Build(#[from] reqwest::Error),
}

impl HttpClients {
    /// Clients that reach what the operator's policy allows.
    pub fn with_policy(policy: PolicyHandle) -> Self {
        Self {
            policy,
            ..Self::default()
        }
    }

    pub(crate) fn client_for(&self, address: &Url) -> Result<&Client, ClientError> {
        let policy = self.policy.policy();
        policy.egress().check(address)?;
        let is_public_only = policy.egress().networks() == AllowedNetworks::Public;
        let (cell, build): (_, fn() -> ClientBuilder) = if is_public_only {
            (&self.public, public)
        } else if address.scheme() != "http" {
            (&self.secure, secure)
        } else if endpoint::is_loopback(address) {
            (&self.loopback, loopback)
        } else {
            (&self.plain, plain)
        };
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        let client = build().build()?;
        Ok(cell.get_or_init(|| client))
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

/// Plain HTTP needs no certificates, which not every system has.
fn plain() -> ClientBuilder {
    secure()
        .tls_certs_only([])
        // A server that leaves Nagle's algorithm on stalls a reply by 40 ms on a connection used before.
        .pool_max_idle_per_host(0)
}

/// Names that resolve to private addresses are not found. Without a proxy, which would resolve them itself.
fn public() -> ClientBuilder {
    secure().no_proxy().dns_resolver(Arc::new(PublicResolver))
}

/// No proxy can reach this machine's own servers.
fn loopback() -> ClientBuilder {
    plain().no_proxy()
}
