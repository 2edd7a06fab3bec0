//! Management tokens as they are listed, and the address ranges they may be used from.

use std::{borrow::Cow, fmt, net::IpAddr, str::FromStr};

use hermes_config::Secret;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Time;
use crate::{
    TenantId, TokenId,
    api_types::{Role, Scope},
};

/// A management token; its secret is not part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// Its display name.
    pub name: String,
    /// Its role, a named set of scopes.
    pub role: Option<Role>,
    /// Scopes besides those of the role.
    pub scopes: Vec<Scope>,
    /// The tenants it covers; all, if absent.
    pub tenants: Option<Vec<TenantId>>,
    /// The networks it may be used from; any, if empty.
    pub cidrs: Vec<Cidr>,
    /// The last characters of its secret.
    pub last4: String,
    /// When it expires.
    pub expires_at: Option<Time>,
    /// When it was last used.
    pub last_used_at: Option<Time>,
}

/// A new token with its secret. Not serializable, so that the secret cannot leak by accident: the reply is built where
/// it is sent.
#[derive(Debug, Clone)]
pub struct MintedToken {
    /// The token without its secret.
    pub token: Token,
    /// `hub_mgmt_` and so on.
    pub secret: Secret<String>,
}

/// An address range such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address range; write `10.0.0.0/8` or `2001:db8::/32`")]
pub struct InvalidCidr(String);

impl Cidr {
    /// Whether the address is in the range. IPv4-mapped IPv6 addresses count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                (own.to_bits() ^ other.to_bits()) & mask == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.bits))
                    .unwrap_or(0);
                (own.to_bits() ^ other.to_bits()) & mask == 0
            }
            _ => false,
        }
    }

    pub fn is_within(&self, other: &Self) -> bool {
        self.bits >= other.bits && other.contains(self.address)
    }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let none = || InvalidCidr(text.chars().take(80).collect());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| none())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= most),
            None => Some(most),
        };
        Ok(Self {
            address,
            bits: bits.ok_or_else(none)?,
        })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Serialize for Cidr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cidr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Cidr {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Cidr".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "A range of addresses: 10.0.0.0/8" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn the_bits_that_count_decide() {
        let range = cidr("10.1.0.0/16");
        assert!(range.contains("10.1.200.3".parse().unwrap()));
        assert!(range.contains("::ffff:10.1.2.3".parse().unwrap()));
        assert!(!range.contains("10.2.0.1".parse().unwrap()));
        assert!(!range.contains("2001:db8::1".parse().unwrap()));
        assert!(cidr("0.0.0.0/0").contains("1.2.3.4".parse().unwrap()));
        assert!(cidr("2001:db8::/32").contains("2001:db8:ff::1".parse().unwrap()));
        assert!(cidr("127.0.0.1").contains("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn a_smaller_range_lies_within_a_larger_one() {
        assert!(cidr("10.1.0.0/16").is_within(&cidr("10.0.0.0/8")));
        assert!(!cidr("10.0.0.0/8").is_within(&cidr("10.1.0.0/16")));
        assert!(!cidr("11.0.0.0/16").is_within(&cidr("10.0.0.0/8")));
    }

    #[test]
    fn what_is_not_a_range_is_refused() {
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0/8",
            "::/129",
            "a/8",
            "10.0.0.0/-1",
        ] {
            assert!(text.parse::<Cidr>().is_err(), "{text:?} was taken");
        }
    }
}
