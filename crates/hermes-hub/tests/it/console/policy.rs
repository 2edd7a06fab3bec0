//! Policy, configuration, specialization: shown, previewed, saved over the version that was shown, restored.

use serde_json::json;

use super::{ConsoleBrowser, ConsolePage};
use crate::test_hub::TestHub;

/// The value of a hidden field.
fn hidden(page: &ConsolePage, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    let rest = page.text.split(&start).nth(1).unwrap();
    let value = rest.split('"').next().unwrap();
    value.replace("&#34;", "\"").replace("&quot;", "\"")
}

#[tokio::test]
async fn a_policy_is_previewed_applied_and_restored() {
    let hub = TestHub::new().await;
    hub.tenant(json!({"id": "acme", "start": false})).await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get("/policy").await.expect_status(200);
    let version = hidden(&page, "if_match");
    let wanted = r#"{"tools": {"deny": ["terminal"]}}"#;
    let mut fields = vec![
        ("policy", wanted),
        ("if_match", version.as_str()),
        ("current", "get_agent_policy:/policy"),
        ("next", "/policy?tab=policy"),
        ("preview", "1"),
    ];
    let preview = admin.submit("/do/put_agent_policy", &fields).await;
    let preview = preview.expect_status(200);
    preview.assert_shows("Nothing is changed yet.");
    preview.assert_shows("This concerns 1 tenant.");
    preview.assert_shows("href=\"/tenants/acme\"");
    preview.assert_shows("<ins>");
    let stored = hub.get("/v1/agent-policy").await.expect(200);
    assert_eq!(stored["revision"], 0, "a preview changes nothing");
    fields.pop();
    let saved = admin.submit("/do/put_agent_policy", &fields).await;
    saved
        .expect_status(200)
        .assert_shows("The policy is in force.");
    // Somebody else has the old page.
    fields[0].1 = r#"{"tools": {"deny": ["browser"]}}"#;
    let late = admin.submit("/do/put_agent_policy", &fields).await;
    let late = late.expect_status(412);
    late.assert_shows("terminal");
    late.assert_shows("browser");
    hub.put("/v1/agent-policy", &json!({"policy": {}}))
        .await
        .expect(200);
    let page = admin
        .get("/policy?tab=policy&revision=1")
        .await
        .expect_status(200);
    page.assert_shows("Back to revision");
    let restored = [("revision", "1"), ("next", "/policy?tab=policy")];
    let page = admin.submit("/do/restore_policy", &restored).await;
    page.expect_status(200)
        .assert_shows("The policy is restored.");
    let stored = hub.get("/v1/agent-policy").await.expect(200);
    assert_eq!(stored["policy"], json!({"tools": {"deny": ["terminal"]}}));
}

#[tokio::test]
async fn what_could_not_be_saved_is_refused_before_with_its_place() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let preview = async |operation: &str, current: &str, field: (&str, &str)| {
        let fields = [
            field,
            ("current", current),
            ("next", "/policy"),
            ("preview", "1"),
        ];
        admin.submit(&format!("/do/{operation}"), &fields).await
    };
    let policy = r#"{"tols": {}, "runs": {"maxMinutes": 0}}"#;
    let current = "get_agent_policy:/policy";
    let refused = preview("put_agent_policy", current, ("policy", policy)).await;
    let refused = refused.expect_status(422);
    refused.assert_shows("did you mean `tools`?");
    refused.assert_shows("<code>/runs/maxMinutes</code>");
    let broken = "{\n\"tools\": }";
    let refused = preview("put_agent_policy", current, ("policy", broken)).await;
    refused.expect_status(400).assert_shows("at line 2 column");
    let config = r#"{"agent": {"timezone": "Nowhere"}}"#;
    let current = "get_tenant_impact_config:/config";
    let refused = preview("patch_tenant_impact_config", current, ("patch", config)).await;
    refused.expect_status(422).assert_shows("/agent/timezone");
    let long = "x".repeat(65 * 1024);
    let current = "get_agent_specialization";
    let refused = preview("put_agent_specialization", current, ("content", &long)).await;
    refused.expect_status(413);
    for path in ["/v1/agent-policy", "/v1/config/tenant-impact"] {
        let stored = hub.get(path).await.expect(200);
        assert_eq!(stored["revision"], 0, "{path}");
    }
}

