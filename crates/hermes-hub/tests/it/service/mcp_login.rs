//! Logins to MCP servers that a browser ends at the Hub: only what was begun here, by a token that still may, and in time.

use std::sync::Arc;

use hermes_protocol::AgentRequest;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    agent_harness::ScriptedRuntime,
    test_hub::{HttpAnswer, TestHub},
};

const LOGIN: &str = "/v1/tenants/acme/mcp-servers/remote/login";

async fn site() -> (TestHub, Arc<ScriptedRuntime>) {
    let agents = ScriptedRuntime::new();
    let site = TestHub::with_runtime(Arc::clone(&agents) as _, |_, _| {}).await;
    for tenant in ["acme", "other"] {
        site.tenant(json!({"id": tenant, "start": false})).await;
        let server = format!("/v1/tenants/{tenant}/mcp-servers/remote");
        let entry = json!({"url": "https://example.com/mcp", "auth": "oauth"});
        site.put(&server, &entry).await.expect(201);
    }
    (site, agents)
}

/// Begins a login and returns the state in its address.
async fn begin(site: &TestHub, token: &str) -> String {
    let begun = site
        .send(site.request(token, Method::POST, LOGIN))
        .await
        .expect(200);
    assert_eq!(begun["status"], "pending");
    let url = begun["url"].as_str().unwrap();
    let callback = format!("redirect_uri={}/oauth/callback", site.url);
    assert!(url.contains(&callback), "{url}");
    url.split_once("state=").unwrap().1.to_owned()
}

fn callback(state: &str) -> String {
    format!("/oauth/callback?code=c&scope=more&state={state}")
}

/// What a browser gets at the callback, and then by the button of the page there.
async fn end(site: &TestHub, state: &str) -> HttpAnswer {
    let path = callback(state);
    let page = site.send(site.request("", Method::GET, &path)).await;
    if page.status != 200 {
        return page;
    }
    site.send(site.request("", Method::POST, &path)).await
}

