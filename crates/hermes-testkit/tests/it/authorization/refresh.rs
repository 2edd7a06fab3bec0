use std::time::{Duration, Instant};

use super::*;

#[tokio::test]
async fn a_refresh_token_rotates_and_its_reuse_ends_the_family() {
    let place = OAuthSetup::usual();
    let first = place.log_in(Some("mcp:read")).await;
    let second = place.refresh(&first).await.ok();
    assert_ne!(first["refresh_token"], second["refresh_token"]);
    assert_eq!(second["scope"], "mcp:read");
    assert_eq!(place.call_with(&second).await, 200);
    place.refresh(&first).await.refused("invalid_grant");
    place.refresh(&second).await.refused("invalid_grant");
    assert_eq!(place.call_with(&second).await, 401);
}

#[tokio::test]
async fn a_lasting_refresh_token_is_not_sent_again() {
    let setup = AuthorizationSetup::with(|setup| setup.refresh_tokens = RefreshTokens::Lasting);
    let place = OAuthSetup::new(setup, Resource::default());
    let token = place.log_in(None).await;
    for _ in 0..2 {
        let next = place.refresh(&token).await.ok();
        assert_eq!(next.get("refresh_token"), None);
        assert_eq!(place.call_with(&next).await, 200);
    }
}

#[tokio::test]
async fn a_server_can_do_without_refresh_tokens() {
    let setup = AuthorizationSetup::with(|setup| setup.refresh_tokens = RefreshTokens::None);
    let place = OAuthSetup::new(setup, Resource::default());
    assert_eq!(place.log_in(None).await.get("refresh_token"), None);
}

#[tokio::test]
async fn a_refresh_names_its_resource_and_widens_nothing() {
    let place = OAuthSetup::usual();
    let token = place.log_in(Some("mcp:read")).await;
    let refresh = token["refresh_token"].as_str().unwrap();
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh),
        ("scope", "mcp:read mcp:write"),
    ];
    place.token(&fields).await.refused("invalid_scope");
    let token = place.log_in(None).await;
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", "client"),
        ("refresh_token", token["refresh_token"].as_str().unwrap()),
    ];
    let reply = post(&place.url("token"), &fields).await;
    reply.refused("invalid_target");
}

#[tokio::test]
async fn access_tokens_end_by_time_or_by_order_and_a_refresh_helps() {
    let setup = AuthorizationSetup::with(|setup| setup.lifetime = Duration::ZERO);
    let place = OAuthSetup::new(setup, Resource::default());
    let token = place.log_in(None).await;
    assert_eq!(token["expires_in"], 0);
    assert_eq!(place.call_with(&token).await, 401);
    place.server.set_lifetime(Duration::from_hours(1));
    let token = place.refresh(&token).await.ok();
    assert_eq!(place.call_with(&token).await, 200);
    place.server.expire_access_tokens();
    assert_eq!(place.call_with(&token).await, 401);
    let token = place.refresh(&token).await.ok();
    assert_eq!(place.call_with(&token).await, 200);
}

#[tokio::test]
async fn whoever_takes_back_a_consent_ends_every_token() {
    let place = OAuthSetup::usual();
    let token = place.log_in(None).await;
    place.server.revoke_everything();
    assert_eq!(place.call_with(&token).await, 401);
    place.refresh(&token).await.refused("invalid_grant");
    let again = place.log_in(None).await;
    assert_eq!(place.call_with(&again).await, 200);
}

#[tokio::test]
async fn a_client_can_give_its_token_back_but_not_that_of_another() {
    let place = OAuthSetup::usual();
    place.server.register(RegisteredClient::public("other"));
    let token = place.log_in(None).await;
    let refresh = token["refresh_token"].as_str().unwrap();
    let revoke = async |client: &str| {
        let fields = [("client_id", client), ("token", refresh)];
        assert_eq!(post(&place.url("revoke"), &fields).await.status, 200);
    };
    revoke("other").await;
    assert_eq!(place.call_with(&token).await, 200);
    revoke("client").await;
    assert_eq!(place.call_with(&token).await, 401);
}

#[tokio::test]
async fn a_server_that_was_stopped_refuses_connections_and_comes_back_with_its_memory() {
    let mut place = OAuthSetup::usual();
    let token = place.log_in(None).await;
    place.server.stop();
    let url = place.url("token");
    assert!(form(&url, &[]).send().await.unwrap_err().is_connect());
    place.server.restart();
    assert_eq!(place.refresh(&token).await.status, 200);
}

#[tokio::test]
async fn a_slow_refresh_lets_a_second_refresher_in() {
    let place = OAuthSetup::usual();
    let token = place.log_in(None).await;
    let delay = Duration::from_millis(200);
    place
        .server
        .fail(Endpoint::Token, EndpointFault::Delay(delay));
    let began = Instant::now();
    let (one, other) = tokio::join!(place.refresh(&token), place.refresh(&token));
    assert!(began.elapsed() >= delay);
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400]);
}
