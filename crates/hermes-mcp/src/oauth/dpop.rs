//! DPoP: tokens that are of use only with a key, and the proofs that the key is held.

use std::{collections::HashMap, fmt, sync::Arc, time::SystemTime};

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use hermes_config::sync::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::Url;

use super::{
    OAuthError,
    jwt::SigningKey,
    pkce::{self, encode_base64url},
};

/// A key of our own.
pub(super) struct DpopKey {
    key: SigningKey,
    /// The public half, as the proofs show it.
    jwk: Value,
    pkcs8: String,
}

impl DpopKey {
    /// Makes a new one.
    pub(super) fn generate() -> Result<Self, OAuthError> {
        let document =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
                .map_err(|_| unusable_key_error())?;
        Self::from_pkcs8(&BASE64_STANDARD.encode(document.as_ref()))
    }

    /// The one that is kept with a token.
    pub(super) fn from_pkcs8(text: &str) -> Result<Self, OAuthError> {
        let der = BASE64_STANDARD
            .decode(text)
            .map_err(|_| unusable_key_error())?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der)
            .map_err(|_| unusable_key_error())?;
        // Uncompressed: one byte, then both coordinates.
        let point = pair.public_key().as_ref();
        let (x, y) = (
            point.get(1..33).ok_or_else(unusable_key_error)?,
            point.get(33..65).ok_or_else(unusable_key_error)?,
        );
        let jwk = json!({"kty": "EC", "crv": "P-256", "x": encode_base64url(x), "y": encode_base64url(y)});
        Ok(Self {
            key: SigningKey::P256(pair),
            jwk,
            pkcs8: text.to_owned(),
        })
    }

    /// The key as it is kept.
    pub(super) fn to_pkcs8(&self) -> &str {
        &self.pkcs8
    }

    /// Proves to one request that the key is held.
    pub(super) fn proof(
        &self,
        method: &str,
        url: &Url,
        access_token: Option<&str>,
        nonce: Option<&str>,
    ) -> Result<String, OAuthError> {
        let mut target = url.clone();
        target.set_query(None);
        target.set_fragment(None);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let mut claims = json!({
            "jti": pkce::random_token()?,
            "htm": method,
            "htu": target.as_str(),
            "iat": now.map_or(0, |now| now.as_secs()),
        });
        if let Some(token) = access_token {
            claims["ath"] = json!(encode_base64url(&Sha256::digest(token.as_bytes())));
        }
        if let Some(nonce) = nonce {
            claims["nonce"] = json!(nonce);
        }
        let header = json!({"typ": "dpop+jwt", "jwk": self.jwk});
        self.key.sign(header, &claims)
    }
}

impl fmt::Debug for DpopKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DpopKey")
    }
}

/// The nonces that servers have asked for last, by origin. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Nonces(Arc<Mutex<HashMap<String, String>>>);

impl Nonces {
    /// What to put into a proof for this address.
    pub(super) fn get(&self, url: &Url) -> Option<String> {
        let nonces = self.0.lock();
        nonces.get(&url.origin().ascii_serialization()).cloned()
    }

    /// Remembers one. Returns whether it is new.
    pub(super) fn store(&self, url: &Url, nonce: &str) -> bool {
        let mut nonces = self.0.lock();
        let old = nonces.insert(url.origin().ascii_serialization(), nonce.to_owned());
        old.as_deref() != Some(nonce)
    }
}

fn unusable_key_error() -> OAuthError {
    OAuthError::LoginExpired {
        reason: "the key that its token is bound to cannot be used".into(),
    }
}

#[cfg(test)]
mod tests {
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;

    use super::*;

    fn part(token: &str, index: usize) -> Value {
        let part = token.split('.').nth(index).unwrap();
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    #[test]
    fn a_proof_names_request_token_and_nonce_and_is_made_once() {
        let key = DpopKey::generate().unwrap();
        let url = Url::parse("https://h.example/mcp?secret=1#x").unwrap();
        let proof = key.proof("POST", &url, Some("token"), Some("n")).unwrap();
        let (header, claims) = (part(&proof, 0), part(&proof, 1));
        assert_eq!(header["typ"], "dpop+jwt");
        assert_eq!(header["alg"], "ES256");
        assert_eq!(header["jwk"]["kty"], "EC");
        assert_eq!(header["jwk"].get("d"), None);
        assert_eq!(claims["htm"], "POST");
        assert_eq!(claims["htu"], "https://h.example/mcp");
        assert_eq!(claims["nonce"], "n");
        assert_eq!(claims["ath"], encode_base64url(&Sha256::digest(b"token")));
        let other = key.proof("POST", &url, Some("token"), Some("n")).unwrap();
        assert_ne!(claims["jti"], part(&other, 1)["jti"]);
    }

    #[test]
    fn a_kept_key_is_the_same_key() {
        let key = DpopKey::generate().unwrap();
        let again = DpopKey::from_pkcs8(key.to_pkcs8()).unwrap();
        assert_eq!(key.jwk, again.jwk);
        assert!(DpopKey::from_pkcs8("nonsense").is_err());
    }

    #[test]
    fn nonces_belong_to_their_origin() {
        let nonces = Nonces::default();
        let url = Url::parse("https://h.example/a").unwrap();
        assert!(nonces.store(&url, "1"));
        assert!(!nonces.store(&url, "1"));
        assert_eq!(
            nonces
                .get(&Url::parse("https://h.example/b").unwrap())
                .as_deref(),
            Some("1")
        );
        assert_eq!(nonces.get(&Url::parse("https://i.example/").unwrap()), None);
    }
}
