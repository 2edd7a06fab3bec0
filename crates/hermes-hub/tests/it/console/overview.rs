//! The first page: what needs somebody, for whom, and with which link.

use hermes_hub::{
    TenantId,
    api_types::{Condition, ConditionStatus, Time},
    storage::state::TenantObservation,
};
use serde_json::json;

use super::ConsoleBrowser;
use crate::test_hub::TestHub;

const HOSTILE: &str = "<script>alert(1)</script>\u{202e}";

async fn observe(hub: &TestHub, tenant: &str, kind: &str, message: &str) {
    let condition = Condition {
        kind: kind.into(),
        status: ConditionStatus::False,
        reason: "x".into(),
        message: message.into(),
        last_transition_time: Time::now(),
    };
    let observation = TenantObservation {
        conditions: vec![condition],
        ..TenantObservation::default()
    };
    let id = TenantId::parse(tenant).unwrap();
    let state = hub.hub.state();
    state.observe_tenant(&id, observation).await.unwrap();
}

#[tokio::test]
async fn nothing_needs_anybody_where_all_is_well() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get("/").await.expect_status(200);
    page.assert_shows("Nothing waits for you.");
    page.assert_shows("Make the first tenant");
    page.assert_shows("<a href=\"/nodes\">one is there</a>");
    let viewer = ConsoleBrowser::with_rights(&hub, json!({"role": "viewer"})).await;
    let page = viewer.get("/").await.expect_status(200);
    page.assert_lacks("Make the first tenant");
}

#[tokio::test]
async fn what_is_wrong_is_shown_first_with_the_way_to_mend_it() {
    let hub = TestHub::new().await;
    for (id, name) in [("acme", HOSTILE), ("beta", "Beta")] {
        hub.tenant(json!({"id": id, "displayName": name, "start": false}))
            .await;
    }
    observe(&hub, "acme", "LoginsValid", "log in to <b>it</b>").await;
    observe(&hub, "acme", "PlatformsConnected", "bots hear nothing").await;
    observe(&hub, "beta", "StorageWithinQuota", "97 % used").await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get("/").await.expect_status(200);
    page.assert_lacks("Nothing waits for you.");
    page.assert_lacks("<script>alert");
    page.assert_lacks("<b>it</b>");
    for text in ["bots hear nothing", "97 % used"] {
        page.assert_shows(text);
    }
    let links = page.links();
    for link in ["/tenants/acme/mcp", "/tenants/beta/limits"] {
        assert!(links.iter().any(|found| found == link), "{link}: {links:?}");
    }
    let rights = json!({"role": "viewer", "tenants": ["beta"]});
    let bound = ConsoleBrowser::with_rights(&hub, rights).await;
    let page = bound.get("/").await.expect_status(200);
    page.assert_shows("97 % used");
    page.assert_lacks("acme");
}

#[tokio::test]
async fn runs_of_the_day_are_drawn_with_their_numbers_beside() {
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
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get("/").await.expect_status(200);
    page.assert_shows("<polyline points=\"2.0,");
    page.assert_shows("The numbers");
    page.assert_shows("href=\"/tenants?status=ready\"");
    let none = json!({"scopes": ["tenants:read"]});
    let narrow = ConsoleBrowser::with_rights(&hub, none).await;
    let page = narrow.get("/").await.expect_status(200);
    page.assert_lacks("<polyline");
    let speaks = ConsoleBrowser::as_admin(&hub).await.speaking("de");
    let page = speaks.get("/").await.expect_status(200);
    page.assert_shows("Die Zahlen");
}

#[tokio::test]
async fn a_hub_that_cannot_work_says_so_before_everything_else() {
    let hub = TestHub::new().await;
    hub.tenant(json!({"id": "acme", "start": false})).await;
    observe(&hub, "acme", "StorageWithinQuota", "97 % used").await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let well = admin.get("/").await.expect_status(200);
    well.assert_shows("<span class=\"state ready\">healthy</span>");
    // Somebody has unmounted it.
    let shares = hub.directory.path().join("hub/shares");
    std::fs::rename(&shares, shares.with_extension("away")).unwrap();
    let ill = admin.get("/").await.expect_status(200);
    ill.assert_shows("<span class=\"state failed\">needs repair</span>");
    let place = |text: &str| ill.text.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(place("Files and shares cannot be read or written.") < place("97 % used"));
    assert!(place("hermes hub doctor") < place("97 % used"));
    // Whoever is of one tenant can do nothing about it.
    let rights = json!({"role": "viewer", "tenants": ["acme"]});
    let bound = ConsoleBrowser::with_rights(&hub, rights).await;
    let page = bound.get("/").await.expect_status(200);
    page.assert_lacks("needs repair");
    page.assert_lacks("hermes hub doctor");
}
