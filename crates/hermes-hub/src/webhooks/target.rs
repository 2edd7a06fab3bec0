//! Where webhooks may be: public addresses, unless the operator allows private ones. Names are resolved for each
//! connection, and the connection uses exactly the addresses that were checked. Redirects are not followed.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use hermes_config::public_address::{is_public, is_public_host};
use reqwest::{
    Client,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};
use url::Url;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Of a whole attempt.
pub(super) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_URL_BYTES: usize = 2048;

/// Which addresses a webhook may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetScope {
    PublicOnly,
    /// Those of this machine and of private networks too, and plain HTTP.
    Any,
}

impl TargetScope {
    /// By the setting `webhooks.allow_private`.
    pub fn from_setting(allows_private: bool) -> Self {
        if allows_private {
            Self::Any
        } else {
            Self::PublicOnly
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error(
        "`url` must be an address such as `https://example.org/hook`, of {MAX_URL_BYTES} bytes at most"
    )]
    NotAnAddress,
    #[error("`url` must not contain a user name or a password; the signature says who sends")]
    HasPassword,
    #[error(
        "`url` must begin with `https://`; others are only for `webhooks.allow_private: true` in hub.yaml"
    )]
    NotSecure,
    #[error(
        "`url` is in a private network; that is only for `webhooks.allow_private: true` in hub.yaml"
    )]
    Private,
    #[error("the HTTP client cannot be made: {0}")]
    Client(reqwest::Error),
}

/// Refuses an address that nothing would be sent to, as far as it shows.
pub fn check_target(url: &str, scope: TargetScope) -> Result<Url, TargetError> {
    if url.len() > MAX_URL_BYTES {
        return Err(TargetError::NotAnAddress);
    }
    let url = Url::parse(url).map_err(|_| TargetError::NotAnAddress)?;
    let Some(host) = url.host() else {
        return Err(TargetError::NotAnAddress);
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(TargetError::HasPassword);
    }
    match (url.scheme(), scope) {
        ("https", _) | ("http", TargetScope::Any) => {}
        ("http", TargetScope::PublicOnly) => return Err(TargetError::NotSecure),
        _ => return Err(TargetError::NotAnAddress),
    }
    if scope == TargetScope::PublicOnly && !is_public_host(&host) {
        return Err(TargetError::Private);
    }
    Ok(url)
}

pub(super) struct TargetClient {
    pub(super) http: Client,
    pub(super) scope: TargetScope,
}

impl TargetClient {
    pub(super) fn new(scope: TargetScope) -> Result<Self, TargetError> {
        let http = Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ATTEMPT_TIMEOUT)
            .pool_max_idle_per_host(1)
            .user_agent(concat!("hermes-hub/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(Arc::new(TargetResolver(scope)));
        let http = http.build().map_err(TargetError::Client)?;
        Ok(Self { http, scope })
    }
}

/// Resolves names to addresses that are allowed.
struct TargetResolver(TargetScope);

/// Said when a name has private addresses only.
pub(super) const PRIVATE_TARGET: &str =
    "the target is in a private network, which `webhooks.allow_private` does not allow";

impl Resolve for TargetResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let scope = self.0;
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> = addresses
                .filter(|address| scope == TargetScope::Any || is_public(address.ip()))
                .collect();
            if allowed.is_empty() {
                return Err(io::Error::other(PRIVATE_TARGET).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_and_unencrypted_targets_need_the_setting() {
        for url in [
            "http://127.0.0.1:1/",
            "http://10.0.0.1/hook",
            "http://example.org/hook",
        ] {
            assert!(check_target(url, TargetScope::PublicOnly).is_err(), "{url}");
            assert!(check_target(url, TargetScope::Any).is_ok(), "{url}");
        }
        for url in ["https://localhost/", "https://[::1]/", "https://0x7f.1/"] {
            let refused = check_target(url, TargetScope::PublicOnly).unwrap_err();
            assert!(matches!(refused, TargetError::Private), "{url}: {refused}");
        }
        assert!(check_target("https://example.org/hook?x=1", TargetScope::PublicOnly).is_ok());
        for url in [
            "",
            "example.org",
            "ftp://example.org/",
            "file:///etc/passwd",
            "https://user:secret@example.org/",
        ] {
            assert!(check_target(url, TargetScope::Any).is_err(), "{url}");
        }
    }

    #[tokio::test]
    async fn a_name_that_stands_for_a_private_address_is_not_resolved() {
        let name = || "localhost".parse::<Name>().unwrap();
        let refused = TargetResolver(TargetScope::PublicOnly)
            .resolve(name())
            .await;
        assert_eq!(refused.map(drop).unwrap_err().to_string(), PRIVATE_TARGET);
        assert!(
            TargetResolver(TargetScope::Any)
                .resolve(name())
                .await
                .is_ok()
        );
    }
}
