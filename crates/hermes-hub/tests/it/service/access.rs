//! Tenants that are blocked.

use serde_json::json;

use crate::test_hub::TestHub;

#[tokio::test]
async fn blocking_refuses_runs_and_the_agent_can_be_started_and_stopped() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme"})).await;
    site.post("/v1/tenants/acme/agent/start", &json!({}))
        .await
        .expect(202);
    let state = site.get("/v1/tenants/acme/agent").await.expect(200);
    assert!(state["state"].is_string());
    site.put(
        "/v1/tenants/acme/access",
        &json!({"status": "blocked", "message": "Paused"}),
    )
    .await
    .expect(200);
    let refused = site
        .post("/v1/tenants/acme/runs", &json!({"input": "Hi"}))
        .await
        .expect(403);
    assert_eq!(refused["reason"], "tenant_blocked");
    site.post("/v1/tenants/acme/agent/start", &json!({}))
        .await
        .expect(403);
    site.put("/v1/tenants/acme/access", &json!({"status": "active"}))
        .await
        .expect(200);
    site.post("/v1/tenants/acme/runs", &json!({"input": "Hi"}))
        .await
        .expect(202);
    site.post("/v1/tenants/acme/agent/stop", &json!({}))
        .await
        .expect(202);
}
