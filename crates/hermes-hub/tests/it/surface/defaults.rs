//! What the Hub's settings, its documents and a tenant's own settings say about the same thing.

use serde_json::json;

use crate::site::Site;

#[tokio::test]
async fn documents_override_only_what_they_say() {
    let site = Site::with(|settings, _| {
        settings.runs.max_concurrent = 9;
        settings.idle_stop_seconds = 77;
    })
    .await;
    site.tenant(json!({"id": "acme"})).await;
    let agent = async || site.get("/v1/tenants/acme").await.expect(200)["agent"].clone();
    let first = agent().await;
    assert_eq!(
        (&first["maxConcurrentRuns"], &first["idleStopSeconds"]),
        (&json!(9), &json!(77))
    );
    let policy = site.get("/v1/agent-policy").await.expect(200);
    assert_eq!(policy["policy"]["runs"]["maxConcurrent"], 9);

    let patch = json!({"runs": {"maxConcurrent": 6}});
    site.patch("/v1/config/tenant-impact", &patch)
        .await
        .expect(200);
    let patched = agent().await;
    assert_eq!(
        (&patched["maxConcurrentRuns"], &patched["idleStopSeconds"]),
        (&json!(6), &json!(77))
    );

    let policy = json!({"runs": {"maxConcurrent": 2}});
    site.put("/v1/agent-policy", &policy).await.expect(200);
    assert_eq!(agent().await["maxConcurrentRuns"], 2);
    site.put(
        "/v1/agent-policy",
        &json!({"tools": {"deny": ["terminal"]}}),
    )
    .await
    .expect(200);
    assert_eq!(agent().await["maxConcurrentRuns"], 6);
}
