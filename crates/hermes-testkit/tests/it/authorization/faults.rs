use std::time::Duration;

use super::*;

const ELSEWHERE: &str = "https://elsewhere.test/x";

fn metadata_of(place: &OAuthSetup) -> [String; 2] {
    [
        format!(
            "{}/.well-known/oauth-protected-resource/mcp",
            place.mcp.origin()
        ),
        format!(
            "{}/.well-known/oauth-authorization-server",
            place.server.issuer()
        ),
    ]
}

#[tokio::test]
async fn an_endpoint_fails_until_it_is_mended() {
    let place = OAuthSetup::usual();
    let [resource, server] = metadata_of(&place);
    for (endpoint, url) in [
        (Endpoint::ResourceMetadata, resource),
        (Endpoint::ServerMetadata, server),
        (Endpoint::Keys, place.url("jwks")),
    ] {
        place.server.fail(endpoint, EndpointFault::Status(500));
        assert_eq!(get(&url).await.status, 500);
        let junk = EndpointFault::Junk("<html>".to_owned());
        place.server.fail(endpoint, junk);
        let reply = get(&url).await;
        assert_eq!((reply.status, reply.body), (200, Value::Null));
        let redirect = EndpointFault::Redirect(ELSEWHERE.to_owned());
        place.server.fail(endpoint, redirect);
        let reply = get(&url).await;
        assert_eq!(
            (reply.status, &reply.headers["location"]),
            (307, &ELSEWHERE.parse().unwrap())
        );
        place.server.fail(endpoint, EndpointFault::Hang);
        let limit = Duration::from_millis(200);
        let impatient = http().get(&url).timeout(limit).send().await;
        assert!(impatient.unwrap_err().is_timeout());
        place.server.clear_fault(endpoint);
        assert_eq!(get(&url).await.status, 200);
    }
}

#[tokio::test]
async fn the_token_endpoint_fails_before_it_does_anything() {
    let place = OAuthSetup::usual();
    let token = place.log_in(None).await;
    place
        .server
        .fail(Endpoint::Token, EndpointFault::Status(503));
    assert_eq!(place.refresh(&token).await.status, 503);
    place.server.clear_fault(Endpoint::Token);
    assert_eq!(place.refresh(&token).await.status, 200);
    assert_eq!(place.server.requests_to(Endpoint::Token).len(), 3);
}

#[tokio::test]
async fn metadata_can_lie_about_every_address() {
    let place = OAuthSetup::usual();
    let [resource, server] = metadata_of(&place);
    for (endpoint, url, field) in [
        (Endpoint::Resource, &resource, "/resource"),
        (
            Endpoint::ResourceMetadata,
            &resource,
            "/authorization_servers/0",
        ),
        (Endpoint::ServerMetadata, &server, "/issuer"),
        (Endpoint::Authorization, &server, "/authorization_endpoint"),
        (Endpoint::Token, &server, "/token_endpoint"),
        (Endpoint::Registration, &server, "/registration_endpoint"),
        (Endpoint::Revocation, &server, "/revocation_endpoint"),
    ] {
        let lie = EndpointFault::Advertised("http://169.254.169.254/x".to_owned());
        place.server.fail(endpoint, lie);
        let document = get(url).await.ok();
        assert_eq!(
            document.pointer(field),
            Some(&json!("http://169.254.169.254/x"))
        );
        place.server.clear_fault(endpoint);
        assert_ne!(get(url).await.ok(), document);
    }
    let lie = EndpointFault::Advertised(ELSEWHERE.to_owned());
    place.server.fail(Endpoint::Challenge, lie);
    let (_, challenge) = place.call("", "echo").await;
    assert_eq!(
        challenge,
        format!("Bearer resource_metadata=\"{ELSEWHERE}\"")
    );
}

#[tokio::test]
async fn the_way_back_can_be_spoilt() {
    let place = OAuthSetup::usual();
    let back = async |fault: CallbackFault| {
        place.server.set_callback_fault(Some(fault));
        place.consent(&place.request()).await
    };
    let wrong = back(CallbackFault::WrongState).await;
    assert!(parameter(&wrong, "state").is_some_and(|state| state != STATE));
    assert!(parameter(&wrong, "code").is_some());
    let missing = back(CallbackFault::MissingState).await;
    assert_eq!(parameter(&missing, "state"), None);
    let other = back(CallbackFault::WrongIssuer(ELSEWHERE.to_owned())).await;
    assert_eq!(parameter(&other, "iss").as_deref(), Some(ELSEWHERE));
    let missing = back(CallbackFault::MissingIssuer).await;
    assert_eq!(parameter(&missing, "iss"), None);
    let script = "<script>alert(1)</script>";
    let refused = back(CallbackFault::Refused(script.to_owned())).await;
    assert_eq!(
        parameter(&refused, "error").as_deref(),
        Some("access_denied")
    );
    assert_eq!(
        parameter(&refused, "error_description").as_deref(),
        Some(script)
    );
    assert_eq!(parameter(&refused, "code"), None);
    place.server.set_callback_fault(None);
    assert_eq!(place.call_with(&place.log_in(None).await).await, 200);
}

#[tokio::test]
async fn an_mcp_server_can_change_to_another_authorization_server() {
    let old = AuthorizationServer::start(AuthorizationSetup::default());
    let new = AuthorizationServer::start(AuthorizationSetup::default());
    let mcp = old.protect(Resource::default().trusting(&new));
    old.fail(
        Endpoint::ResourceMetadata,
        EndpointFault::Advertised(new.issuer()),
    );
    new.register(RegisteredClient::public("client"));
    let place = OAuthSetup { server: new, mcp };
    let token = place.log_in(None).await;
    assert_eq!(place.call_with(&token).await, 200);
    assert!(old.requests().is_empty());
}
