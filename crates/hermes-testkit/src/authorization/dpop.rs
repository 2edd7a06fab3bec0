//! Proofs that a client holds a key (RFC 9449).

use super::jwt::{Jwt, PublicKey, hash};
use super::refusal::Refusal;
use super::setup::ProofOfPossession;
use super::state::State;
use crate::http::HttpRequest;

/// How far the clocks of client and server may be apart.
const LEEWAY: i64 = 60;

/// The thumbprint of the key that a token is to be bound to, if it is to be bound.
pub(super) fn at_the_token_endpoint(
    state: &State,
    request: &HttpRequest,
    url: &str,
) -> Result<Option<String>, Refusal> {
    match (state.setup.proof, request.header("dpop")) {
        (ProofOfPossession::No, _) | (ProofOfPossession::Offered, None) => Ok(None),
        (_, Some(_)) => check(state, request, url, None).map(Some),
        (_, None) => Err(refused("there is none")),
    }
}

/// Checks the proof of a request and gives back the thumbprint of its key. With a token, the proof has to name it.
pub(super) fn check(
    state: &State,
    request: &HttpRequest,
    url: &str,
    token: Option<&str>,
) -> Result<String, Refusal> {
    let jwt = request
        .header("dpop")
        .and_then(Jwt::parse)
        .ok_or_else(|| refused("not a JWT"))?;
    let key = PublicKey::from_jwk(&jwt.header["jwk"]).ok_or_else(|| refused("no public key"))?;
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
            token.is_none_or(|token| jwt.text("ath") == hash(token)),
            "for another token",
        ),
    ];
    if let Some((_, what)) = checks.into_iter().find(|(holds, _)| !holds) {
        return Err(refused(what));
    }
    if state.setup.proof == ProofOfPossession::RequiredWithNonce && jwt.text("nonce") != state.nonce
    {
        let mut refusal = Refusal::new("use_dpop_nonce", "a nonce is needed");
        refusal.nonce = Some(state.nonce.clone());
        return Err(refusal);
    }
    if !state.ledger().is_first_use(jwt.text("jti")) {
        return Err(refused("used before"));
    }
    Ok(key.thumbprint())
}

fn refused(what: &str) -> Refusal {
    Refusal::new("invalid_dpop_proof", format!("proof: {what}"))
}
