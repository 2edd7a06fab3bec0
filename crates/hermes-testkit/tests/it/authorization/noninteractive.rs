//! Clients that come without a person, or with one somewhere else.

use std::time::Duration;

use super::*;

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

#[tokio::test]
async fn a_client_with_a_secret_shows_it_in_a_header_or_in_the_form() {
    let place = OAuthSetup::usual();
    place
        .server
        .register(RegisteredClient::with_secret("robot", "s3:cret"));
    let resource = place.mcp.url();
    let grant = [
        ("grant_type", "client_credentials"),
        ("resource", resource.as_str()),
    ];
    let in_form = |secret: &str| {
        let mut fields = grant.to_vec();
        fields.extend([("client_id", "robot"), ("client_secret", secret)]);
        form(&place.url("token"), &fields)
    };
    // Both halves are encoded before they are joined.
    let in_header = form(&place.url("token"), &grant).basic_auth("robot", Some("s3%3Acret"));
    for request in [in_form("s3:cret"), in_header] {
        let token = HttpReply::read(request.send().await.unwrap()).await.ok();
        assert_eq!(token.get("refresh_token"), None);
        assert_eq!(place.call_with(&token).await, 200);
    }
    let wrong = HttpReply::read(in_form("wrong").send().await.unwrap()).await;
    wrong.refused("invalid_client");
    assert_eq!(wrong.status, 401);
    let both = in_form("s3:cret").basic_auth("robot", Some("s3%3Acret"));
    let both = HttpReply::read(both.send().await.unwrap()).await;
    both.refused("invalid_request");
    // One that keeps no secret gets nothing of its own.
    let reply = place.token(&[("grant_type", "client_credentials")]).await;
    reply.refused("unauthorized_client");
}

#[tokio::test]
async fn a_client_with_a_key_signs_for_this_server_now_and_once() {
    let place = OAuthSetup::usual();
    let robot = TokenIssuer::new("robot");
    place
        .server
        .register(RegisteredClient::with_key("robot", &robot));
    let resource = place.mcp.url();
    let ask = async |assertion: &str| {
        let fields = [
            ("grant_type", "client_credentials"),
            ("resource", resource.as_str()),
            ("client_assertion_type", CLIENT_ASSERTION),
            ("client_assertion", assertion),
        ];
        post(&place.url("token"), &fields).await
    };
    let good = robot.assertion("robot", &place.server.issuer());
    let token = ask(&good).await.ok();
    assert_eq!(place.call_with(&token).await, 200);
    ask(&good).await.refused("invalid_client");
    let elsewhere = robot.assertion("robot", "https://other.test");
    ask(&elsewhere).await.refused("invalid_client");
    let stranger = TokenIssuer::new("robot").assertion("robot", &place.server.issuer());
    ask(&stranger).await.refused("invalid_client");
    assert!(robot.key_pem().starts_with("-----BEGIN PRIVATE KEY-----\n"));
}

#[tokio::test]
async fn a_clock_that_is_off_spoils_assertions() {
    let place = OAuthSetup::usual();
    let robot = TokenIssuer::new("robot");
    place
        .server
        .register(RegisteredClient::with_key("robot", &robot));
    let resource = place.mcp.url();
    for (offset, good) in [(3600, false), (-3600, false), (0, true)] {
        place.server.set_clock_offset(offset);
        let assertion = robot.assertion("robot", &place.server.issuer());
        let fields = [
            ("grant_type", "client_credentials"),
            ("resource", resource.as_str()),
            ("client_assertion_type", CLIENT_ASSERTION),
            ("client_assertion", &assertion),
        ];
        let reply = post(&place.url("token"), &fields).await;
        assert_eq!(reply.status == 200, good, "{offset}");
    }
}

#[tokio::test]
async fn a_device_waits_for_a_person() {
    let setup = AuthorizationSetup::with(|setup| setup.device_codes = true);
    let place = OAuthSetup::new(setup, Resource::default());
    let resource = place.mcp.url();
    let begin = async || {
        let fields = [("client_id", "client"), ("resource", resource.as_str())];
        post(&place.url("device"), &fields).await.ok()
    };
    let poll = async |device: &Value| {
        let code = device["device_code"].as_str().unwrap();
        let kind = "urn:ietf:params:oauth:grant-type:device_code";
        place
            .token(&[("grant_type", kind), ("device_code", code)])
            .await
    };
    let visit = async |device: &Value| {
        let url = device["verification_uri_complete"].as_str().unwrap();
        assert_eq!(get(url).await.status, 200);
    };
    let device = begin().await;
    // At once, for on a busy machine one after the other may take as long as a device should wait.
    let (one, other) = tokio::join!(poll(&device), poll(&device));
    let (first, second) = if one.body["error"] == "slow_down" {
        (other, one)
    } else {
        (one, other)
    };
    first.refused("authorization_pending");
    second.refused("slow_down");
    visit(&device).await;
    let token = poll(&device).await.ok();
    assert_eq!(place.call_with(&token).await, 200);
    poll(&device).await.refused("invalid_grant");

    let refused = CallbackFault::Refused("no".to_owned());
    place.server.set_callback_fault(Some(refused));
    let device = begin().await;
    visit(&device).await;
    poll(&device).await.refused("access_denied");
}

