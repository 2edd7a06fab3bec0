//! People whom an identity provider has signed in, and their browsers: each request may go to another node.

use hermes_hub::settings::Settings;
use hermes_protocol::AgentRequest;
use hermes_testkit::IdentityProvider;
use reqwest::Method;
use serde_json::json;

use super::cluster::{Cluster, Node};
use crate::console::{
    ConsoleBrowser,
    provider::{come_back, go_to_provider, oidc_settings, session_of},
};

const SERVER: &str = "/tenants/acme/mcp/remote";

/// Two nodes with one address and one provider. The first one works for the tenant.
async fn two_nodes(cluster: &Cluster, provider: &IdentityProvider) -> (Node, Node) {
    let as_one = |settings: &mut Settings| {
        settings.public_url = "http://hub.test:7000".into();
        settings.oidc = Some(oidc_settings(provider));
    };
    let one = cluster.node_as("n1", as_one).await;
    one.site
        .tenant(json!({"id": "acme", "displayName": "Acme"}))
        .await;
    let other = cluster.node_as("n2", as_one).await;
    assert_eq!(other.holder("acme").await.as_deref(), Some("n1"));
    (one, other)
}

/// Somebody who has signed in: the way to the provider began at one node and ended at the other.
async fn signed_in(one: &Node, other: &Node) -> String {
    let sent = go_to_provider(&one.site).await;
    let page = come_back(&other.site, &sent).await.expect_status(200);
    session_of(&page).unwrap()
}

/// The person's browser at a node.
async fn browser(node: &Node, cookie: &str) -> ConsoleBrowser {
    ConsoleBrowser::stranger(&node.site)
        .with_cookie(cookie)
        .with_csrf()
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_signed_in_at_one_node_works_at_any_other() {
    let cluster = Cluster::new().await;
    let provider = IdentityProvider::start();
    provider.set_claims(&json!({"groups": ["admins"], "name": "Ada"}));
    let (one, other) = two_nodes(&cluster, &provider).await;
    let cookie = signed_in(&one, &other).await;
    for node in [&one, &other] {
        let ada = browser(node, &cookie).await;
        let page = ada.get("/sessions").await.expect_status(200);
        page.assert_shows("Ada");
        // What only the node with the tenant's home can do, whichever node is asked.
        let page = ada.get("/tenants/acme/character").await;
        page.expect_status(200);
        let text = format!("You work at {}.", node.site.url);
        let fields = [("tenant_id", "acme"), ("content", text.as_str())];
        let page = ada.submit("/do/put_soul", &fields).await;
        page.expect_status(200);
        let soul = one.site.get("/v1/tenants/acme/soul").await.expect(200);
        assert_eq!(soul["content"], text);
    }
    // Signed out at one node, they are nobody at the other.
    let ada = browser(&one, &cookie).await;
    ada.post("/sign-out", &[("csrf", ada.csrf())]).await;
    let page = ConsoleBrowser::stranger(&other.site)
        .with_cookie(&cookie)
        .get("/tenants/acme/character")
        .await;
    assert!(page.address.starts_with("/sign-in"), "{}", page.address);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_to_an_mcp_server_that_a_person_began_at_one_node_ends_at_any_other() {
    let cluster = Cluster::new().await;
    let provider = IdentityProvider::start();
    provider.set_claims(&json!({"groups": ["admins"], "name": "Ada"}));
    let (one, other) = two_nodes(&cluster, &provider).await;
    let entry = json!({"url": "https://example.com/mcp", "auth": "oauth"});
    one.site
        .put("/v1/tenants/acme/mcp-servers/remote", &entry)
        .await
        .expect(201);
    let cookie = signed_in(&other, &one).await;
    let ada = browser(&other, &cookie).await;
    let begin = async || {
        let page = ada.submit(SERVER, &[("action", "login")]).await;
        let links = page.attributes("href").into_iter();
        let mut logins = links.filter(|link| link.starts_with("https://login.example/"));
        let login = logins.next();
        let states = login.as_ref().and_then(|link| link.split_once("state="));
        states
            .unwrap_or_else(|| panic!("{}", page.text))
            .1
            .to_owned()
    };
    // The browser comes back without any cookie, and its button is pressed.
    let end = async |node: &Node, state: &str| {
        let path = format!("/oauth/callback?code=c&state={state}");
        node.site
            .send(node.site.request("", Method::POST, &path))
            .await
    };
    let logins = || {
        let requests = one.agents.requests().into_iter();
        requests
            .filter(|(_, request)| matches!(request, AgentRequest::FinishLogin { .. }))
            .count()
    };
    for (node, count) in [(&one, 1), (&other, 2)] {
        let page = end(node, &begin().await).await;
        assert_eq!(page.status, 200, "{}", page.text);
        assert!(page.text.contains("Logged in"), "{}", page.text);
        assert_eq!(logins(), count);
    }
    // Whoever is signed out meanwhile, ends nothing.
    let state = begin().await;
    ada.post("/sign-out", &[("csrf", ada.csrf())]).await;
    for node in [&one, &other] {
        let page = end(node, &state).await;
        assert_eq!(page.status, 403, "{}", page.text);
        assert!(page.text.contains("signed out"), "{}", page.text);
    }
    assert_eq!(logins(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_a_token_began_at_one_node_ends_at_any_other() {
    let cluster = Cluster::new().await;
    let (one, other) = cluster.holder_and_other("acme").await;
    let server = "/v1/tenants/acme/mcp-servers/remote";
    let entry = json!({"url": "https://example.com/mcp", "auth": "oauth"});
    other.site.put(server, &entry).await.expect(201);
    for (from, to) in [(&one, &other), (&other, &one)] {
        let login = format!("{server}/login");
        let begun = from.site.post(&login, &json!({})).await.expect(200);
        let url = begun["url"].as_str().unwrap();
        let state = url.split_once("state=").unwrap().1;
        let path = format!("/oauth/callback?code=c&state={state}");
        for (method, told) in [(Method::GET, "button"), (Method::POST, "Logged in")] {
            let page = to.site.send(to.site.request("", method, &path)).await;
            assert_eq!(page.status, 200, "{}", page.text);
            assert!(page.text.contains(told), "{}", page.text);
        }
    }
}
