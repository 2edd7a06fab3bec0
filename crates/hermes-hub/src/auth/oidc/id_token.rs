//! ID tokens: who signed them, for whom, and until when.

use jsonwebtoken::{
    Algorithm, DecodingKey, TokenData, Validation, decode, decode_header,
    errors::{Error as TokenError, ErrorKind},
    jwk::{AlgorithmParameters, Jwk, JwkSet, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Only keys whose private half the provider alone has. A secret that both sides know signs nothing here.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
/// How far clocks may be apart.
const CLOCK_TOLERANCE_SECONDS: u64 = 60;

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IdTokenError {
    #[error("it is signed by a key that the provider does not publish")]
    UnknownKey,
    #[error("its algorithm is not allowed")]
    Algorithm,
    #[error("its signature is wrong")]
    Signature,
    #[error("it was issued by somebody else")]
    Issuer,
    #[error("it is for another application")]
    Audience,
    #[error("it answers another sign-in")]
    Nonce,
    #[error("it has expired; compare the clocks of the provider and of this machine")]
    Expired,
    #[error("it is from the future; compare the clocks of the provider and of this machine")]
    Future,
    #[error("it is not a token")]
    Malformed,
}

/// What a token must say.
pub(crate) struct ExpectedToken<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) client_id: &'a str,
    pub(crate) nonce: &'a str,
    /// Seconds since 1970.
    pub(crate) now: u64,
}

/// What a token says about a person.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct IdTokenClaims {
    pub(crate) sub: String,
    #[serde(default)]
    aud: Value,
    azp: Option<String>,
    nonce: Option<String>,
    #[serde(default)]
    iat: u64,
    #[serde(default)]
    exp: u64,
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

/// Checks a token and returns what it says.
pub(crate) fn verify_id_token(
    token: &str,
    keys: &JwkSet,
    expected: &ExpectedToken<'_>,
) -> Result<IdTokenClaims, IdTokenError> {
    // `none` is not a word that this knows.
    let header = decode_header(token).map_err(|error| match error.kind() {
        ErrorKind::Json(_) | ErrorKind::InvalidAlgorithmName => IdTokenError::Algorithm,
        _ => IdTokenError::Malformed,
    })?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(IdTokenError::Algorithm);
    }
    let key = find_key(keys, header.kid.as_deref()).ok_or(IdTokenError::UnknownKey)?;
    let key = DecodingKey::from_jwk(key).map_err(|_| IdTokenError::UnknownKey)?;
    let mut validation = Validation::new(header.alg);
    validation.set_issuer(&[expected.issuer]);
    validation.set_audience(&[expected.client_id]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    // By the clock that was handed in, below.
    validation.validate_exp = false;
    let TokenData { claims, .. } =
        decode::<IdTokenClaims>(token, &key, &validation).map_err(|error| refusal(&error))?;
    check_claims(&claims, expected)?;
    Ok(claims)
}

fn check_claims(claims: &IdTokenClaims, expected: &ExpectedToken<'_>) -> Result<(), IdTokenError> {
    // A token for several is for us only if we have asked for it.
    let is_for_several = claims.aud.as_array().is_some_and(|aud| aud.len() > 1);
    let is_ours = match claims.azp.as_deref() {
        Some(asked_by) => asked_by == expected.client_id,
        None => !is_for_several,
    };
    if !is_ours {
        return Err(IdTokenError::Audience);
    }
    if claims.nonce.as_deref() != Some(expected.nonce) {
        return Err(IdTokenError::Nonce);
    }
    if claims.exp.saturating_add(CLOCK_TOLERANCE_SECONDS) <= expected.now {
        return Err(IdTokenError::Expired);
    }
    if claims.iat > expected.now + CLOCK_TOLERANCE_SECONDS {
        return Err(IdTokenError::Future);
    }
    Ok(())
}

/// The key by its name; without one, the only key there is.
fn find_key<'k>(keys: &'k JwkSet, kid: Option<&str>) -> Option<&'k Jwk> {
    let mut usable = keys.keys.iter().filter(|key| {
        let is_public = !matches!(key.algorithm, AlgorithmParameters::OctetKey(_));
        is_public && key.common.public_key_use != Some(PublicKeyUse::Encryption)
    });
    if let Some(kid) = kid {
        return usable.find(|key| key.common.key_id.as_deref() == Some(kid));
    }
    let only = usable.next()?;
    usable.next().is_none().then_some(only)
}

fn refusal(error: &TokenError) -> IdTokenError {
    match error.kind() {
        ErrorKind::InvalidIssuer => IdTokenError::Issuer,
        ErrorKind::InvalidAudience => IdTokenError::Audience,
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName => IdTokenError::Algorithm,
        ErrorKind::InvalidSignature => IdTokenError::Signature,
        ErrorKind::MissingRequiredClaim(claim) if claim == "iss" => IdTokenError::Issuer,
        ErrorKind::MissingRequiredClaim(claim) if claim == "aud" => IdTokenError::Audience,
        ErrorKind::MissingRequiredClaim(claim) if claim == "exp" => IdTokenError::Expired,
        _ => IdTokenError::Malformed,
    }
}
