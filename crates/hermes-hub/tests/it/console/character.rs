//! What an agent is and knows, and two people who change it at the same time.

use serde_json::json;

use super::ConsoleBrowser;
use crate::test_hub::TestHub;

const PAGE: &str = "/tenants/tenant_123/character";

fn version_of(page: &super::ConsolePage) -> String {
    let versions = page
        .text
        .split("name=\"if_match\" value=\"")
        .nth(1)
        .unwrap();
    super::decode_entities(versions.split_once('"').unwrap().0)
}

#[tokio::test]
async fn the_character_and_the_memories_are_read_and_written() {
    let hub = TestHub::new().await.with_examples().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get(PAGE).await.expect_status(200);
    page.assert_shows("I am Acme&#39;s.");
    let hostile = "</textarea><script>alert(1)</script>\r\nsecond line";
    let fields = [
        ("tenant_id", "tenant_123"),
        ("kind", "user"),
        ("content", hostile),
        ("next", PAGE),
    ];
    let page = admin.submit("/do/put_memory", &fields).await;
    page.expect_status(200).assert_lacks("<script>alert");
    let stored = hub
        .get("/v1/tenants/tenant_123/memory/user")
        .await
        .expect(200);
    assert_eq!(stored["content"], hostile.replace("\r\n", "\n"));
    let fields = [
        ("tenant_id", "tenant_123"),
        ("content", ""),
        ("content:empty", ""),
        ("next", PAGE),
    ];
    admin
        .submit("/do/put_soul", &fields)
        .await
        .expect_status(200);
    let stored = hub.get("/v1/tenants/tenant_123/soul").await.expect(200);
    assert_eq!(stored["content"], "");
}

#[tokio::test]
async fn who_comes_second_sees_both_texts_and_can_save_over_the_first() {
    let hub = TestHub::new().await.with_examples().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let version = version_of(&admin.get(PAGE).await);
    let first = json!({"content": "I am Acme's.\nThe first was here.\n"});
    hub.put("/v1/tenants/tenant_123/soul", &first)
        .await
        .expect(200);
    let mine = "I am Acme's.\r\nThe second <b>was</b> here.\r\n";
    let fields = [
        ("tenant_id", "tenant_123"),
        ("content", mine),
        ("if_match", version.as_str()),
        ("current", "get_soul"),
        ("next", PAGE),
    ];
    let conflict = admin
        .submit("/do/put_soul", &fields)
        .await
        .expect_status(412);
    conflict.assert_shows("<del>The first was here.</del>");
    conflict.assert_shows("<ins>The second &#60;b&#62;was&#60;/b&#62; here.</ins>");
    conflict.assert_shows("Save mine over it");
    let stored = hub.get("/v1/tenants/tenant_123/soul").await.expect(200);
    assert_eq!(stored["content"], first["content"]);
    // The form on that page has the version that is there now.
    let version = version_of(&conflict);
    let fields = [
        ("tenant_id", "tenant_123"),
        ("content", mine),
        ("if_match", version.as_str()),
        ("current", "get_soul"),
        ("next", PAGE),
    ];
    admin
        .submit("/do/put_soul", &fields)
        .await
        .expect_status(200);
    let stored = hub.get("/v1/tenants/tenant_123/soul").await.expect(200);
    assert_eq!(stored["content"], mine.replace("\r\n", "\n"));
}

#[tokio::test]
async fn a_change_of_settings_over_another_shows_only_what_differs() {
    let hub = TestHub::new().await.with_examples().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let version = version_of(&admin.get("/tenants/tenant_123").await);
    let other = json!({"displayName": "Renamed"});
    hub.patch("/v1/tenants/tenant_123", &other)
        .await
        .expect(200);
    let fields = [
        ("tenant_id", "tenant_123"),
        ("displayName", "Mine"),
        ("labels:pairs", "plan = gold"),
        ("if_match", version.as_str()),
        ("current", "get_tenant"),
        ("next", "/tenants/tenant_123"),
    ];
    let conflict = admin.submit("/do/update_tenant", &fields).await;
    let conflict = conflict.expect_status(412);
    conflict.assert_shows("<del>Renamed</del>");
    conflict.assert_shows("<ins>Mine</ins>");
    conflict.assert_lacks("quotaBytes");
}