fn finished(agents: &ScriptedRuntime) -> Vec<(String, String)> {
    let requests = agents.requests().into_iter();
    requests
        .filter_map(|(tenant, request)| match request {
            AgentRequest::FinishLogin { server, .. } => Some((tenant.to_string(), server)),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn the_browser_ends_a_login_without_a_token() {
    let (site, agents) = site().await;
    let state = begin(&site, &site.admin).await;
    let page = end(&site, &state).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains("Logged in"), "{}", page.text);
    assert!(
        page.header("content-security-policy")
            .starts_with("default-src 'none'")
    );
    assert_eq!(
        finished(&agents),
        [("acme".to_owned(), "remote".to_owned())]
    );
    let Some((_, AgentRequest::FinishLogin { address, .. })) = agents.requests().pop() else {
        panic!("it was not finished")
    };
    assert!(
        address.contains("code=c") && address.contains(&state),
        "{address}"
    );
    let audit = site
        .get("/v1/audit?limit=500&action=log_in_to_mcp_server")
        .await
        .expect(200);
    let entries = audit["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 2, "{audit}");
    assert_eq!(entries[0]["tenant"], "acme", "{audit}");
    assert_eq!(entries[0]["target"], "remote", "{audit}");
    assert!(!audit.to_string().contains(&state));
}

#[tokio::test]
async fn whoever_comes_back_is_asked_first_whose_agent_is_to_use_the_account() {
    let (site, agents) = site().await;
    let somebody = json!({"name": "<b>Mallory</b>", "role": "operator"});
    let somebody = site.token(somebody).await;
    let state = begin(&site, &somebody).await;
    let path = callback(&state);
    let page = site.send(site.request("", Method::GET, &path)).await;
    assert_eq!(page.status, 200, "{}", page.text);
    for told in ["&lt;b&gt;Mallory&lt;/b&gt;", "acme", "remote"] {
        assert!(page.text.contains(told), "{told}: {}", page.text);
    }
    assert!(!page.text.contains("Logged in"), "{}", page.text);
    let policy = page.header("content-security-policy");
    for rule in ["default-src 'none'", "frame-ancestors 'none'"] {
        assert!(policy.contains(rule), "{policy}");
    }
    // Nor is it handed on by a page of somebody else, who may know the address.
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://example.com"),
        ("origin", "null"),
    ] {
        let pressed = site.request("", Method::POST, &path).header(name, value);
        let refused = site.send(pressed).await;
        assert_eq!(refused.status, 403, "{name}: {value}: {}", refused.text);
    }
    assert!(finished(&agents).is_empty());

    let action = page.text.split_once("action=\"").unwrap().1;
    let action = action.split_once('"').unwrap().0.replace("&amp;", "&");
    let pressed = site
        .request("", Method::POST, &format!("/oauth/callback{action}"))
        .header("sec-fetch-site", "same-origin")
        .header("origin", &site.url);
    let page = site.send(pressed).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains("Logged in"), "{}", page.text);
    assert_eq!(finished(&agents).len(), 1);
}

#[tokio::test]
async fn who_refuses_at_the_authorization_server_is_not_asked_again() {
    let (site, agents) = site().await;
    let state = begin(&site, &site.admin).await;
    let refusal = format!("/oauth/callback?error=access_denied&state={state}");
    site.send(site.request("", Method::GET, &refusal)).await;
    assert_eq!(finished(&agents).len(), 1);
    // A code is one however its name is spelled.
    let state = begin(&site, &site.admin).await;
    let spelled = format!("/oauth/callback?error=x&%63ode=c&state={state}");
    site.send(site.request("", Method::GET, &spelled)).await;
    assert_eq!(finished(&agents).len(), 1);
}

#[tokio::test]
async fn the_token_that_began_a_login_ends_it_at_once() {
    let (site, agents) = site().await;
    let state = begin(&site, &site.admin).await;
    let own = site.request(&site.admin, Method::GET, &callback(&state));
    let page = site.send(own).await;
    assert!(page.text.contains("Logged in"), "{}", page.text);
    assert_eq!(finished(&agents).len(), 1);
}

#[tokio::test]
async fn a_state_that_was_not_made_here_ends_nothing() {
    let (site, agents) = site().await;
    let state = begin(&site, &site.admin).await;
    let mut changed = state.clone().into_bytes();
    let last = changed.len() - 3;
    changed[last] = if changed[last] == b'A' { b'B' } else { b'A' };
    let changed = String::from_utf8(changed).unwrap();
    for wrong in ["", "x", "AAAA", &changed, &state[1..]] {
        for method in [Method::GET, Method::POST] {
            let request = site.request("", method, &callback(wrong));
            let page = site.send(request).await;
            assert_eq!(page.status, 400, "{wrong}: {}", page.text);
        }
    }
    let none = site
        .send(site.request("", Method::GET, "/oauth/callback"))
        .await;
    assert_eq!(none.status, 400);
    let head = site.request(
        "",
        Method::HEAD,
        &format!("/oauth/callback?code=c&state={state}"),
    );
    assert_eq!(site.send(head).await.status, 405);
    assert!(finished(&agents).is_empty());
}

#[tokio::test]
async fn somebody_elses_token_ends_nobody_elses_login() {
    let (site, agents) = site().await;
    let state = begin(&site, &site.admin).await;
    let operator = site
        .token(json!({"name": "operator", "role": "operator"}))
        .await;
    let path = format!("/oauth/callback?code=c&state={state}");
    for method in [Method::GET, Method::POST] {
        let page = site.send(site.request(&operator, method, &path)).await;
        assert_eq!(page.status, 403, "{}", page.text);
    }
    let address = format!("{}{path}", site.url);
    let by = async |token: &str, login: &str, address: &str| {
        let request = site.request(token, Method::POST, login);
        let request = request.header("content-type", "application/json");
        site.send(request.body(json!({"address": address}).to_string()))
            .await
    };
    let refused = by(&operator, LOGIN, &address).await;
    assert_eq!(refused.json()["reason"], "other_token", "{}", refused.text);
    // Nor does it end the login of another tenant.
    let other = LOGIN.replace("acme", "other");
    let refused = by(&site.admin, &other, &address).await;
    assert_eq!(refused.json()["reason"], "login_state", "{}", refused.text);
    assert!(finished(&agents).is_empty());
    let done = by(&site.admin, LOGIN, &address).await.expect(200);
    assert_eq!(done["status"], "done");
    assert_eq!(finished(&agents).len(), 1);
}

#[tokio::test]
async fn a_token_that_was_revoked_meanwhile_ends_its_login() {
    let (site, agents) = site().await;
    let made = json!({"name": "short", "role": "operator"});
    let made = site.post("/v1/tokens", &made).await.expect(201);
    let state = begin(&site, made["token"].as_str().unwrap()).await;
    let id = made["id"].as_str().unwrap();
    site.delete(&format!("/v1/tokens/{id}")).await.expect(204);
    for method in [Method::GET, Method::POST] {
        let request = site.request("", method, &callback(&state));
        let page = site.send(request).await;
        assert_eq!(page.status, 403, "{}", page.text);
    }
    assert!(finished(&agents).is_empty());
}

#[tokio::test]
async fn a_tenant_that_was_blocked_or_replaced_meanwhile_gets_no_login() {
    let (site, agents) = site().await;
    let state = begin(&site, &site.admin).await;
    let access = "/v1/tenants/acme/access";
    site.put(access, &json!({"status": "blocked"}))
        .await
        .expect(200);
    assert_eq!(end(&site, &state).await.status, 403);
    site.put(access, &json!({"status": "active"}))
        .await
        .expect(200);
    site.delete("/v1/tenants/acme?purge=true").await.expect(204);
    let gone = |answer: &Value| answer["tenants"].as_array().unwrap().len() == 1;
    site.wait_until("/v1/tenants", gone).await;
    site.tenant(json!({"id": "acme", "start": false})).await;
    // Another tenant of this id, with a server of this name, is not the one that began it.
    let entry = json!({"url": "https://example.com/mcp", "auth": "oauth"});
    site.put("/v1/tenants/acme/mcp-servers/remote", &entry)
        .await
        .expect(201);
    assert_eq!(end(&site, &state).await.status, 409);
    assert!(finished(&agents).is_empty());
}
