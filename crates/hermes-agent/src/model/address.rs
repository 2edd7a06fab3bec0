//! Classifies base URLs: loopback, local network, or a provider's domain.

use url::{Host, Url};

/// Whether the address is this machine's own.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

/// Whether the address is of this machine or its local network, where slow hardware is to be expected.
pub(super) fn is_local(url: &Url) -> bool {
    is_loopback(url)
        || match url.host() {
            Some(Host::Ipv4(address)) => address.is_private() || address.is_link_local(),
            Some(Host::Ipv6(address)) => {
                address.is_unique_local() || address.is_unicast_link_local()
            }
            Some(Host::Domain(name)) => match name.rsplit_once('.') {
                Some((_, top)) => top == "local" || top == "lan",
                None => true,
            },
            None => false,
        }
}

/// Whether the address is `domain` or beneath it.
pub(super) fn is_in_domain(url: &Url, domain: &str) -> bool {
    url.host_str().is_some_and(|host| {
        host == domain
            || host
                .strip_suffix(domain)
                .is_some_and(|rest| rest.ends_with('.'))
    })
}

/// Host and port, as they are shown.
pub(super) fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn loopback_is_told_by_name_and_number() {
        for text in [
            "http://127.0.0.1:1/",
            "http://[::1]/",
            "http://localhost/",
            "http://a.localhost/",
        ] {
            assert!(is_loopback(&url(text)), "{text}");
            assert!(is_local(&url(text)), "{text}");
        }
        for text in [
            "http://10.0.0.1/",
            "http://localhost.example.com/",
            "https://api.openai.com/",
        ] {
            assert!(!is_loopback(&url(text)), "{text}");
        }
    }

    #[test]
    fn the_own_network_is_local_too() {
        for text in [
            "http://192.168.1.5:11434/v1",
            "http://10.0.0.1/",
            "http://box.local/",
            "http://box:8080/",
        ] {
            assert!(is_local(&url(text)), "{text}");
        }
        for text in ["https://api.openai.com/v1", "http://8.8.8.8/"] {
            assert!(!is_local(&url(text)), "{text}");
        }
    }

    #[test]
    fn a_domain_holds_its_subdomains_and_nothing_else() {
        let is = |text: &str| is_in_domain(&url(text), "api.openai.com");
        assert!(is("https://api.openai.com/v1"));
        assert!(is("https://eu.api.openai.com/v1"));
        assert!(!is("https://api.openai.com.evil.example/v1"));
        assert!(!is("https://evilapi.openai.com/v1"));
        assert!(!is("https://openai.com/"));
    }
}
