//! Signed statements: the key of a client, and JWTs made with it.

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        EcdsaSigningAlgorithm, Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
    },
};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};

use super::{OAuthError, pkce::encode_base64url};

/// A private key that signs.
pub(super) enum SigningKey {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Rsa(RsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    /// Reads a key from PEM text, of whichever kind it is.
    pub(super) fn from_pem(pem: &str) -> Result<Self, OAuthError> {
        let bad = |reason: &str| OAuthError::Setting {
            key: "oauth.private_key",
            reason: reason.into(),
        };
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| bad("there is no private key in PEM form"))?;
        let signing_key = match &key {
            PrivateKeyDer::Pkcs8(der) => {
                let der = der.secret_pkcs8_der();
                let curve = |algorithm| EcdsaKeyPair::from_pkcs8(algorithm, der).ok();
                Self::from_curve(curve)
                    .or_else(|| RsaKeyPair::from_pkcs8(der).ok().map(Self::Rsa))
                    .or_else(|| Ed25519KeyPair::from_pkcs8(der).ok().map(Self::Ed25519))
            }
            PrivateKeyDer::Sec1(der) => {
                let der = der.secret_sec1_der();
                Self::from_curve(|algorithm| {
                    EcdsaKeyPair::from_private_key_der(algorithm, der).ok()
                })
            }
            PrivateKeyDer::Pkcs1(der) => {
                let pair = RsaKeyPair::from_der(der.secret_pkcs1_der());
                pair.ok().map(Self::Rsa)
            }
            _ => None,
        };
        signing_key
            .ok_or_else(|| bad("the key must be RSA, Ed25519, or on the curve P-256 or P-384"))
    }

    fn from_curve(
        read: impl Fn(&'static EcdsaSigningAlgorithm) -> Option<EcdsaKeyPair>,
    ) -> Option<Self> {
        let small = read(&ECDSA_P256_SHA256_FIXED_SIGNING).map(Self::P256);
        small.or_else(|| read(&ECDSA_P384_SHA384_FIXED_SIGNING).map(Self::P384))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
            Self::Rsa(_) => "RS256",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    fn sign_bytes(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            Self::P256(pair) | Self::P384(pair) => {
                let signature = pair.sign(&random, message).ok()?;
                Some(signature.as_ref().to_vec())
            }
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .ok()?;
                Some(signature)
            }
            Self::Ed25519(pair) => Some(pair.sign(message).as_ref().to_vec()),
        }
    }

    /// A signed JWT with these claims, and these members of its header besides the algorithm.
    pub(super) fn sign(&self, mut header: Value, claims: &Value) -> Result<String, OAuthError> {
        header["alg"] = json!(self.algorithm());
        let message = format!(
            "{}.{}",
            encode_base64url(header.to_string().as_bytes()),
            encode_base64url(claims.to_string().as_bytes())
        );
        let signature = self
            .sign_bytes(message.as_bytes())
            .ok_or_else(|| OAuthError::Setting {
                key: "oauth.private_key",
                reason: "signing failed".into(),
            })?;
        Ok(format!("{message}.{}", encode_base64url(&signature)))
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, KeyPair, UnparsedPublicKey};
    use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};

    use super::*;

    #[test]
    fn a_signature_can_be_verified() {
        let pem = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)
            .unwrap()
            .serialize_pem();
        let key = SigningKey::from_pem(&pem).unwrap();
        let token = key
            .sign(json!({"typ": "JWT"}), &json!({"iss": "me"}))
            .unwrap();
        let (message, signature) = token.rsplit_once('.').unwrap();
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
        let SigningKey::P256(pair) = &key else {
            panic!("another curve");
        };
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref())
            .verify(message.as_bytes(), &signature)
            .unwrap();
        let header = BASE64_URL_SAFE_NO_PAD
            .decode(message.split('.').next().unwrap())
            .unwrap();
        let header: Value = serde_json::from_slice(&header).unwrap();
        assert_eq!(header, json!({"typ": "JWT", "alg": "ES256"}));
    }

    #[test]
    fn what_is_not_a_key_is_refused_without_being_repeated() {
        for text in [
            "",
            "hush",
            "-----BEGIN PRIVATE KEY-----\naHVzaA==\n-----END PRIVATE KEY-----\n",
        ] {
            let Err(error) = SigningKey::from_pem(text) else {
                panic!("{text}");
            };
            assert!(!error.to_string().contains("hush"));
        }
    }
}