#[tokio::test]
async fn a_company_decides_who_may_use_an_mcp_server() {
    let place = OAuthSetup::usual();
    place
        .server
        .register(RegisteredClient::with_secret("hermes", "one"));
    let provider = AuthorizationServer::start(AuthorizationSetup::default());
    provider.register(RegisteredClient::with_secret("desktop", "two"));
    provider.federate("desktop", "hermes");
    place.server.trust(provider.identity());

    let resource = place.mcp.url();
    let issuer = place.server.issuer();
    let exchange = async |token: &str| {
        let fields = [
            ("grant_type", EXCHANGE),
            (
                "requested_token_type",
                "urn:ietf:params:oauth:token-type:id-jag",
            ),
            ("subject_token", token),
            (
                "subject_token_type",
                "urn:ietf:params:oauth:token-type:id_token",
            ),
            ("audience", issuer.as_str()),
            ("resource", resource.as_str()),
            ("client_id", "desktop"),
            ("client_secret", "two"),
        ];
        post(&format!("{}/token", provider.issuer()), &fields).await
    };
    let foreign = provider.id_token("ada", "another-client");
    exchange(&foreign).await.refused("invalid_grant");
    let exchanged = exchange(&provider.id_token("ada", "desktop")).await.ok();
    assert_eq!(exchanged["token_type"], "N_A");
    let assertion = exchanged["access_token"].as_str().unwrap();
    let redeem = async |client: &str, secret: &str| {
        let fields = [
            ("grant_type", JWT_BEARER),
            ("assertion", assertion),
            ("client_id", client),
            ("client_secret", secret),
        ];
        post(&place.url("token"), &fields).await
    };
    // It was issued to one client.
    place
        .server
        .register(RegisteredClient::with_secret("other", "three"));
    redeem("other", "three").await.refused("invalid_grant");
    let token = redeem("hermes", "one").await.ok();
    assert_eq!(place.call_with(&token).await, 200);
    redeem("hermes", "one").await.refused("invalid_grant");
}

#[tokio::test]
async fn a_workload_needs_no_client_but_an_issuer_that_is_trusted() {
    let place = OAuthSetup::usual();
    let cluster = TokenIssuer::new("https://cluster.test");
    let resource = place.mcp.url();
    let ask = async |assertion: &str| {
        let fields = [
            ("grant_type", JWT_BEARER),
            ("assertion", assertion),
            ("resource", resource.as_str()),
        ];
        post(&place.url("token"), &fields).await
    };
    let issuer = place.server.issuer();
    ask(&cluster.assertion("pod", &issuer))
        .await
        .refused("invalid_grant");
    place.server.trust(&cluster);
    ask(&cluster.assertion("pod", "https://other.test"))
        .await
        .refused("invalid_grant");
    let token = ask(&cluster.assertion("pod", &issuer)).await.ok();
    assert_eq!(place.call_with(&token).await, 200);
    // Without a name that is all they get.
    let fields = [("grant_type", "refresh_token"), ("refresh_token", "x")];
    let reply = post(&place.url("token"), &fields).await;
    reply.refused("invalid_client");
}

#[tokio::test]
async fn an_id_token_comes_with_the_scope_for_it() {
    let place = OAuthSetup::usual();
    place.server.set_lifetime(Duration::from_mins(1));
    let token = place.log_in(Some("openid")).await;
    let claims = token["id_token"].as_str().unwrap().split('.').nth(1);
    let claims = URL_SAFE_NO_PAD.decode(claims.unwrap()).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    assert_eq!(claims["aud"], "client");
    assert_eq!(claims["iss"], place.server.issuer());
    let keys = get(&place.url("jwks")).await.ok();
    assert_eq!(keys["keys"][0]["x"], place.server.identity().jwk()["x"]);
}
