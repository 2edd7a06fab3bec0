//! Proofs that a client holds a key (RFC 9449).

use super::{
    jwt::{Jwt, PublicKey, sha256_base64url},
    refusal::OAuthRefusal,
    setup::ProofOfPossession,
    state::AuthorizationState,
};
use crate::http::HttpRequest;

/// How far the clocks of client and server may be apart.
const LEEWAY: i64 = 60;

/// The thumbprint of the key that a token is to be bound to, if it is to be bound.
pub(super) fn check_token_request(
    state: &AuthorizationState,
    request: &HttpRequest,
    url: &str,
) -> Result<Option<String>, OAuthRefusal> {
    match (state.setup.proof, request.header("dpop")) {
        (ProofOfPossession::No, _) | (ProofOfPossession::Offered, None) => Ok(None),
        (_, Some(_)) => check_proof(state, request, url, None).map(Some),
        (_, None) => Err(invalid_proof("there is none")),
    }
}

/// Checks the proof of a request and gives back the thumbprint of its key. With a token, the proof has to name it.
pub(super) fn check_proof(
    state: &AuthorizationState,
    request: &HttpRequest,
    url: &str,
    token: Option<&str>,
) -> Result<String, OAuthRefusal> {
    let jwt = request
        .header("dpop")
        .and_then(Jwt::parse)
        .ok_or_else(|| invalid_proof("not a JWT"))?;
    let key =
        PublicKey::from_jwk(&jwt.header["jwk"]).ok_or_else(|| invalid_proof("no public key"))?;
    let now = state.now();
    let is_recent = jwt.claims["iat"]
        .as_i64()
        .is_some_and(|made| (now - LEEWAY..=now + LEEWAY).contains(&made));
    let checks = [
        (jwt.header["typ"] == "dpop+jwt", "`typ` is not dpop+jwt"),
        (jwt.is_signed_by(&key), "wrong signature"),
        (jwt.text("htm") == request.method, "for another method"),
        (jwt.text("htu") == url, "for another address"),
        (is_recent, "not made just now"),
        (
            token.is_none_or(|token| jwt.text("ath") == sha256_base64url(token)),
            "for another token",
        ),
    ];
    if let Some((_, what)) = checks.into_iter().find(|(holds, _)| !holds) {
        return Err(invalid_proof(what));
    }
    if state.setup.proof == ProofOfPossession::RequiredWithNonce && jwt.text("nonce") != state.nonce
    {
        let mut refusal = OAuthRefusal::new("use_dpop_nonce", "a nonce is needed");
        refusal.nonce = Some(state.nonce.clone());
        return Err(refusal);
    }
    if !state.ledger().is_first_use(jwt.text("jti")) {
        return Err(invalid_proof("used before"));
    }
    Ok(key.thumbprint())
}

fn invalid_proof(what: &str) -> OAuthRefusal {
    OAuthRefusal::new("invalid_dpop_proof", format!("proof: {what}"))
}
