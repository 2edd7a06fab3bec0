//! The list of tenants, a tenant's page, its variables and its limits.

use serde_json::json;

use super::ConsoleBrowser;
use crate::test_hub::TestHub;

const HOSTILE: &str = "<script>alert(1)</script>\u{202e}";

#[tokio::test]
async fn tenants_are_searched_filtered_and_read_page_by_page() {
    let hub = TestHub::new().await;
    for number in 0..52 {
        let tenant = json!({"id": format!("t{number:02}"), "start": false,
            "labels": {"plan": if number == 7 { "gold" } else { "free" }}});
        hub.post("/v1/tenants", &tenant).await.expect(201);
    }
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let first = admin.get("/tenants").await.expect_status(200);
    first.assert_shows("/tenants/t00\"");
    first.assert_lacks("/tenants/t51\"");
    let links = first.links();
    let next = links.iter().find(|link| link.contains("cursor=")).unwrap();
    let second = admin.get(next).await.expect_status(200);
    second.assert_shows("/tenants/t51\"");
    second.assert_lacks("/tenants/t00\"");
    for filter in ["search=t07", "label=plan%3Dgold"] {
        let found = admin.get(&format!("/tenants?{filter}")).await;
        found.assert_shows("/tenants/t07\"");
        found.assert_lacks("/tenants/t08\"");
    }
    let none = admin.get("/tenants?flavor=other").await.expect_status(200);
    none.assert_lacks("/tenants/t07\"");
    let none = admin.get("/tenants?search=nobody").await;
    none.assert_shows("There is no such tenant.");
}

#[tokio::test]
async fn a_tenant_is_made_changed_blocked_deleted_and_restored() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let fields = [
        ("id", "acme"),
        ("displayName", HOSTILE),
        ("agent.model", "openai/gpt-5"),
        ("agent.timezone", "Europe/Berlin"),
        ("labels:pairs", "plan = gold\r\nold = x"),
        ("start", "false"),
        ("next", "/tenants"),
    ];
    let list = admin.submit("/do/create_tenant", &fields).await;
    list.expect_status(200)
        .assert_shows("The tenant is being made.");
    hub.wait_until("/v1/tenants/acme", |tenant| tenant["status"] == "ready")
        .await;
    let page = admin.get("/tenants/acme").await.expect_status(200);
    page.assert_lacks("<script>alert");
    page.assert_shows("openai/gpt-5");
    page.assert_shows("Europe/Berlin");
    let fields = [
        ("tenant_id", "acme"),
        ("displayName", "Acme"),
        ("displayName:was", HOSTILE),
        ("agent.model", "openai/gpt-5"),
        ("agent.model:was", "openai/gpt-5"),
        ("labels:pairs", "plan = silver"),
        ("labels:was", "plan\nold"),
        ("next", "/tenants/acme"),
    ];
    let page = admin.submit("/do/update_tenant", &fields).await;
    page.expect_status(200).assert_shows("Acme");
    let tenant = hub.get("/v1/tenants/acme").await.expect(200);
    assert_eq!(tenant["labels"], json!({"plan": "silver"}));
    assert_eq!(tenant["displayName"], "Acme");
    let fields = [
        ("tenant_id", "acme"),
        ("status", "blocked"),
        ("reason", "unpaid"),
        ("next", "/tenants/acme"),
    ];
    let page = admin.submit("/do/set_tenant_access", &fields).await;
    page.assert_shows("This tenant is blocked.");
    page.assert_shows("unpaid");
    page.assert_shows("Deletes Acme with its conversations");
    let fields = [("tenant_id", "acme"), ("next", "/tenants")];
    let list = admin.submit("/do/delete_tenant", &fields).await;
    list.expect_status(200).assert_lacks("/tenants/acme\"");
    let deleted = admin
        .get("/tenants?status=deleted")
        .await
        .expect_status(200);
    deleted.assert_shows("/do/restore_tenant");
    let fields = [("tenant_id", "acme"), ("next", "/tenants/acme")];
    let page = admin.submit("/do/restore_tenant", &fields).await;
    page.expect_status(200).assert_shows("The tenant is back.");
}

