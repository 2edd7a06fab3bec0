use super::*;

#[tokio::test]
async fn a_code_becomes_a_token_that_opens_the_mcp_server() {
    let place = OAuthSetup::usual();
    let token = place.log_in(Some("mcp:read")).await;
    assert_eq!(token["token_type"], "Bearer");
    assert_eq!(token["expires_in"], 3600);
    assert_eq!(token["scope"], "mcp:read");
    assert_eq!(place.call_with(&token).await, 200);
    let secrets = place.server.secrets();
    for secret in [
        &token["access_token"],
        &token["refresh_token"],
        &json!(VERIFIER),
    ] {
        assert!(secrets.iter().any(|known| secret == known), "{secret}");
    }
    let asked = place.server.requests_to(Endpoint::Token);
    assert_eq!(asked[0].parameter("resource"), Some(place.mcp.url()));
}

#[tokio::test]
async fn a_visit_is_answered_by_the_way_back_with_the_issuer() {
    let place = OAuthSetup::usual();
    let back = place.consent(&place.request()).await;
    assert!(back.as_str().starts_with(CALLBACK));
    assert_eq!(parameter(&back, "iss"), Some(place.server.issuer()));
}

#[tokio::test]
async fn a_code_is_good_for_one_use_and_the_second_takes_back_the_first() {
    let place = OAuthSetup::usual();
    let code = place.code(None).await;
    let token = place.redeem(&code).await.ok();
    place.redeem(&code).await.refused("invalid_grant");
    assert_eq!(place.call_with(&token).await, 401);
}

#[tokio::test]
async fn a_code_needs_its_verifier_its_address_and_its_client() {
    let place = OAuthSetup::usual();
    place.server.register(RegisteredClient::public("other"));
    let grant = [("grant_type", "authorization_code")];
    for (field, wrong) in [
        ("code_verifier", "another-verifier-that-is-long-enough-too"),
        ("redirect_uri", "http://127.0.0.1:10/callback"),
        ("client_id", "other"),
    ] {
        let code = place.code(None).await;
        let resource = place.mcp.url();
        let mut fields = vec![
            ("client_id", "client"),
            ("code", code.as_str()),
            ("code_verifier", VERIFIER),
            ("redirect_uri", CALLBACK),
            ("resource", &resource),
        ];
        fields.extend(grant);
        for (name, value) in &mut fields {
            if *name == field {
                *value = wrong;
            }
        }
        let reply = post(&place.url("token"), &fields).await;
        reply.refused("invalid_grant");
    }
}

#[tokio::test]
async fn an_authorization_request_without_pkce_or_resource_is_refused() {
    let place = OAuthSetup::usual();
    for (missing, error) in [
        ("code_challenge", "invalid_request"),
        ("code_challenge_method", "invalid_request"),
        ("resource", "invalid_target"),
        ("response_type", "unsupported_response_type"),
    ] {
        let mut request = place.request();
        request.retain(|(name, _)| *name != missing);
        let back = place.consent(&request).await;
        assert_eq!(parameter(&back, "error").as_deref(), Some(error));
        assert_eq!(parameter(&back, "code"), None);
    }
}

#[tokio::test]
async fn nobody_is_sent_to_an_address_that_is_not_the_clients() {
    let place = OAuthSetup::usual();
    for (name, value) in [
        ("redirect_uri", "https://evil.test/callback"),
        ("client_id", "unknown"),
    ] {
        let mut request = place.request();
        request.retain(|(known, _)| *known != name);
        request.push((name, value.to_owned()));
        let url = Url::parse_with_params(&place.url("authorize"), &request).unwrap();
        assert_eq!(get(url.as_str()).await.status, 400);
    }
}

#[tokio::test]
async fn a_token_is_good_for_its_resource_only() {
    let place = OAuthSetup::usual();
    let other = place.server.protect(Resource::default());
    let token = place.log_in(None).await;
    let (status, _) = call(&other.url(), &bearer(&token), "echo").await;
    assert_eq!(status, 401);
    // Nor does the code let itself be turned into a token for the other.
    let code = place.code(None).await;
    let url = other.url();
    let reply = post(
        &place.url("token"),
        &[
            ("grant_type", "authorization_code"),
            ("client_id", "client"),
            ("code", &code),
            ("code_verifier", VERIFIER),
            ("resource", &url),
        ],
    )
    .await;
    reply.refused("invalid_target");
}

