//! Which addresses are public: those of the internet, and not those of this machine or of a private network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::Host;

/// Whether a host is public, as far as its name shows.
pub fn is_public_host(host: &Host<&str>) -> bool {
    match host {
        Host::Ipv4(address) => is_public_v4(*address),
        Host::Ipv6(address) => is_public_v6(*address),
        Host::Domain(name) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            name != "localhost" && !name.ends_with(".localhost")
        }
    }
}

pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_protocol = (a, b, c) == (192, 0, 0);
    let is_benchmark = a == 198 && (b == 18 || b == 19);
    !(a == 0
        || a >= 224
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || is_shared
        || is_protocol
        || is_benchmark)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let embedded = |high: u16, low: u16| {
        let bits = (u32::from(high) << 16) | u32::from(low);
        is_public_v4(Ipv4Addr::from_bits(bits))
    };
    match address.segments() {
        // An embedded IPv4 address, also one that a gateway translates.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            embedded(high, low)
        }
        [0x2002, high, low, ..] => embedded(high, low),
        // Tunnels and documentation addresses.
        [0x2001, 0 | 0xdb8, ..] => false,
        // Global unicast.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    fn is_open(url: &str) -> bool {
        is_public_host(&Url::parse(url).unwrap().host().unwrap())
    }

    #[test]
    fn the_internet_is_open() {
        for url in [
            "http://example.org/",
            "http://1.1.1.1/",
            "https://172.32.0.1/",
            "http://[2606:4700::1111]/",
            "http://[::ffff:8.8.8.8]/",
        ] {
            assert!(is_open(url), "{url}");
        }
    }

    #[test]
    fn private_addresses_are_closed_however_they_are_written() {
        for url in [
            "http://localhost:1/",
            "http://app.LOCALHOST./",
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0/",
            "http://10.1.2.3/",
            "http://172.16.0.1/",
            "http://192.168.1.1/",
            "http://169.254.169.254/latest/meta-data",
            "http://100.64.0.1/",
            "http://198.18.0.1/",
            "http://224.0.0.1/",
            "http://255.255.255.255/",
            "http://[::1]/",
            "http://[::]/",
            "http://[::ffff:10.0.0.1]/",
            "http://[::7f00:1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "http://[fe80::1]/",
            "http://[fd00::1]/",
            "http://[ff02::1]/",
            "http://[2001:db8::1]/",
        ] {
            assert!(!is_open(url), "{url}");
        }
    }
}
