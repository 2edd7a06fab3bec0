//! Allowed `Host` headers, against DNS rebinding: a web page must not reach the API through its own name.

use axum::http::{HeaderMap, Uri, header, uri::Authority};

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
    use axum::http::HeaderValue;

    use super::*;

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
