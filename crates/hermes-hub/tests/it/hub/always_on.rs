//! Agents with a messaging platform run whenever the Hub does.

use serde_json::json;

use crate::test_hub::TestHub;

const TOKEN: &str = "TELEGRAM_BOT_TOKEN";

async fn is_up(site: &TestHub, tenant: &str) -> bool {
    let agent = site.get(&format!("/v1/tenants/{tenant}/agent")).await;
    agent.expect(200)["state"] == "idle"
}

#[tokio::test]
async fn who_listens_is_started_with_the_hub_and_nobody_else() {
    let mut site = TestHub::new().await;
    let env = json!({TOKEN: "123:abc"});
    site.tenant(json!({"id": "listens", "start": false, "env": env}))
        .await;
    site.tenant(json!({"id": "blocked", "start": false, "env": env}))
        .await;
    site.tenant(json!({"id": "sleeps", "start": false})).await;
    let block = json!({"status": "blocked"});
    site.put("/v1/tenants/blocked/access", &block)
        .await
        .expect(200);
    site.restart().await;
    site.wait_until("/v1/tenants/listens/agent", |agent| {
        agent["state"] == "idle"
    })
    .await;
    assert!(!is_up(&site, "sleeps").await && !is_up(&site, "blocked").await);

    let unblock = json!({"status": "active"});
    site.put("/v1/tenants/blocked/access", &unblock)
        .await
        .expect(200);
    site.wait_until("/v1/tenants/blocked/agent", |agent| {
        agent["state"] == "idle"
    })
    .await;
}

#[tokio::test]
async fn a_platform_that_is_turned_on_wakes_its_tenant() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme", "start": false})).await;
    assert!(!is_up(&site, "acme").await);
    let path = format!("/v1/tenants/acme/env/{TOKEN}");
    site.put(&path, &json!({"value": "123:abc"}))
        .await
        .expect(204);
    site.wait_until("/v1/tenants/acme/agent", |agent| agent["state"] == "idle")
        .await;
}

#[tokio::test]
async fn a_policy_that_allows_messaging_again_wakes_those_who_listen() {
    let site = TestHub::new().await;
    let none = json!({"features": {"enabled": []}});
    site.put("/v1/agent-policy", &none).await.expect(200);
    let env = json!({TOKEN: "123:abc"});
    site.tenant(json!({"id": "acme", "start": false, "env": env}))
        .await;
    assert!(!is_up(&site, "acme").await);
    site.put("/v1/agent-policy", &json!({})).await.expect(200);
    site.wait_until("/v1/tenants/acme/agent", |agent| agent["state"] == "idle")
        .await;
}

#[tokio::test]
async fn a_further_bot_alone_wakes_its_tenant_too() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme", "start": false})).await;
    let path = format!("/v1/tenants/acme/env/{TOKEN}_WORK");
    site.put(&path, &json!({"value": "123:abc"}))
        .await
        .expect(204);
    site.wait_until("/v1/tenants/acme/agent", |agent| agent["state"] == "idle")
        .await;
}
