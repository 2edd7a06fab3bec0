//! The audit log: what is in it, that verification names the first changed entry, and that nothing is changed while it
//! cannot be written.

use hermes_hub::operations::{Effect, Toolset, table};
use hermes_testkit::eventually_some;
use serde_json::{Value, json};

use crate::{
    hub::lifecycle::run_sql,
    mcp_client::{self, McpEra},
    operations::rights::{observable_state, rights_hub},
    rest_request::RestRequest,
    tenant_fixture::TenantFixture,
    test_hub::{TIMEOUT, TestHub},
};

async fn broken_chain(site: &TestHub) -> Value {
    let verified = site.get("/v1/audit/verify").await.expect(200);
    assert_eq!(verified["ok"], false, "{verified}");
    verified["chains"][0].clone()
}

#[tokio::test]
async fn the_first_entry_that_is_not_as_it_was_written_is_named() {
    let mut site = TestHub::new().await;
    for tenant in ["a", "b", "c"] {
        site.tenant(json!({"id": tenant})).await;
    }
    assert_eq!(site.get("/v1/audit/verify").await.expect(200)["ok"], true);
    let made = site.get("/v1/audit?action=create_tenant").await.expect(200);
    let made = made["entries"].as_array().unwrap();
    assert_eq!(made.len(), 3, "{made:?}");
    // Newest first, so that each is the first changed entry so far.
    for entry in &made[..2] {
        let seq = &entry["seq"];
        let one_byte = format!(
            "UPDATE audit SET text = replace(text, '\"create_', '\"Create_') WHERE seq = {seq}"
        );
        run_sql(&site, &one_byte).await;
        let chain = broken_chain(&site).await;
        assert_eq!(&chain["firstBrokenSeq"], seq, "{chain}");
        assert_ne!(chain["reason"], Value::Null, "{chain}");
    }
    // Neither a restart nor later entries hide it.
    let before = broken_chain(&site).await;
    site.restart().await;
    site.tenant(json!({"id": "d"})).await;
    let made = site.get("/v1/audit?action=create_tenant").await.expect(200);
    assert_eq!(made["entries"].as_array().unwrap().len(), 4, "{made}");
    let after = broken_chain(&site).await;
    assert_eq!(after["firstBrokenSeq"], before["firstBrokenSeq"], "{after}");
}

#[tokio::test]
async fn a_log_is_verified_in_parts_that_follow_each_other() {
    let site = TestHub::new().await;
    for tenant in ["a", "b", "c", "d"] {
        site.tenant(json!({"id": tenant, "start": false})).await;
    }
    let whole = site.get("/v1/audit/verify").await.expect(200);
    assert_eq!(whole["nextCursor"], Value::Null, "{whole}");
    let (mut entries, mut path) = (0, "/v1/audit/verify?limit=2".to_owned());
    loop {
        let part = site.get(&path).await.expect(200);
        assert_eq!(part["ok"], true, "{part}");
        let chain = &part["chains"][0];
        assert!(chain["entries"].as_u64().unwrap() <= 2, "{part}");
        entries += chain["entries"].as_u64().unwrap();
        match part["nextCursor"].as_str() {
            Some(cursor) => path = format!("/v1/audit/verify?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert!(entries >= whole["chains"][0]["entries"].as_u64().unwrap());
    for wrong in ["limit=0", "limit=10001", "cursor=x", "cursor=WyJhIl0"] {
        let path = format!("/v1/audit/verify?{wrong}");
        site.get(&path).await.expect(400);
    }
    run_sql(&site, "UPDATE audit SET actor = 'somebody'").await;
    let first = site.get("/v1/audit/verify?limit=2").await.expect(200);
    assert_eq!(first["ok"], false, "{first}");
    assert_eq!(first["chains"][0]["firstBrokenSeq"], 1, "{first}");
}

#[tokio::test]
async fn every_change_and_every_tool_call_is_in_the_log_and_the_log_holds() {
    let site = TestHub::new().await.with_examples().await;
    mcp_client::call_for_text(
        &site,
        &site.admin,
        &McpEra::Stateless,
        "get_tenant",
        &json!({"tenant_id": "tenant_123"}),
    )
    .await;
    for action in [
        "create_group",
        "create_tenant",
        "write_share_file",
        "create_tenant_cron",
        "get_tenant",
    ] {
        let path = format!("/v1/audit?action={action}");
        let logged = eventually_some(TIMEOUT, async || {
            let audit = site.get(&path).await.expect(200);
            let entries = audit["entries"].as_array().unwrap();
            (!entries.is_empty()).then_some(())
        });
        assert!(logged.await.is_some(), "{action} is not in the log");
    }
    let write = site
        .get("/v1/audit?action=write_share_file&limit=1")
        .await
        .expect(200);
    let entry = &write["entries"][0];
    assert!(
        entry["target"].as_str().unwrap().starts_with("division1:"),
        "{entry}"
    );
    assert!(!entry["contentSha256"].as_str().unwrap().is_empty());
    assert_eq!(site.get("/v1/audit/verify").await.expect(200)["ok"], true);
    let metrics = site.hub.metrics().render(&[]);
    assert!(
        metrics.contains("operation=\"get_tenant\",via=\"mcp\",code=\"200\""),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_log_cannot_be_written_no_operation_changes_anything() {
    let site = rights_hub().await;
    let scene = TenantFixture::new(&site, "mine").await;
    let gone = TenantFixture::new(&site, "gone").await;
    site.delete("/v1/tenants/gone").await.expect(204);
    // Its run ends meanwhile, and with it what it asks.
    site.wait_until("/v1/approvals", |inbox| {
        !inbox.to_string().contains("\"gone\"")
    })
    .await;
    let before = observable_state(&site, &scene).await;
    run_sql(&site, "ALTER TABLE audit RENAME TO elsewhere").await;
    let mut refused = 0;
    for operation in table().rows() {
        // A Hub without other nodes is never drained.
        if operation.effect == Effect::Read || operation.name == "drain_node" {
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
