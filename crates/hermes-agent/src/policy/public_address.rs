//! A resolver that only returns public addresses.

use std::{io, net::SocketAddr};

use hermes_config::public_address::is_public;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

pub(crate) use hermes_config::public_address::is_public_host;

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
