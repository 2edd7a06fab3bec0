//! Signing in at an identity provider.

use std::collections::BTreeMap;

use hermes_hub::{api_types::Role, settings::OidcSettings};
use hermes_testkit::{IdTokenSigner, IdentityProvider};
use reqwest::{Client, Method, header, redirect};
use serde_json::{Value, json};

use super::{ConsoleBrowser, ConsolePage};
use crate::test_hub::TestHub;

/// The provider for a Hub.
pub(crate) fn oidc_settings(provider: &IdentityProvider) -> OidcSettings {
    OidcSettings {
        issuer: provider.issuer().to_owned(),
        client_id: IdentityProvider::CLIENT_ID.into(),
        client_secret: Some("a secret".to_owned().into()),
        scopes: vec!["openid".into()],
        groups_claim: "groups".into(),
        roles: BTreeMap::from([
            ("admins".to_owned(), Role::Admin),
            ("readers".to_owned(), Role::Viewer),
        ]),
    }
}

async fn hub_with(provider: &IdentityProvider) -> TestHub {
    let oidc = oidc_settings(provider);
    TestHub::with_settings(move |settings, _| settings.oidc = Some(oidc)).await
}

/// A sign-in as far as the provider has sent the browser back: the cookie of the sign-in, and where it leads.
pub(crate) struct SentBack {
    cookie: String,
    path: String,
}

pub(crate) async fn go_to_provider(hub: &TestHub) -> SentBack {
    let settings = hub.hub.settings();
    let browser = ConsoleBrowser::stranger(hub);
    let begun = browser.request(Method::GET, "/sign-in/provider?next=/sessions");
    let begun = browser.send(begun).await.expect_status(303);
    let cookie = begun.headers[header::SET_COOKIE].to_str().unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"));
    let provider = Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .build()
        .unwrap();
    let address = begun.headers[header::LOCATION].to_str().unwrap();
    let sent = provider.get(address).send().await.unwrap();
    let back = sent.headers()[header::LOCATION].to_str().unwrap();
    SentBack {
        cookie: cookie.split(';').next().unwrap().to_owned(),
        path: back
            .strip_prefix(settings.public_url.as_str())
            .unwrap()
            .to_owned(),
    }
}

pub(crate) async fn come_back(hub: &TestHub, sent: &SentBack) -> ConsolePage {
    let browser = ConsoleBrowser::stranger(hub).with_cookie(&sent.cookie);
    let request = browser.request(Method::GET, &sent.path);
    browser.send(request).await
}

/// The cookie of the session, if there is one.
pub(crate) fn session_of(page: &ConsolePage) -> Option<String> {
    let cookies = page.headers.get_all(header::SET_COOKIE).iter();
    let cookies = cookies.map(|cookie| cookie.to_str().unwrap());
    let mut sessions = cookies.filter(|cookie| !cookie.contains("_pending="));
    Some(sessions.next()?.split(';').next().unwrap().to_owned())
}

#[tokio::test]
async fn groups_of_the_provider_become_a_role() {
    let provider = IdentityProvider::start();
    provider.set_claims(&json!({"groups": ["readers", "others"], "name": "Ada <b>"}));
    let hub = hub_with(&provider).await;
    let page = ConsoleBrowser::stranger(&hub).get("/sign-in").await;
    page.assert_shows("href=\"/sign-in/provider?next=%2F\"");

    let page = come_back(&hub, &go_to_provider(&hub).await).await;
    let cookie = session_of(&page.expect_status(200)).unwrap();
    let ada = ConsoleBrowser::stranger(&hub).with_cookie(&cookie);
    let page = ada.get("/sessions").await.expect_status(200);
    page.assert_shows("Ada &#60;b&#62;");
    // A viewer: what changes something is not there.
    ada.get("/tenants").await.assert_lacks("/do/create_tenant");

    // Other keys, and groups that only `userinfo` has.
    provider.rotate_key();
    provider.set_claims(&json!({}));
    provider.set_user_info(json!({"sub": IdentityProvider::SUBJECT, "groups": "admins"}));
    let page = come_back(&hub, &go_to_provider(&hub).await).await;
    page.assert_shows("0;url=/sessions");
    let cookie = session_of(&page.expect_status(200)).unwrap();
    let admin = ConsoleBrowser::stranger(&hub).with_cookie(&cookie);
    let page = admin.get("/tenants").await.expect_status(200);
    page.assert_shows("/do/create_tenant");

    // Signing out leads to the provider, too.
    let page = admin.get("/").await;
    let csrf = page.attributes("data-csrf")[0].clone();
    let page = admin.post("/sign-out", &[("csrf", &csrf)]).await;
    page.assert_shows(&format!("{}/sign-out?client_id=console", provider.issuer()));
    // With the token of the sign-in, so that it need not ask.
    let links = page.attributes("href");
    let hint = links.iter().find_map(|link| {
        let (_, hint) = link.split_once("id_token_hint=")?;
        hint.split('&').next()
    });
    let parts = hint.map(|hint| hint.split('.').count());
    assert_eq!(parts, Some(3), "{links:?}");
    let page = admin.get("/").await;
    assert!(page.address.starts_with("/sign-in"), "{}", page.address);
}

