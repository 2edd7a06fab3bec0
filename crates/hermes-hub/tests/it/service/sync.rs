//! Copies of a tenant's context.

use serde_json::json;

use crate::{
    mcp_client::{self, McpEra},
    test_hub::TestHub,
};

#[tokio::test]
async fn sync_stays_beneath_allowed_roots() {
    let site = TestHub::with_settings(|settings, directory| {
        let root = directory.join("out");
        std::fs::create_dir(&root).unwrap();
        settings.sync.allowed_roots = vec![root];
    })
    .await
    .with_examples()
    .await;
    let destination = site.directory.path().join("out/tenant_123");
    let path = "/v1/tenants/tenant_123/context/sync";
    let plan = site
        .post(path, &json!({"destination": destination, "dryRun": true}))
        .await
        .expect(200);
    assert!(
        plan["copied"]
            .as_array()
            .unwrap()
            .contains(&json!("SOUL.md")),
        "{plan}"
    );
    assert!(!destination.exists());
    let done = site
        .post(path, &json!({"destination": destination}))
        .await
        .expect(200);
    assert_eq!(done["copied"], plan["copied"]);
    assert!(destination.join("SOUL.md").exists());
    site.post(path, &json!({"destination": "/elsewhere/x"}))
        .await
        .expect(403);
    let own = mcp_client::call_for_text(
        &site,
        &site.admin,
        &McpEra::Stateless,
        "sync_context",
        &json!({"tenant_id": "tenant_123", "destination": "copy"}),
    )
    .await;
    assert!(own.contains("SOUL.md"));
    assert!(site.directory.path().join("hub/sync/copy/SOUL.md").exists());
}
