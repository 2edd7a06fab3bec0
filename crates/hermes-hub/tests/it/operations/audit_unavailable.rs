//! If the audit log cannot be written, nothing is changed.

use hermes_hub::operations::{Effect, Toolset, table};
use serde_json::json;

use super::rights::{observable_state, rights_hub};
use crate::{
    hub::lifecycle::run_sql,
    mcp_client::{self, McpEra},
    rest_request::RestRequest,
    tenant_fixture::TenantFixture,
};

#[tokio::test(flavor = "multi_thread")]
async fn while_the_log_cannot_be_written_no_operation_changes_anything() {
    let site = rights_hub().await;
    let scene = TenantFixture::new(&site, "mine").await;
    let gone = TenantFixture::new(&site, "gone").await;
    site.delete("/v1/tenants/gone").await.expect(204);
    let before = observable_state(&site, &scene).await;
    run_sql(&site, "ALTER TABLE audit RENAME TO elsewhere").await;
    let mut refused = 0;
    for operation in table().rows() {
        if operation.effect == Effect::Read {
            continue;
        }
        let scene = match operation.name {
            "restore_tenant" => &gone,
            _ => &scene,
        };
        let arguments = scene.arguments(operation.name);
        for verb in operation.methods {
            let asked = RestRequest::new(operation, *verb, &arguments);
            let answer = site.send(asked.build(&site, &site.admin)).await;
            assert_eq!(answer.status, 503, "{}: {}", operation.name, answer.text);
            refused += 1;
        }
        if operation.toolset != Toolset::None {
            let era = &McpEra::Stateless;
            let result =
                mcp_client::call_tool(&site, &site.admin, era, operation.name, &arguments).await;
            let text = result.to_string();
            assert!(text.contains("unavailable"), "{}: {text}", operation.name);
        }
    }
    assert!(refused > 30, "only {refused} were refused");
    let synced = site.directory.path().join("hub/sync").join(&scene.tenant);
    assert!(!synced.exists(), "files were copied");
    run_sql(&site, "ALTER TABLE elsewhere RENAME TO audit").await;
    assert_eq!(observable_state(&site, &scene).await, before);
    site.get("/v1/tenants/gone").await.expect(404);
    // Afterwards everything works again.
    site.patch("/v1/tenants/mine", &json!({"displayName": "Other"}))
        .await
        .expect(200);
    assert_eq!(site.get("/v1/audit/verify").await.expect(200)["ok"], true);
}
