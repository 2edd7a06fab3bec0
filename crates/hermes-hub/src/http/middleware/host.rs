//! Checks of `Host` and `Origin`, and the client's address: the peer of the connection, or what a trusted proxy
//! reports.

use std::net::{IpAddr, Ipv4Addr};

use axum::extract::{ConnectInfo, Request};
use http::{HeaderMap, Uri, header};

use crate::{Problem, api_types::Cidr, http::connections::tls::ClientAddress, settings::Settings};

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Refuses requests with an unknown host or origin.
pub(crate) fn check_host_and_origin(
    settings: &Settings,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Problem::invalid(
            "a request has one `Host` header; send one",
        ));
    }
    let host = host.map(|host| host.to_str().unwrap_or_default());
    // A proxy may use either name, so both must be allowed.
    let named = uri.authority().map(http::uri::Authority::as_str);
    let mut named = named.into_iter().chain(host).peekable();
    let is_named = named.peek().is_some();
    let is_known = is_named
        && named.all(|named| {
            let known = settings
                .allowed_hosts
                .iter()
                .map(String::as_str)
                .chain([settings.public_host()]);
            LOOPBACK.contains(&host_name(named))
                || known.into_iter().any(|known| is_same_host(known, named))
        });
    if !is_known {
        return Err(forbidden(
            "this host name is not allowed; add it to `allowed_hosts`",
        ));
    }
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Ok(());
    };
    let is_known = origin.to_str().is_ok_and(|origin| {
        let own = [settings.public_url.as_str()];
        let known = settings
            .allowed_origins
            .iter()
            .map(String::as_str)
            .chain(own);
        is_own_page(origin, settings)
            || known.into_iter().any(|known| is_same_origin(known, origin))
    });
    if is_known {
        Ok(())
    } else {
        Err(forbidden(
            "this origin is not allowed; add it to `allowed_origins`",
        ))
    }
}

fn forbidden(message: &str) -> Problem {
    Problem::denied(message).with_reason("origin")
}

/// Whether an origin is a page that a local Hub serves itself.
fn is_own_page(origin: &str, settings: &Settings) -> bool {
    let host = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    host.is_some_and(|host| {
        let port = host
            .rsplit_once(':')
            .map(|(_, port)| port)
            .filter(|port| port.parse::<u16>().is_ok());
        LOOPBACK.contains(&host_name(host))
            && port == Some(settings.listen.port().to_string().as_str())
    })
}

/// `host` without its port.
fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

/// A name without a port matches every port.
fn is_same_host(known: &str, named: &str) -> bool {
    known.eq_ignore_ascii_case(named)
        || (host_name(known) == known && known.eq_ignore_ascii_case(host_name(named)))
}

/// `scheme://host:port`, with `*` for any port.
fn is_same_origin(known: &str, origin: &str) -> bool {
    let known = known.trim_end_matches('/');
    match known.strip_suffix(":*") {
        Some(start) => {
            origin == start
                || origin
                    .strip_prefix(start)
                    .and_then(|rest| rest.strip_prefix(':'))
                    .is_some_and(|port| port.parse::<u16>().is_ok())
        }
        None => known.eq_ignore_ascii_case(origin),
    }
}

/// Proxies append the address they see to `X-Forwarded-For`; the last address that is not a trusted proxy is the
/// client.
pub(crate) fn client_address(request: &Request, trusted: &[Cidr]) -> IpAddr {
    let connected = request.extensions().get::<ConnectInfo<ClientAddress>>();
    let connected = connected.map_or(
        Ipv4Addr::LOCALHOST.into(),
        |ConnectInfo(ClientAddress(address))| address.ip().to_canonical(),
    );
    let is_proxy = |address: &IpAddr| trusted.iter().any(|range| range.contains(*address));
    if !is_proxy(&connected) {
        return connected;
    }
    let forwarded = request
        .headers()
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok());
    let hops: Vec<IpAddr> = forwarded
        .flat_map(|value| value.split(','))
        .filter_map(|hop| hop.trim().parse().ok())
        .collect();
    hops.into_iter()
        .rev()
        .find(|hop| !is_proxy(hop))
        .unwrap_or(connected)
}

