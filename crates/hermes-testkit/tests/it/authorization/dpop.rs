//! Tokens that are bound to a key.

use std::time::SystemTime;

use super::*;

/// A client's key and the proofs it makes.
struct KeyHolder(TokenIssuer);

impl KeyHolder {
    fn new() -> Self {
        Self(TokenIssuer::new("key"))
    }

    /// A proof for a request, with a change to its claims.
    fn proof(&self, url: &str, change: &Value) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let mut claims = json!({
            "htm": "POST", "htu": url, "iat": now.unwrap().as_secs(), "jti": format!("{:?}", SystemTime::now()),
        });
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let header = json!({ "typ": "dpop+jwt", "alg": "ES256", "jwk": self.0.jwk() });
        self.0.sign(&header, &claims)
    }

    async fn token(&self, place: &OAuthSetup, change: Value) -> HttpReply {
        let code = place.code(None).await;
        let url = place.url("token");
        let fields = [
            ("grant_type", "authorization_code"),
            ("client_id", "client"),
            ("code", &code),
            ("code_verifier", VERIFIER),
            ("resource", &place.mcp.url()),
        ];
        let request = form(&url, &fields).header("dpop", self.proof(&url, &change));
        HttpReply::read(request.send().await.unwrap()).await
    }

    async fn call(&self, place: &OAuthSetup, token: &Value, change: Value) -> HttpReply {
        let url = place.mcp.url();
        let token = token["access_token"].as_str().unwrap();
        let mut all = json!({ "ath": hash(token) });
        for (name, value) in change.as_object().unwrap() {
            all[name] = value.clone();
        }
        let request = call_request(&url, &format!("DPoP {token}"), "echo");
        let request = request.header("dpop", self.proof(&url, &all));
        HttpReply::read(request.send().await.unwrap()).await
    }
}

fn setup_with_proof(proof: ProofOfPossession) -> OAuthSetup {
    OAuthSetup::new(
        AuthorizationSetup::with(|setup| setup.proof = proof),
        Resource::default(),
    )
}

#[tokio::test]
async fn a_bound_token_needs_its_key_with_every_request() {
    let place = setup_with_proof(ProofOfPossession::Offered);
    let holder = KeyHolder::new();
    let token = holder.token(&place, json!({})).await.ok();
    assert_eq!(token["token_type"], "DPoP");
    assert_eq!(holder.call(&place, &token, json!({})).await.status, 200);
    // Not as a bearer token, not with another key, not for another token, address or time.
    assert_eq!(place.call_with(&token).await, 401);
    assert_eq!(
        KeyHolder::new()
            .call(&place, &token, json!({}))
            .await
            .status,
        401
    );
    for wrong in [
        json!({ "ath": hash("another") }),
        json!({ "htu": "https://other.test/mcp" }),
        json!({ "htm": "GET" }),
        json!({ "iat": 1 }),
    ] {
        assert_eq!(holder.call(&place, &token, wrong).await.status, 401);
    }
}

#[tokio::test]
async fn a_proof_is_good_once() {
    let place = setup_with_proof(ProofOfPossession::Offered);
    let holder = KeyHolder::new();
    let token = holder.token(&place, json!({})).await.ok();
    let same = json!({ "jti": "the-same" });
    assert_eq!(holder.call(&place, &token, same.clone()).await.status, 200);
    assert_eq!(holder.call(&place, &token, same).await.status, 401);
}

#[tokio::test]
async fn where_proof_is_only_offered_bearer_tokens_go_on() {
    let place = setup_with_proof(ProofOfPossession::Offered);
    let token = place.log_in(None).await;
    assert_eq!(token["token_type"], "Bearer");
    assert_eq!(place.call_with(&token).await, 200);
}

#[tokio::test]
async fn where_proof_is_required_there_is_no_token_without() {
    let place = setup_with_proof(ProofOfPossession::Required);
    let code = place.code(None).await;
    place.redeem(&code).await.refused("invalid_dpop_proof");
    let (status, challenge) = place.call("", "echo").await;
    assert_eq!(status, 401);
    assert!(challenge.starts_with("DPoP "), "{challenge}");
}

#[tokio::test]
async fn a_server_can_insist_on_its_nonce_in_both_places() {
    let place = setup_with_proof(ProofOfPossession::RequiredWithNonce);
    let holder = KeyHolder::new();
    let refused = holder.token(&place, json!({})).await;
    refused.refused("use_dpop_nonce");
    let nonce = refused.headers["dpop-nonce"].to_str().unwrap();
    let with_nonce = json!({ "nonce": nonce });
    let token = holder.token(&place, with_nonce.clone()).await.ok();
    let refused = holder.call(&place, &token, json!({})).await;
    assert_eq!(refused.status, 401);
    let challenge = refused.headers["www-authenticate"].to_str().unwrap();
    assert!(challenge.contains("use_dpop_nonce"), "{challenge}");
    assert_eq!(refused.headers["dpop-nonce"], nonce);
    assert_eq!(holder.call(&place, &token, with_nonce).await.status, 200);
}

#[tokio::test]
async fn a_refresh_stays_with_the_key() {
    let place = setup_with_proof(ProofOfPossession::Required);
    let holder = KeyHolder::new();
    let token = holder.token(&place, json!({})).await.ok();
    let url = place.url("token");
    let refresh = async |holder: &KeyHolder| {
        let fields = [
            ("grant_type", "refresh_token"),
            ("client_id", "client"),
            ("refresh_token", token["refresh_token"].as_str().unwrap()),
            ("resource", &place.mcp.url()),
        ];
        let request = form(&url, &fields).header("dpop", holder.proof(&url, &json!({})));
        HttpReply::read(request.send().await.unwrap()).await
    };
    let next = refresh(&holder).await.ok();
    assert_eq!(next["token_type"], "DPoP");
    let token = holder.token(&place, json!({})).await.ok();
    let stolen = [
        ("grant_type", "refresh_token"),
        ("client_id", "client"),
        ("refresh_token", token["refresh_token"].as_str().unwrap()),
        ("resource", &place.mcp.url()),
    ];
    let thief = KeyHolder::new();
    let request = form(&url, &stolen).header("dpop", thief.proof(&url, &json!({})));
    let reply = HttpReply::read(request.send().await.unwrap()).await;
    reply.refused("invalid_dpop_proof");
}
