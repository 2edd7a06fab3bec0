//! Pairing: what a stranger is told. The codes and those who were let in are in [`hermes_store::pairing`].

pub use hermes_store::pairing::{CodeOffer, PairingError, PairingStore};

/// What a stranger is sent with a code. The operator of a tenant has another command than the owner of a home.
pub fn code_message(account: &str, code: &str, tenant: Option<&str>) -> String {
    let command = match tenant {
        Some(tenant) => format!("hermes tenant pairing {tenant} approve {account} {code}"),
        None => format!("hermes pairing approve {account} {code}"),
    };
    format!(
        "I do not know you yet. The owner of this bot can let you in with:\n\n`{command}`\n\nThe code is valid for one hour."
    )
}

/// What a stranger is sent when others are waiting already.
pub const TOO_MANY_PENDING: &str =
    "I do not know you yet, and others are waiting to be let in. Try again later.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_is_told_the_command_that_its_operator_has() {
        let own = code_message("telegram", "ABCD2345", None);
        assert!(own.contains("`hermes pairing approve telegram ABCD2345`"));
        let hosted = code_message("telegram", "ABCD2345", Some("acme"));
        assert!(hosted.contains("`hermes tenant pairing acme approve telegram ABCD2345`"));
    }
}