#[tokio::test]
async fn a_change_of_a_preset_names_its_tenants_and_no_others() {
    let hub = TestHub::new().await;
    hub.patch(
        "/v1/config/tenant-impact",
        &json!({"flavors": {"large": {}}}),
    )
    .await
    .expect(200);
    for (id, flavor) in [("acme", "standard"), ("globex", "large")] {
        let tenant =
            json!({"id": id, "flavor": flavor, "displayName": format!("{id} <b>"), "start": false});
        hub.tenant(tenant).await;
    }
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let preview = async |patch: &str| {
        let fields = [
            ("patch", patch),
            ("current", "get_tenant_impact_config:/config"),
            ("next", "/policy?tab=config"),
            ("preview", "1"),
        ];
        let page = admin
            .submit("/do/patch_tenant_impact_config", &fields)
            .await;
        page.expect_status(200)
    };
    let one = preview(r#"{"flavors": {"large": {"agent": {"timezone": "Europe/Berlin"}}}}"#).await;
    one.assert_shows("This concerns 1 tenant.");
    one.assert_shows("globex &#60;b&#62;");
    one.assert_lacks("href=\"/tenants/acme\"");
    let all = preview(r#"{"runs": {"maxMinutes": 5}}"#).await;
    all.assert_shows("This concerns 2 tenants.");
    all.assert_shows("href=\"/tenants/acme\"");
    all.assert_shows("href=\"/tenants/globex\"");
    let stored = hub.get("/v1/config/tenant-impact").await.expect(200);
    assert_eq!(stored["revision"], 1, "a preview changes nothing");
}

#[tokio::test]
async fn a_whole_configuration_is_edited_and_what_is_left_out_goes() {
    let hub = TestHub::new().await;
    let patch = json!({"feature": {"one": 1, "two": 2}});
    hub.patch("/v1/config/tenant-impact", &patch)
        .await
        .expect(200);
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get("/policy?tab=config").await.expect_status(200);
    let was = hidden(&page, "patch:whole");
    let mut document: serde_json::Value = serde_json::from_str(&was).unwrap();
    document["feature"] = json!({"two": 2, "three": "<script>x</script>"});
    let document = document.to_string();
    let version = hidden(&page, "if_match");
    let fields = [
        ("patch", document.as_str()),
        ("patch:whole", &was),
        ("if_match", &version),
        ("current", "get_tenant_impact_config:/config"),
        ("next", "/policy?tab=config"),
    ];
    let saved = admin
        .submit("/do/patch_tenant_impact_config", &fields)
        .await;
    let saved = saved.expect_status(200);
    saved.assert_shows("The configuration is in force.");
    saved.assert_lacks("<script>x");
    let stored = hub.get("/v1/config/tenant-impact").await.expect(200);
    let feature = &stored["config"]["feature"];
    assert_eq!(*feature, json!({"two": 2, "three": "<script>x</script>"}));
}

#[tokio::test]
async fn a_text_for_all_agents_is_set_and_removed() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let path = "/policy?tab=specialization";
    admin
        .get(path)
        .await
        .expect_status(200)
        .assert_shows("put_agent_specialization");
    for text in ["Be brief.", ""] {
        let fields = [("content", text), ("content:empty", "1"), ("next", path)];
        admin
            .submit("/do/put_agent_specialization", &fields)
            .await
            .expect_status(200);
        let stored = hub.get("/v1/agent-specialization").await.expect(200);
        assert_eq!(stored["content"], text);
    }
}

#[tokio::test]
async fn who_may_only_read_sees_documents_and_no_form() {
    let hub = TestHub::new().await;
    let viewer = ConsoleBrowser::with_rights(&hub, json!({"role": "viewer"})).await;
    for tab in ["policy", "config", "specialization"] {
        let page = viewer
            .get(&format!("/policy?tab={tab}"))
            .await
            .expect_status(200);
        page.assert_lacks("<textarea");
        page.assert_lacks("/do/put_");
    }
    assert_eq!(viewer.get("/policy?tab=other").await.status, 404);
    let narrow = ConsoleBrowser::with_rights(&hub, json!({"scopes": ["policy:read"]})).await;
    assert_eq!(narrow.get("/policy?tab=config").await.status, 404);
    narrow.get("/policy").await.assert_lacks("tab=config");
}
