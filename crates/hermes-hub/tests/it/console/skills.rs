//! The pages of skills: which there are, what is in them, and taking one from the library.

use serde_json::json;

use super::ConsoleBrowser;
use crate::test_hub::TestHub;

const PAGE: &str = "/tenants/tenant_123/skills";

#[tokio::test]
async fn skills_are_listed_read_turned_off_and_removed() {
    let site = TestHub::new().await.with_examples().await;
    let admin = ConsoleBrowser::as_admin(&site).await;
    let page = admin.get(PAGE).await.expect_status(200);
    page.assert_shows("writer");
    page.assert_shows("Writes.");
    let links = page.links();
    let skill = links
        .iter()
        .find(|link| link.contains("skill=writer"))
        .unwrap();
    let file = admin.get(skill).await.expect_status(200);
    file.assert_shows("SKILL.md");
    file.assert_shows("description: Writes.");
    let fields = [
        ("tenant_id", "tenant_123"),
        ("next", PAGE),
        ("skill", "writer"),
        ("enabled", "false"),
    ];
    let page = admin
        .submit("/do/set_skill_state", &fields)
        .await
        .expect_status(200);
    page.assert_shows("Turn on");
    let viewer = ConsoleBrowser::with_rights(&site, json!({"role": "viewer"})).await;
    let page = viewer.get(PAGE).await.expect_status(200);
    page.assert_shows("writer");
    for absent in ["set_skill_state", "remove_skill", "put_skill"] {
        page.assert_lacks(absent);
    }
    let fields = [
        ("tenant_id", "tenant_123"),
        ("next", PAGE),
        ("name", "writer"),
    ];
    let page = admin
        .submit("/do/remove_skill", &fields)
        .await
        .expect_status(200);
    page.assert_shows("No skill yet");
}

#[tokio::test]
async fn a_skill_is_taken_from_the_library() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "tenant_123", "start": false}))
        .await;
    let head = "---\nname: minutes\ndescription: Writes <b>minutes</b>.\n---\nListen.\n";
    let body = json!({"files": [{"path": "SKILL.md", "content": head}]});
    site.put("/v1/skills/minutes", &body).await.expect(201);
    let admin = ConsoleBrowser::as_admin(&site).await;
    let page = admin.get(PAGE).await.expect_status(200);
    page.assert_shows("minutes");
    page.assert_lacks("<b>minutes");
    let fields = [
        ("tenant_id", "tenant_123"),
        ("next", PAGE),
        ("name", "minutes"),
        ("library", "true"),
    ];
    let page = admin
        .submit("/do/put_skill", &fields)
        .await
        .expect_status(200);
    page.assert_shows("Install again");
    page.assert_shows("/do/set_skill_state");
}

#[tokio::test]
async fn a_skill_is_written_in_a_form() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "tenant_123", "start": false}))
        .await;
    let admin = ConsoleBrowser::as_admin(&site).await;
    let text = "---\r\nname: minutes\r\ndescription: Writes minutes.\r\n---\r\nListen.\r\n";
    let fields = [
        ("tenant_id", "tenant_123"),
        ("next", PAGE),
        ("name", "minutes"),
        ("files:path", "SKILL.md"),
        ("files:content", text),
    ];
    let page = admin.submit("/do/put_skill", &fields).await;
    let page = page.expect_status(200);
    page.assert_shows("Writes minutes.");
    let links = page.links();
    let skill = links.iter().find(|link| link.contains("skill=minutes"));
    let file = admin.get(skill.unwrap()).await.expect_status(200);
    file.assert_shows("Listen.");
}
