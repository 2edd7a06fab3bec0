//! Which addresses may be asked on behalf of a server.
//!
//! A server on the internet names the addresses that its metadata, its authorization server and so on lie at. It must not
//! lead us into the user's own network, so for such a server only public addresses are asked, and those over TLS.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use super::OAuthError;

/// How far requests may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressPolicy {
    /// The server itself is on this machine or in the user's network.
    Anywhere,
    /// The server is on the internet.
    Public,
}

impl AddressPolicy {
    /// How far a server at this address may lead.
    pub(super) async fn for_server(server: &Url) -> Self {
        let is_near = match server.host() {
            Some(Host::Ipv4(address)) => !is_public(address.into()),
            Some(Host::Ipv6(address)) => !is_public(address.into()),
            Some(Host::Domain(name)) if is_localhost(name) => true,
            Some(Host::Domain(name)) => {
                let port = server.port_or_known_default().unwrap_or(443);
                match tokio::net::lookup_host((name, port)).await {
                    Ok(mut addresses) => addresses.any(|address| !is_public(address.ip())),
                    Err(_) => false,
                }
            }
            None => false,
        };
        if is_near {
            Self::Anywhere
        } else {
            Self::Public
        }
    }

    /// Refuses an address by its text; what a name resolves to is looked at by the [`resolver`](Self::resolver).
    pub(super) fn check(self, url: &Url) -> Result<(), OAuthError> {
        let refused = |reason: &str| {
            Err(OAuthError::Address {
                url: display_url(url),
                reason: reason.into(),
            })
        };
        let is_near = match url.host() {
            Some(Host::Ipv4(address)) => !is_public(address.into()),
            Some(Host::Ipv6(address)) => !is_public(address.into()),
            Some(Host::Domain(name)) => is_localhost(name),
            None => return refused("it has no host"),
        };
        match (url.scheme(), self) {
            ("https", Self::Public) if is_near => {
                refused("it is an address of a private network, and the server is not")
            }
            ("https", _) | ("http", Self::Anywhere) => Ok(()),
            ("http", Self::Public) => refused("it is not protected by TLS"),
            _ => refused("only https addresses are"),
        }
    }

    /// Finds addresses by name, but none that may not be asked.
    pub(super) fn resolver(self) -> Option<Arc<dyn Resolve>> {
        match self {
            Self::Anywhere => None,
            Self::Public => Some(Arc::new(PublicResolver)),
        }
    }
}

/// Finds public addresses alone. Checking here leaves no time in which a name could change its meaning.
struct PublicResolver;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let addresses: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let public: Vec<SocketAddr> = addresses
                .iter()
                .copied()
                .filter(|address| is_public(address.ip()))
                .collect();
            if public.is_empty() && !addresses.is_empty() {
                return Err("the name leads to an address of a private network".into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

/// An address as people may see it.
pub(super) fn display_url(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => is_public_v4(mapped),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || first == 0
        || first >= 240
        // Carrier-grade NAT, protocol assignments, benchmarks.
        || (first == 100 && (64..128).contains(&second))
        || (first == 192 && second == 0 && third == 0)
        || (first == 198 && (18..20).contains(&second));
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let is_special = address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_unique_local()
        || address.is_unicast_link_local();
    // NAT64 and 6to4 carry an IPv4 address inside.
    let embedded = match segments {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => Some((high, low)),
        _ => None,
    };
    let leads_inside = embedded.is_some_and(|(high, low)| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        !is_public_v4(Ipv4Addr::new(a, b, c, d))
    });
    !is_special && !leads_inside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_server_on_the_internet_does_not_lead_into_the_users_network() {
        for inside in [
            "https://127.0.0.1/",
            "https://10.1.2.3/",
            "https://192.168.0.1/",
            "https://169.254.169.254/latest/meta-data",
            "https://100.64.0.1/",
            "https://0.0.0.0/",
            "https://[::1]/",
            "https://[fd00::1]/",
            "https://[fe80::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://[64:ff9b::a00:1]/",
            "https://localhost/",
            "https://as.localhost./",
            "http://as.example/",
            "ftp://as.example/",
            "file:///etc/passwd",
        ] {
            assert!(
                AddressPolicy::Public.check(&url(inside)).is_err(),
                "{inside}"
            );
        }
        for outside in [
            "https://as.example/",
            "https://1.1.1.1/",
            "https://[2606:4700::1]/",
        ] {
            assert_eq!(
                AddressPolicy::Public.check(&url(outside)),
                Ok(()),
                "{outside}"
            );
        }
    }

    #[tokio::test]
    async fn a_server_on_this_machine_may_name_others_here() {
        let reach = AddressPolicy::for_server(&url("http://127.0.0.1:8000/mcp")).await;
        assert_eq!(reach, AddressPolicy::Anywhere);
        assert_eq!(reach.check(&url("http://localhost:9000/")), Ok(()));
        assert!(reach.check(&url("file:///etc/passwd")).is_err());
        assert_eq!(
            AddressPolicy::for_server(&url("https://8.8.8.8/mcp")).await,
            AddressPolicy::Public
        );
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_resolves_to_nothing() {
        // The hosts file knows this one everywhere.
        let name: Name = "localhost".parse().unwrap();
        let addresses = PublicResolver.resolve(name).await;
        assert!(addresses.is_err_and(|error| error.to_string().contains("private network")));
    }
}
