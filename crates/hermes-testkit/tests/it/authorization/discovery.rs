use super::*;

#[tokio::test]
async fn a_stranger_is_told_where_the_metadata_are_and_which_scope_is_needed() {
    let resource = Resource::with(|resource| {
        resource.scope = Some("mcp:read".to_owned());
        resource.scopes = vec!["mcp:read".to_owned(), "mcp:write".to_owned()];
    });
    let place = OAuthSetup::new(AuthorizationSetup::default(), resource);
    let (status, challenge) = place.call("", "echo").await;
    let origin = place.mcp.origin();
    let metadata = format!("{origin}/.well-known/oauth-protected-resource/mcp");
    assert_eq!(status, 401);
    assert_eq!(
        challenge,
        format!("Bearer resource_metadata=\"{metadata}\", scope=\"mcp:read\"")
    );
    let document = get(&metadata).await.ok();
    assert_eq!(document["resource"], place.mcp.url());
    assert_eq!(document["authorization_servers"][0], place.server.issuer());
    assert_eq!(
        document["scopes_supported"],
        json!(["mcp:read", "mcp:write"])
    );
}

#[tokio::test]
async fn a_wrong_token_is_called_one() {
    let place = OAuthSetup::usual();
    let (status, challenge) = place.call("Bearer nonsense", "echo").await;
    assert_eq!(status, 401);
    assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
}

#[tokio::test]
async fn a_plain_challenge_leaves_the_metadata_to_be_found() {
    let resource = Resource::with(|resource| {
        resource.challenge = Challenge::Plain;
        resource.metadata = MetadataLocation::Root;
    });
    let place = OAuthSetup::new(AuthorizationSetup::default(), resource);
    assert_eq!(place.call("", "echo").await.1, "Bearer");
    let at = format!(
        "{}/.well-known/oauth-protected-resource",
        place.mcp.origin()
    );
    let document = get(&at).await.ok();
    assert_eq!(document["resource"], place.mcp.url());
    // Neither with the path nor anything else that is not MCP.
    assert_eq!(get(&format!("{at}/mcp")).await.status, 404);
}

#[tokio::test]
async fn the_servers_metadata_are_in_one_of_three_places() {
    for (discovery, path) in [
        (
            Discovery::OAuth,
            "/.well-known/oauth-authorization-server/tenant",
        ),
        (
            Discovery::OpenIdInserted,
            "/.well-known/openid-configuration/tenant",
        ),
        (
            Discovery::OpenIdAppended,
            "/tenant/.well-known/openid-configuration",
        ),
    ] {
        let server = AuthorizationServer::start(AuthorizationSetup::with(|setup| {
            setup.path = "/tenant".to_owned();
            setup.discovery = discovery;
        }));
        let issuer = server.issuer();
        let origin = issuer.strip_suffix("/tenant").unwrap();
        let document = get(&format!("{origin}{path}")).await.ok();
        assert_eq!(document["issuer"], issuer);
        assert_eq!(document["token_endpoint"], format!("{issuer}/token"));
        assert_eq!(
            document["code_challenge_methods_supported"],
            json!(["S256"])
        );
        let wrong = format!("{origin}/.well-known/oauth-authorization-server");
        assert_eq!(get(&wrong).await.status, 404);
        assert_eq!(server.requests_to(Endpoint::ServerMetadata).len(), 1);
    }
}

#[tokio::test]
async fn metadata_say_only_what_is_offered() {
    let server = AuthorizationServer::start(AuthorizationSetup::with(|setup| {
        setup.challenge_methods.clear();
        setup.dynamic_registration = false;
        setup.issuer_parameter = false;
    }));
    let at = format!("{}/.well-known/oauth-authorization-server", server.issuer());
    let document = get(&at).await.ok();
    for absent in [
        "code_challenge_methods_supported",
        "registration_endpoint",
        "authorization_response_iss_parameter_supported",
        "client_id_metadata_document_supported",
        "device_authorization_endpoint",
        "dpop_signing_alg_values_supported",
    ] {
        assert_eq!(document.get(absent), None);
    }
    assert_eq!(
        post(&format!("{}/register", server.issuer()), &[])
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn both_may_live_at_one_origin_without_any_metadata_of_the_mcp_server() {
    let setup = AuthorizationSetup::default();
    let resource = Resource::with(|resource| {
        resource.metadata = MetadataLocation::None;
        resource.challenge = Challenge::Plain;
    });
    let (server, mcp) = AuthorizationServer::start_sharing_origin(setup, resource);
    server.register(RegisteredClient::public("client"));
    assert_eq!(server.issuer(), mcp.origin());
    let place = OAuthSetup { server, mcp };
    assert_eq!(place.call("", "echo").await, (401, "Bearer".to_owned()));
    let token = place.log_in(None).await;
    assert_eq!(place.call_with(&token).await, 200);
    assert_eq!(place.server.requests_to(Endpoint::Token).len(), 1);
}