#[cfg(test)]
mod tests {
    use std::{net::SocketAddr, path::Path};

    use axum::body::Body;

    use super::*;

    fn is_allowed(host: &str, origin: Option<&str>) -> bool {
        let mut settings = Settings::for_directory(Path::new("/nowhere")).unwrap();
        settings.public_url = "https://hub.example".into();
        settings.allowed_hosts = vec!["other.example:8080".into()];
        settings.allowed_origins =
            vec!["https://app.example".into(), "http://dev.example:*".into()];
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        check_host_and_origin(&settings, &Uri::from_static("/v1/version"), &headers).is_ok()
    }

    #[test]
    fn a_request_has_one_host_and_no_other_in_its_address() {
        let settings = Settings::for_directory(Path::new("/nowhere")).unwrap();
        let checked = |uri: &'static str, hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, host.parse().unwrap());
            }
            let refused = check_host_and_origin(&settings, &Uri::from_static(uri), &headers).err();
            refused.map(|problem| problem.code.status())
        };
        assert_eq!(checked("/v1/version", &["localhost"]), None);
        assert_eq!(checked("http://localhost/v1", &["localhost"]), None);
        assert_eq!(checked("http://localhost/v1", &[]), None);
        assert_eq!(checked("/v1/version", &[]), Some(403));
        assert_eq!(checked("/v1", &["localhost", "evil.example"]), Some(400));
        assert_eq!(checked("/v1", &["localhost", "localhost"]), Some(400));
        assert_eq!(checked("http://evil.example/v1", &["localhost"]), Some(403));
        assert_eq!(checked("http://localhost/v1", &["evil.example"]), Some(403));
        assert_eq!(checked("http://a@localhost/v1", &["localhost"]), Some(403));
    }

    #[test]
    fn the_hub_answers_to_its_own_names_only() {
        for host in [
            "localhost",
            "127.0.0.1:7878",
            "[::1]:7878",
            "hub.example",
            "HUB.example:443",
            "other.example:8080",
        ] {
            assert!(is_allowed(host, None), "{host} was refused");
        }
        for host in [
            "evil.example",
            "other.example",
            "hub.example.evil",
            "127.0.0.1.evil",
            "localhost.evil:7878",
        ] {
            assert!(!is_allowed(host, None), "{host} was let in");
        }
    }

    #[test]
    fn pages_of_others_are_refused() {
        for origin in [
            "https://hub.example",
            "http://localhost:7878",
            "https://app.example",
            "http://dev.example:99",
        ] {
            assert!(
                is_allowed("localhost", Some(origin)),
                "{origin} was refused"
            );
        }
        for origin in [
            "null",
            "https://evil.example",
            "http://localhost:1234",
            "http://app.example",
            "https://app.example:8443",
            "http://dev.example:99.evil",
        ] {
            assert!(
                !is_allowed("localhost", Some(origin)),
                "{origin} was let in"
            );
        }
    }

    fn address(connected: &str, forwarded: &[&str], trusted: &[&str]) -> String {
        let mut request = Request::new(Body::empty());
        request
            .extensions_mut()
            .insert(ConnectInfo(ClientAddress(SocketAddr::new(
                connected.parse().unwrap(),
                1,
            ))));
        for value in forwarded {
            request
                .headers_mut()
                .append("x-forwarded-for", value.parse().unwrap());
        }
        let trusted: Vec<Cidr> = trusted.iter().map(|range| range.parse().unwrap()).collect();
        client_address(&request, &trusted).to_string()
    }

    #[test]
    fn only_a_trusted_proxy_says_where_the_client_is() {
        assert_eq!(address("9.9.9.9", &["1.2.3.4"], &[]), "9.9.9.9");
        assert_eq!(
            address("10.0.0.1", &["1.2.3.4"], &["10.0.0.0/8"]),
            "1.2.3.4"
        );
        assert_eq!(
            address(
                "10.0.0.1",
                &["6.6.6.6, 1.2.3.4", "10.0.0.7"],
                &["10.0.0.0/8"]
            ),
            "1.2.3.4"
        );
        assert_eq!(address("10.0.0.1", &[], &["10.0.0.0/8"]), "10.0.0.1");
    }
}