#[tokio::test]
async fn a_tool_can_need_a_scope_of_its_own() {
    let resource = Resource::with(|resource| {
        resource.scope = Some("mcp:read".to_owned());
        resource.tool_scopes = vec![("add".to_owned(), "mcp:write".to_owned())];
    });
    let place = OAuthSetup::new(AuthorizationSetup::default(), resource);
    let narrow = place.log_in(Some("mcp:read")).await;
    assert_eq!(place.call_with(&narrow).await, 200);
    let (status, challenge) = place.call(&bearer(&narrow), "add").await;
    assert_eq!(status, 403);
    assert!(challenge.contains("error=\"insufficient_scope\""));
    assert!(challenge.contains("scope=\"mcp:write\""));
    let wide = place.log_in(Some("mcp:read mcp:write")).await;
    assert_eq!(place.call(&bearer(&wide), "add").await.0, 200);
}

#[tokio::test]
async fn a_scope_that_does_not_exist_is_refused() {
    let place = OAuthSetup::usual();
    let mut request = place.request();
    request.push(("scope", "admin".to_owned()));
    let back = place.consent(&request).await;
    assert_eq!(parameter(&back, "error").as_deref(), Some("invalid_scope"));
}

#[tokio::test]
async fn clients_register_themselves_and_keep_to_the_authentication_they_chose() {
    let place = OAuthSetup::usual();
    let register = async |body: Value| {
        let request = http().post(place.url("register")).body(body.to_string());
        HttpReply::read(request.send().await.unwrap()).await
    };
    let public = register(
        json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none", "client_name": "n" }),
    )
    .await;
    assert_eq!(public.status, 201);
    assert_eq!(public.body["client_name"], "n");
    assert_eq!(public.body.get("client_secret"), None);
    let secret = register(json!({ "redirect_uris": [CALLBACK] })).await.body;
    assert_eq!(secret["token_endpoint_auth_method"], "client_secret_basic");
    // The secret in the form is not what it registered for.
    let reply = post(
        &place.url("token"),
        &[
            ("grant_type", "client_credentials"),
            ("client_id", secret["client_id"].as_str().unwrap()),
            ("client_secret", secret["client_secret"].as_str().unwrap()),
            ("resource", &place.mcp.url()),
        ],
    )
    .await;
    reply.refused("invalid_client");
    register(json!({ "client_name": "n" }))
        .await
        .refused("invalid_redirect_uri");
}

#[tokio::test]
async fn a_server_can_register_some_scopes_only() {
    let setup = AuthorizationSetup::with(|setup| setup.registered_scopes = Some(Vec::new()));
    let place = OAuthSetup::new(setup, Resource::default());
    for (scope, status) in [("mcp:read", 400), ("", 201)] {
        let body = json!({ "redirect_uris": [CALLBACK], "scope": scope });
        let request = http().post(place.url("register")).body(body.to_string());
        let reply = HttpReply::read(request.send().await.unwrap()).await;
        assert_eq!(reply.status, status);
    }
}

#[tokio::test]
async fn a_registration_can_be_forgotten() {
    let place = OAuthSetup::usual();
    let body = json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none" });
    let request = http().post(place.url("register")).body(body.to_string());
    let client = HttpReply::read(request.send().await.unwrap()).await.body;
    let client = client["client_id"].as_str().unwrap();
    let ask = async || {
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", "none"),
            ("client_id", client),
        ];
        post(&place.url("token"), &fields).await
    };
    ask().await.refused("invalid_grant");
    place.server.forget_registrations();
    ask().await.refused("invalid_client");
}

#[tokio::test]
async fn a_client_is_found_at_the_address_of_its_document() {
    let place = OAuthSetup::new(
        AuthorizationSetup::with(|setup| setup.client_documents = true),
        Resource::default(),
    );
    let id = "https://app.test/client.json";
    let document = json!({ "client_id": id, "redirect_uris": ["http://127.0.0.1/callback"] });
    place.server.publish(id, document.clone());
    // One that says to be somebody else is not taken for anybody.
    let copy = "https://evil.test/client.json";
    place.server.publish(copy, document);
    for (client, status) in [(id, 302), (copy, 400)] {
        let mut request = place.request();
        request.retain(|(name, _)| *name != "client_id");
        request.push(("client_id", client.to_owned()));
        let url = Url::parse_with_params(&place.url("authorize"), &request).unwrap();
        assert_eq!(get(url.as_str()).await.status, status);
    }
}

#[tokio::test]
async fn a_browser_goes_all_the_way_to_the_callback() {
    let place = OAuthSetup::usual();
    // Somebody has to be there: the keys of the server, for want of a callback.
    let mut request = place.request();
    request.retain(|(name, _)| *name != "redirect_uri");
    request.push(("redirect_uri", place.url("jwks")));
    let url = Url::parse_with_params(&place.url("authorize"), &request).unwrap();
    let visit = tokio::task::spawn_blocking(move || browse(url.as_str()));
    let visit = visit.await.unwrap().unwrap();
    assert_eq!(visit.status, 200);
    assert!(visit.url.contains("code="));
    assert!(visit.text.contains("\"keys\""));
}
