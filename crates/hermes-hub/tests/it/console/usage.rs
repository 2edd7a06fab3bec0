//! What runs used: by day, tenant and model; as a table and as a file.

use serde_json::json;

use super::ConsoleBrowser;
use crate::{hub::lifecycle::run_sql, test_hub::TestHub};

async fn hub_with_a_run() -> TestHub {
    let hub = TestHub::new().await.with_examples().await;
    let run = json!({"input": "hello"});
    let begun = hub
        .post("/v1/tenants/tenant_123/runs", &run)
        .await
        .expect(202);
    let path = format!(
        "/v1/tenants/tenant_123/runs/{}",
        begun["runId"].as_str().unwrap()
    );
    hub.wait_until(&path, |run| run["status"] == "completed")
        .await;
    hub
}

#[tokio::test]
async fn usage_is_summed_up_by_what_the_address_says() {
    let hub = hub_with_a_run().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let today = admin.get("/usage").await.expect_status(200);
    today.assert_shows("data-value=\"1\"");
    today.assert_shows("chart.");
    let by_tenant = admin.get("/usage?by=tenant").await.expect_status(200);
    by_tenant.assert_shows("data-key=\"tenant_123\"");
    let before = admin.get("/usage?from=2001-01-01&to=2001-01-02").await;
    before
        .expect_status(200)
        .assert_shows("Nothing was used in these days.");
    let wrong = admin.get("/usage?from=never").await;
    wrong.expect_status(400).assert_shows("must be a day");
    let file = admin
        .get("/usage/export?by=tenant")
        .await
        .expect_status(200);
    assert_eq!(file.headers["content-type"], "text/csv; charset=utf-8");
    assert!(file.text.contains("tenant_123,1,"), "{}", file.text);
    let name = file.headers["content-disposition"].to_str().unwrap();
    assert_eq!(name, "attachment; filename=\"usage.csv\"");
}

#[tokio::test]
async fn usage_of_others_is_not_shown_and_without_the_right_there_is_none() {
    let hub = hub_with_a_run().await;
    hub.tenant(json!({"id": "other", "start": false})).await;
    let rights = json!({"role": "viewer", "tenants": ["other"]});
    let bound = ConsoleBrowser::with_rights(&hub, rights).await;
    for path in ["/usage?by=tenant", "/usage/export?by=tenant"] {
        let page = bound.get(path).await.expect_status(200);
        page.assert_lacks("tenant_123");
    }
    let narrow = ConsoleBrowser::with_rights(&hub, json!({"scopes": ["tenants:read"]})).await;
    for path in ["/usage", "/usage/export"] {
        assert_eq!(narrow.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn many_tenants_come_in_pages_with_the_total_of_all() {
    let hub = hub_with_a_run().await;
    let today = "CAST(strftime('%s', 'now') / 86400 AS INTEGER)";
    let today = match hub.database() {
        Some(_) => "CAST(extract(epoch FROM now()) AS BIGINT) / 86400",
        None => today,
    };
    let rows: Vec<String> = (0..120)
        .map(|number| format!("({today}, 'many-{number:03}', 'm', 1, 0, {number}, 0, 0)"))
        .collect();
    let insert = format!(
        "INSERT INTO usage_days (day, tenant, model, runs, tool_calls, input_tokens, output_tokens, cached_tokens)
         VALUES {}",
        rows.join(", ")
    );
    run_sql(&hub, &insert).await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let first = admin.get("/usage?by=tenant").await.expect_status(200);
    first.assert_shows("data-key=\"many-099\"");
    first.assert_lacks("data-key=\"many-100\"");
    first.assert_shows("in the order of their ids");
    // Those of the other page are in the total.
    first.assert_shows("<dd>121</dd>");
    let links = first.links();
    let more = links.iter().find(|link| link.contains("cursor=")).unwrap();
    let second = admin.get(more).await.expect_status(200);
    second.assert_shows("data-key=\"many-119\"");
    second.assert_shows("data-key=\"tenant_123\"");
    second.assert_lacks("data-key=\"many-099\"");
    second.assert_shows("<dd>121</dd>");
    let file = admin.get("/usage/export?by=tenant").await;
    assert_eq!(file.text.lines().count(), 122, "a line of names, and all");
    let by_day = admin.get("/usage").await.expect_status(200);
    by_day.assert_shows("<dd>121</dd>");
    let wrong = hub.get("/v1/usage?by=day&limit=5").await;
    wrong.expect(400);
}