#[tokio::test]
async fn what_a_role_may_not_do_is_not_on_a_tenants_pages() {
    let hub = TestHub::new().await.with_examples().await;
    hub.tenant(json!({"id": "other", "displayName": "Other"}))
        .await;
    let viewer = ConsoleBrowser::with_rights(&hub, json!({"role": "viewer"})).await;
    for page in ["", "/cron", "/cron/job_123", "/character", "/limits"] {
        let address = format!("/tenants/tenant_123{page}");
        let page = viewer.get(&address).await.expect_status(200);
        page.assert_lacks("action=\"/do/");
        page.assert_lacks("formaction=");
    }
    viewer.get("/tenants").await.assert_lacks("/do/");
    let bound = json!({"role": "admin", "tenants": ["tenant_123"]});
    let bound = ConsoleBrowser::with_rights(&hub, bound).await;
    let list = bound.get("/tenants").await.expect_status(200);
    list.assert_shows("tenant_123");
    list.assert_lacks("/tenants/other");
    list.assert_lacks("/do/create_tenant");
    for page in [
        "",
        "/env",
        "/cron",
        "/conversations",
        "/limits",
        "/manifest",
    ] {
        let address = format!("/tenants/other{page}");
        bound.get(&address).await.expect_status(404);
    }
    // A limit is not for the one whom it limits.
    let limits = bound.get("/tenants/tenant_123/limits").await;
    limits.expect_status(200).assert_lacks("/do/patch_limits");
}

#[tokio::test]
async fn the_pages_of_a_tenant_are_linked_for_those_who_may_see_them() {
    let hub = TestHub::new().await.with_examples().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get("/tenants/tenant_123/cron/job_123").await;
    for name in [
        "runs",
        "conversations",
        "cron",
        "env",
        "character",
        "limits",
    ] {
        page.assert_shows(&format!("href=\"/tenants/tenant_123/{name}\""));
    }
    page.assert_shows("href=\"/tenants/tenant_123/cron\" aria-current=\"page\"");
    let rights = json!({"scopes": ["tenants:read"]});
    let reader = ConsoleBrowser::with_rights(&hub, rights).await;
    let page = reader.get("/tenants/tenant_123").await.expect_status(200);
    page.assert_shows("href=\"/tenants/tenant_123/character\"");
    page.assert_lacks("/tenants/tenant_123/env");
    page.assert_lacks("/tenants/tenant_123/cron");
    reader
        .get("/tenants/tenant_123/env")
        .await
        .expect_status(404);
}

#[tokio::test]
async fn variables_are_set_and_removed_and_their_values_never_shown() {
    let hub = TestHub::new().await.with_examples().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let address = "/tenants/tenant_123/env";
    let empty = admin.get(address).await.expect_status(200);
    empty.assert_shows("No variable is set.");
    let fields = [
        ("tenant_id", "tenant_123"),
        ("name", "API_KEY"),
        ("value", "correct-horse-battery"),
        ("next", address),
    ];
    let page = admin
        .submit("/do/set_env", &fields)
        .await
        .expect_status(200);
    page.assert_shows("API_KEY");
    page.assert_lacks("correct-horse");
    let fields = [
        ("tenant_id", "tenant_123"),
        ("name", "API_KEY"),
        ("next", address),
    ];
    let page = admin.submit("/do/unset_env", &fields).await;
    page.expect_status(200).assert_shows("No variable is set.");
}

#[tokio::test]
async fn limits_are_set_and_removed() {
    let hub = TestHub::new().await.with_examples().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let address = "/tenants/tenant_123/limits";
    let limit = async |runs: &str| {
        let fields = [
            ("tenant_id", "tenant_123"),
            ("runs_per_day", runs),
            ("runs_per_day:null", ""),
            ("tokens_per_day", ""),
            ("tokens_per_day:null", ""),
            ("next", address),
        ];
        admin
            .submit("/do/patch_limits", &fields)
            .await
            .expect_status(200)
    };
    limit("17").await.assert_shows("0 / 17");
    let stored = hub.get("/v1/tenants/tenant_123/limits").await.expect(200);
    assert_eq!(stored["runsPerDay"], 17);
    limit("").await.assert_lacks("0 / 17");
    let fields = [
        ("tenant_id", "tenant_123"),
        ("storage.quotaBytes", "12"),
        ("storage.quotaBytes:was", "5120"),
        ("storage.quotaBytes:times", "1048576"),
        ("next", address),
    ];
    let page = admin.submit("/do/update_tenant", &fields).await;
    page.expect_status(200).assert_shows("12 MiB");
}

#[tokio::test]
async fn a_new_runtime_key_is_shown_once() {
    let hub = TestHub::new().await.with_examples().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let fields = [
        ("tenant_id", "tenant_123"),
        ("grace", "0"),
        ("show", "1"),
        ("next", "/tenants/tenant_123"),
    ];
    let page = admin.submit("/do/rotate_runtime_key", &fields).await;
    let page = page.expect_status(200);
    page.assert_shows("runtimeKey");
    page.assert_shows("href=\"/tenants/tenant_123\"");
}