#[tokio::test]
async fn a_token_that_is_not_for_this_sign_in_is_refused() {
    let provider = IdentityProvider::start();
    let hub = hub_with(&provider).await;
    let groups = |mut claims: Value| {
        claims["groups"] = json!(["admins"]);
        claims
    };
    let several = json!(["console", "other"]);
    for (claims, reason) in [
        (json!({"nonce": "another"}), "another sign-in"),
        (json!({"nonce": null}), "another sign-in"),
        (json!({"iss": "https://evil.example"}), "somebody else"),
        (json!({"iss": null}), "somebody else"),
        (json!({"aud": "other"}), "another application"),
        (json!({"aud": null}), "another application"),
        (json!({"aud": several}), "another application"),
        (json!({"azp": "other"}), "another application"),
        (json!({"exp": -400}), "expired"),
        (json!({"exp": null}), "expired"),
        (json!({"iat": 3600, "exp": 3600}), "compare the clocks"),
    ] {
        provider.set_claims(&groups(claims.clone()));
        let page = come_back(&hub, &go_to_provider(&hub).await).await;
        assert_eq!(page.status, 401, "{claims}: {}", page.text);
        page.assert_shows(reason);
        assert_eq!(session_of(&page), None, "{claims}");
    }
    provider.set_claims(&groups(json!({"aud": several, "azp": "console"})));
    let page = come_back(&hub, &go_to_provider(&hub).await).await;
    assert!(session_of(&page.expect_status(200)).is_some());
}

#[tokio::test]
async fn a_token_that_the_provider_has_not_signed_is_refused() {
    let provider = IdentityProvider::start();
    provider.set_claims(&json!({"groups": ["admins"]}));
    let hub = hub_with(&provider).await;
    for (signer, reason) in [
        (IdTokenSigner::Nobody, "algorithm is not allowed"),
        (IdTokenSigner::PublicKeyAsSecret, "algorithm is not allowed"),
        (IdTokenSigner::Forged, "signature is wrong"),
    ] {
        provider.set_signer(signer);
        let page = come_back(&hub, &go_to_provider(&hub).await).await;
        assert_eq!(page.status, 401, "{signer:?}: {}", page.text);
        page.assert_shows(reason);
        assert_eq!(session_of(&page), None, "{signer:?}");
    }
}

#[tokio::test]
async fn only_the_browser_that_has_begun_a_sign_in_ends_it_and_once() {
    let provider = IdentityProvider::start();
    provider.set_claims(&json!({"groups": ["admins"]}));
    let hub = hub_with(&provider).await;
    let (mine, other) = (go_to_provider(&hub).await, go_to_provider(&hub).await);
    // The way back of another browser, and one that nobody has begun.
    for cookie in ["", &other.cookie] {
        let sent = SentBack {
            cookie: cookie.to_owned(),
            path: mine.path.clone(),
        };
        let page = come_back(&hub, &sent).await;
        assert_eq!(page.status, 401, "{}", page.text);
        page.assert_shows("this browser has begun");
        assert_eq!(session_of(&page), None);
    }
    let page = come_back(&hub, &mine).await.expect_status(200);
    let forgets = page.headers.get_all(header::SET_COOKIE).iter();
    let mut forgets = forgets.map(|cookie| cookie.to_str().unwrap());
    assert!(forgets.any(|cookie| cookie.contains("_pending=;") && cookie.contains("Max-Age=0")));
    let again = come_back(&hub, &mine).await;
    assert_eq!(again.status, 401, "{}", again.text);
    // What the provider says of a refusal is shown, and not run.
    let sent = go_to_provider(&hub).await;
    let state = sent.path.split('&').find(|part| part.starts_with("state="));
    let path = format!(
        "/sign-in/callback?error=access_denied&error_description=%3Cb%3Eno&{}",
        state.unwrap()
    );
    let refused = come_back(&hub, &SentBack { path, ..sent }).await;
    assert_eq!(refused.status, 401);
    refused.assert_shows("&#60;b&#62;no");
}

#[tokio::test]
async fn whoever_has_no_group_with_a_role_is_told_so() {
    let provider = IdentityProvider::start();
    let hub = hub_with(&provider).await;
    for groups in [json!(["others"]), json!([]), json!(7), Value::Null] {
        provider.set_claims(&json!({"groups": groups}));
        let page = come_back(&hub, &go_to_provider(&hub).await).await;
        assert_eq!(page.status, 403, "{groups}: {}", page.text);
        page.assert_shows("oidc.roles");
        assert_eq!(session_of(&page), None);
    }
    provider.set_claims(&json!({}));
    provider.set_user_info(json!({"sub": "eve", "groups": ["admins"]}));
    let page = come_back(&hub, &go_to_provider(&hub).await).await;
    assert_eq!(page.status, 503, "{}", page.text);
    page.assert_shows("another person");
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_leaves_the_token() {
    let issuer = IdentityProvider::start();
    let hub = hub_with(&issuer).await;
    drop(issuer);
    let browser = ConsoleBrowser::stranger(&hub);
    let page = browser.get("/sign-in/provider").await.expect_status(503);
    page.assert_shows("cannot be reached");
    page.assert_shows("id=\"token\"");
    let without = TestHub::new().await;
    let browser = ConsoleBrowser::stranger(&without);
    let page = browser.get("/sign-in").await;
    page.assert_lacks("/sign-in/provider");
    browser.get("/sign-in/provider").await.expect_status(404);
}
