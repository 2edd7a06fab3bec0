//! Secrets of one login: the PKCE verifier, the state, and what is derived from them.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use hermes_config::random::random_bytes;
use sha2::{Digest, Sha256};

use super::OAuthError;

/// 256 random bits as text that fits into an address.
pub(super) fn random_token() -> Result<String, OAuthError> {
    let bytes = random_bytes::<32>().map_err(|error| OAuthError::Unavailable {
        what: "the system's random generator".into(),
        reason: error.to_string(),
    })?;
    Ok(encode_base64url(&bytes))
}

/// The challenge of a verifier, by the method S256.
pub(super) fn code_challenge(verifier: &str) -> String {
    encode_base64url(&Sha256::digest(verifier.as_bytes()))
}

/// Base64 for addresses and JWTs.
pub(super) fn encode_base64url(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Compares two secrets in a time that tells nothing about where they differ.
pub(super) fn constant_time_eq(one: &str, other: &str) -> bool {
    // Hashes have one length, and nobody can choose them byte by byte.
    let (one, other) = (Sha256::digest(one), Sha256::digest(other));
    one.iter()
        .zip(other.iter())
        .fold(0, |sum, (a, b)| sum | (a ^ b))
        == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_the_one_of_the_standard() {
        assert_eq!(
            code_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
    }

    #[test]
    fn verifiers_are_long_enough_and_differ() {
        let (one, other) = (random_token().unwrap(), random_token().unwrap());
        assert_eq!(one.len(), 43);
        assert!(!constant_time_eq(&one, &other));
        assert!(constant_time_eq(&one, &one.clone()));
        assert!(!constant_time_eq("", "a"));
    }
}
