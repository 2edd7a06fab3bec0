//! Which hosts an operator lets the agent reach: with web tools, at models, at MCP servers and at messaging platforms.
//! Programs that it starts are not covered.

use std::{io, net::SocketAddr};

use hermes_config::public_address::{is_public, is_public_host};
use hermes_protocol::{EgressRules, matches_pattern};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::Url;

/// The hosts that may be reached. The default is all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Egress {
    /// Patterns of names; `None` is all of them.
    hosts: Option<Vec<String>>,
    networks: AllowedNetworks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum AllowedNetworks {
    #[default]
    All,
    Public,
}

impl Egress {
    pub(super) fn new(rules: &EgressRules) -> Self {
        let is_limited = !rules.allow_hosts.iter().any(|host| host == "*");
        Self {
            hosts: is_limited.then(|| rules.allow_hosts.clone()),
            networks: if rules.deny_private_networks {
                AllowedNetworks::Public
            } else {
                AllowedNetworks::All
            },
        }
    }

    /// Which networks may be reached. Host names are checked when they are resolved.
    pub(crate) fn networks(&self) -> AllowedNetworks {
        self.networks
    }

    /// Whether private networks are out of reach: then names are resolved by
    /// [`PublicResolver`](super::PublicResolver), and no proxy is used, which would resolve them itself.
    pub fn is_public_only(&self) -> bool {
        self.networks == AllowedNetworks::Public
    }

    /// Denies a URL by its host, as far as that is known before it is resolved.
    pub fn check(&self, address: &Url) -> Result<(), EgressDenied> {
        let Some(host) = address.host() else {
            return match self {
                free if *free == Self::default() => Ok(()),
                _ => Err(EgressDenied::Host(address.to_string())),
            };
        };
        let name = host.to_string();
        let name = name.trim_matches(['[', ']']).trim_end_matches('.');
        let is_listed = self
            .hosts
            .as_ref()
            .is_none_or(|hosts| hosts.iter().any(|pattern| matches_pattern(pattern, name)));
        if !is_listed {
            return Err(EgressDenied::Host(name.to_owned()));
        }
        if self.networks == AllowedNetworks::Public && !is_public_host(&host) {
            return Err(EgressDenied::Private(name.to_owned()));
        }
        Ok(())
    }

    /// Checks text that may not be a URL.
    pub fn check_url(&self, address: &str) -> Result<(), EgressDenied> {
        if *self == Self::default() {
            return Ok(());
        }
        match Url::parse(address) {
            Ok(address) => self.check(&address),
            Err(_) => Err(EgressDenied::Host(address.to_owned())),
        }
    }
}

/// Why an address may not be reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressDenied {
    #[error("the operator's policy does not let this agent reach `{0}` (`egress.allowHosts`)")]
    Host(String),
    #[error(
        "the operator's policy keeps this agent out of private networks, and `{0}` is in one \
         (`egress.denyPrivateNetworks`)"
    )]
    Private(String),
}

/// Resolves names and keeps only public addresses. The connection uses exactly these.
#[derive(Debug, Clone, Copy)]
pub struct PublicResolver;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = addresses
                .filter(|addresses| is_public(addresses.ip()))
                .collect();
            if public.is_empty() {
                let reason = format!(
                    "`{}` is in a private network; it cannot be reached unless the user sets \
                     `security.allow_private_urls: true`",
                    name.as_str()
                );
                return Err(io::Error::other(reason).into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_that_stands_for_a_private_address_is_not_resolved() {
        let name: Name = "localhost".parse().unwrap();
        let error = PublicResolver.resolve(name).await.map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("private network"), "{error}");
    }
}
