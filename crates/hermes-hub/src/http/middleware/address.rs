//! The client's address: the peer of the connection, or what a trusted proxy reports.

use std::net::{IpAddr, Ipv4Addr};

use axum::extract::{ConnectInfo, Request};

use crate::{api_types::Cidr, http::connections::tls::ClientAddress};

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
    let said = request
        .headers()
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok());
    let hops: Vec<IpAddr> = said
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
    use axum::body::Body;

    use std::net::SocketAddr;

    use super::*;

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
