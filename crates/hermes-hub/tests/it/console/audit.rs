//! The audit log: filtered by the address, page by page, verified, exported.

use serde_json::json;

use super::ConsoleBrowser;
use crate::{hub::lifecycle::run_sql, test_hub::TestHub};

#[tokio::test]
async fn entries_are_filtered_read_page_by_page_verified_and_exported() {
    let hub = TestHub::new().await;
    for number in 0..30 {
        let id = format!("t{number:02}");
        let tenant = json!({"id": id, "start": false, "displayName": "<b>x</b>"});
        hub.post("/v1/tenants", &tenant).await.expect(201);
        let access = json!({"status": "blocked", "reason": "<script>x</script>"});
        let path = format!("/v1/tenants/{id}/access");
        hub.put(&path, &access).await.expect(200);
    }
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let first = admin.get("/audit").await.expect_status(200);
    first.assert_shows("set_tenant_access");
    first.assert_lacks("<script>x");
    let links = first.links();
    let next = links.iter().find(|link| link.contains("cursor=")).unwrap();
    admin.get(next).await.expect_status(200).assert_shows("t00");
    let found = admin.get("/audit?tenant=t07&action=create_tenant").await;
    found.assert_shows("t07");
    found.assert_lacks("<code>set_tenant_access</code>");
    found.assert_lacks(">t08<");
    let none = admin
        .get("/audit?until=2001-01-01")
        .await
        .expect_status(200);
    none.assert_shows("No entry fits.");
    assert!(!links.iter().any(|link| link.contains("verify")));
    let checked = admin.submit("/audit/verify", &[]).await.expect_status(200);
    checked.assert_shows("The log is whole");
    checked.assert_shows("</html>");
    let again = admin.get("/audit/verify").await.expect_status(200);
    assert_eq!(again.address, "/audit");
    let file = admin
        .get("/audit/export?tenant=t07")
        .await
        .expect_status(200);
    let name = file.headers["content-disposition"].to_str().unwrap();
    assert_eq!(name, "attachment; filename=\"audit.ndjson\"");
    let entries: Vec<serde_json::Value> = file
        .text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(entries.len() >= 2, "{}", file.text);
    assert!(entries.iter().all(|entry| entry["tenant"] == "t07"));
}

#[tokio::test]
async fn a_changed_entry_is_named_and_a_form_of_others_verifies_nothing() {
    let hub = TestHub::new().await;
    for id in ["acme", "globex"] {
        hub.tenant(json!({"id": id, "start": false})).await;
    }
    let change = "UPDATE audit SET actor = 'somebody' WHERE action = 'create_tenant'";
    run_sql(&hub, change).await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let checked = admin.submit("/audit/verify", &[]).await.expect_status(200);
    checked.assert_shows("The log was changed");
    checked.assert_shows("The first changed entry is");
    let foreign = admin.post("/audit/verify", &[("csrf", "x")]).await;
    assert_eq!(foreign.status, 403);
    let narrow = ConsoleBrowser::with_rights(&hub, json!({"scopes": ["runs:read"]})).await;
    assert_eq!(narrow.submit("/audit/verify", &[]).await.status, 404);
}

#[tokio::test]
async fn a_wrong_filter_says_what_is_wrong_and_a_bound_token_sees_its_own_entries() {
    let hub = TestHub::new().await;
    for id in ["acme", "globex"] {
        hub.tenant(json!({"id": id, "start": false})).await;
    }
    let admin = ConsoleBrowser::as_admin(&hub).await;
    assert_eq!(admin.get("/audit?since=yesterday").await.status, 400);
    let rights = json!({"role": "viewer", "tenants": ["acme"]});
    let bound = ConsoleBrowser::with_rights(&hub, rights).await;
    for path in ["/audit", "/audit/export"] {
        let page = bound.get(path).await.expect_status(200);
        page.assert_lacks("globex");
    }
    let narrow = ConsoleBrowser::with_rights(&hub, json!({"scopes": ["runs:read"]})).await;
    for path in ["/audit", "/audit/export"] {
        assert_eq!(narrow.get(path).await.status, 404, "{path}");
    }
}
