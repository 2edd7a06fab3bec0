//! Signed tokens: ES256, the one algorithm everybody has.

use std::fmt;

use aws_lc_rs::{
    digest::{SHA256, digest},
    rand::{SystemRandom, fill},
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
        UnparsedPublicKey,
    },
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};

/// How long a signed token lasts.
const LIFETIME: i64 = 300;

/// Somebody who signs: an identity provider, the issuer of a workload's identity, a client with a key.
pub struct TokenIssuer {
    name: String,
    key: EcdsaKeyPair,
}

impl TokenIssuer {
    /// An issuer with a new key.
    ///
    /// # Panics
    ///
    /// If no key can be made.
    pub fn new(name: &str) -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)
            .unwrap_or_else(|error| panic!("cannot make a key: {error}"));
        Self {
            name: name.to_owned(),
            key,
        }
    }

    /// Its name, the `iss` of what it signs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The private key as PEM, for clients that sign by themselves.
    ///
    /// # Panics
    ///
    /// If the key cannot be written down.
    pub fn key_pem(&self) -> String {
        let document = self
            .key
            .to_pkcs8v1()
            .unwrap_or_else(|error| panic!("cannot write a key: {error}"));
        let text = STANDARD.encode(document.as_ref());
        let lines: Vec<&str> = text
            .as_bytes()
            .chunks(64)
            .filter_map(|line| std::str::from_utf8(line).ok())
            .collect();
        let lines = lines.join("\n");
        format!("-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n")
    }

    /// A token that says who somebody is, good for five minutes from now on.
    pub fn assertion(&self, subject: &str, audience: &str) -> String {
        self.sign_claims(subject, audience, json!({}), super::state::unix_now())
    }

    /// The same with more claims, at a given time. A `typ` among them goes into the header.
    pub(super) fn sign_claims(
        &self,
        subject: &str,
        audience: &str,
        claims: Value,
        now: i64,
    ) -> String {
        let mut all = json!({
            "iss": self.name, "sub": subject, "aud": audience, "iat": now, "exp": now + LIFETIME, "jti": random_token(),
        });
        let mut header = json!({ "alg": "ES256", "kid": "1" });
        if let Value::Object(claims) = claims {
            for (name, value) in claims {
                let place = if name == "typ" { &mut header } else { &mut all };
                place[name] = value;
            }
        }
        self.sign(&header, &all)
    }

    /// Signs any header and claims.
    ///
    /// # Panics
    ///
    /// If the key cannot sign.
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(header), part(claims));
        let signature = self
            .key
            .sign(&SystemRandom::new(), text.as_bytes())
            .unwrap_or_else(|error| panic!("cannot sign: {error}"));
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    /// The public half of the key, as JSON.
    pub fn jwk(&self) -> Value {
        self.public_key().jwk()
    }

    pub(super) fn public_key(&self) -> PublicKey {
        PublicKey(self.key.public_key().as_ref().to_vec())
    }
}

impl fmt::Debug for TokenIssuer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TokenIssuer({})", self.name)
    }
}

/// A point on P-256, uncompressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PublicKey(Vec<u8>);

impl PublicKey {
    /// The key in a JWK, if it is a public one of the right kind.
    pub(super) fn from_jwk(jwk: &Value) -> Option<Self> {
        let coordinate = |name: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(jwk[name].as_str()?).ok()?;
            (bytes.len() == 32).then_some(bytes)
        };
        let fits = jwk["kty"] == "EC" && jwk["crv"] == "P-256" && jwk.get("d").is_none();
        fits.then_some(())?;
        Some(Self([vec![4], coordinate("x")?, coordinate("y")?].concat()))
    }

    fn jwk(&self) -> Value {
        let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({ "crv": "P-256", "kty": "EC", "x": part(&self.0[1..33]), "y": part(&self.0[33..]) })
    }

    /// The name of the key that bound tokens carry (RFC 7638).
    pub(super) fn thumbprint(&self) -> String {
        sha256_base64url(&self.jwk().to_string())
    }
}

/// A signed token, taken apart.
pub(super) struct Jwt {
    pub(super) header: Value,
    pub(super) claims: Value,
    signed: String,
    signature: Vec<u8>,
}

impl Jwt {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        Some(Self {
            header: serde_json::from_slice(&decode(header)?).ok()?,
            claims: serde_json::from_slice(&decode(claims)?).ok()?,
            signed: signed.to_owned(),
            signature: decode(signature)?,
        })
    }

    pub(super) fn is_signed_by(&self, key: &PublicKey) -> bool {
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &key.0);
        let verified = key.verify(self.signed.as_bytes(), &self.signature);
        self.header["alg"] == "ES256" && verified.is_ok()
    }

    pub(super) fn text(&self, claim: &str) -> &str {
        self.claims[claim].as_str().unwrap_or_default()
    }

    /// Whether it is meant for one of these.
    pub(super) fn is_for(&self, names: &[String]) -> bool {
        let given = match &self.claims["aud"] {
            Value::Array(given) => given.iter().filter_map(Value::as_str).collect(),
            other => other.as_str().into_iter().collect::<Vec<_>>(),
        };
        given
            .into_iter()
            .any(|given| names.iter().any(|name| name == given))
    }

    /// Whether it has begun and not ended. Nobody is refused for some seconds.
    pub(super) fn is_current(&self, now: i64) -> bool {
        const LEEWAY: i64 = 30;
        let time = |claim: &str| self.claims[claim].as_i64();
        time("exp").is_some_and(|end| now < end + LEEWAY)
            && time("iat").is_none_or(|begin| begin <= now + LEEWAY)
            && time("nbf").is_none_or(|begin| begin <= now + LEEWAY)
    }
}

/// A text nobody can guess.
pub(super) fn random_token() -> String {
    let mut bytes = [0; 24];
    if let Err(error) = fill(&mut bytes) {
        panic!("no random numbers: {error}");
    }
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The SHA-256 of a text, as PKCE, DPoP and thumbprints write it.
pub(super) fn sha256_base64url(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_good_for_its_own_key_only() {
        let (one, other) = (TokenIssuer::new("one"), TokenIssuer::new("other"));
        let jwt = Jwt::parse(&one.assertion("somebody", "somewhere")).unwrap();
        assert!(jwt.is_signed_by(&one.public_key()));
        assert!(!jwt.is_signed_by(&other.public_key()));
        assert_eq!(jwt.text("iss"), "one");
        assert!(jwt.is_for(&["somewhere".to_owned()]) && !jwt.is_for(&["one".to_owned()]));
    }

    #[test]
    fn a_key_survives_the_way_through_its_jwk_unless_it_is_private() {
        let issuer = TokenIssuer::new("one");
        let mut jwk = issuer.public_key().jwk();
        assert_eq!(PublicKey::from_jwk(&jwk), Some(issuer.public_key()));
        jwk["d"] = "AAAA".into();
        assert_eq!(PublicKey::from_jwk(&jwk), None);
    }

    #[test]
    fn a_token_is_current_between_its_times() {
        let now = 1_000_000;
        let text = TokenIssuer::new("one").sign_claims("a", "b", json!({}), now);
        let jwt = Jwt::parse(&text).unwrap();
        assert!(jwt.is_current(now) && jwt.is_current(now + 300));
        assert!(!jwt.is_current(now + 400) && !jwt.is_current(now - 60));
    }
}
