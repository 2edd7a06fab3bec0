//! Two people who change the same document: the second one sees both, and nothing is overwritten by chance.

use std::fs;

use serde_json::json;

use super::ConsoleBrowser;
use crate::test_hub::TestHub;

/// A document: its name, its page, its operation, the field that is changed, and what two people make of it.
type EditedDocument = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    [&'static str; 2],
);

const TENANT: &str = "/tenants/tenant_123";

#[expect(clippy::too_many_lines, reason = "a table of all documents")]
fn edited_documents() -> Vec<EditedDocument> {
    let skill = |by: &'static str| match by {
        "one" => "---\nname: writer\ndescription: By one.\n---\nWrite.\n",
        _ => "---\nname: writer\ndescription: By two.\n---\nWrite.\n",
    };
    vec![
        (
            "soul",
            "/character",
            "put_soul",
            "content",
            ["One.\n", "Two.\n"],
        ),
        (
            "memory",
            "/character",
            "put_memory",
            "content",
            ["One.\n", "Two.\n"],
        ),
        (
            "limits",
            "/limits",
            "patch_limits",
            "runs_per_day",
            ["11", "22"],
        ),
        (
            "disk",
            "/limits",
            "update_tenant",
            "storage.filesQuota",
            ["1111", "2222"],
        ),
        (
            "settings",
            "",
            "update_tenant",
            "displayName",
            ["One", "Two"],
        ),
        ("model", "", "update_tenant_model", "model", ["one", "two"]),
        (
            "file",
            "/files?path=note.md&edit=1",
            "write_file",
            "content",
            ["One.\n", "Two.\n"],
        ),
        (
            "server",
            "/mcp/demo",
            "put_mcp_server",
            "config",
            [r#"{"command": "one"}"#, r#"{"command": "two"}"#],
        ),
        (
            "job",
            "/cron/job_123",
            "update_tenant_cron",
            "patch.prompt",
            ["One", "Two"],
        ),
        (
            "skill",
            "/skills?category=content&skill=writer",
            "put_skill",
            "files:content",
            [skill("one"), skill("two")],
        ),
        (
            "platform",
            "/platforms",
            "put_platform",
            "home_channel",
            ["11", "22"],
        ),
        (
            "manifest",
            "/manifest",
            "put_manifest",
            "manifest",
            [r#"{"soul": "One."}"#, r#"{"soul": "Two."}"#],
        ),
        (
            "group",
            "/groups/division1",
            "update_group",
            "displayName",
            ["One", "Two"],
        ),
        (
            "library",
            "/skills/writer",
            "put_library_skill",
            "files:content",
            [skill("one"), skill("two")],
        ),
        (
            "webhook",
            "/webhooks/WEBHOOK",
            "update_webhook",
            "url",
            ["https://example.org/one", "https://example.org/two"],
        ),
        (
            "policy",
            "/policy",
            "put_agent_policy",
            "policy",
            [
                r#"{"tools": {"deny": ["one"]}}"#,
                r#"{"tools": {"deny": ["two"]}}"#,
            ],
        ),
        (
            "specialization",
            "/policy?tab=specialization",
            "put_agent_specialization",
            "content",
            ["One.\n", "Two.\n"],
        ),
        (
            "config",
            "/policy?tab=config",
            "patch_tenant_impact_config",
            "patch",
            [
                r#"{"agent": {"timezone": "Europe/Berlin"}, "flavors": {"standard": {}}}"#,
                r#"{"agent": {"timezone": "Europe/Paris"}, "flavors": {"standard": {}}}"#,
            ],
        ),
    ]
}

async fn hub_with_documents() -> (TestHub, String) {
    let hub = TestHub::new().await.with_examples().await;
    let workspace = hub.home("tenant_123").join("workspace");
    fs::create_dir_all(&workspace).unwrap();
    fs::write(workspace.join("note.md"), "first\n").unwrap();
    let skill = "---\nname: writer\ndescription: Writes.\n---\nWrite.\n";
    let skill = json!({"files": [{"path": "SKILL.md", "content": skill}]});
    hub.put("/v1/skills/writer", &skill).await.expect(201);
    let hook = json!({"url": "https://example.org/hook", "events": ["quota.near"]});
    let hook = hub.post("/v1/webhooks", &hook).await.expect(201);
    let telegram = json!({"token": "123456:secret-token-abcd"});
    let platform = "/v1/tenants/tenant_123/platforms/telegram";
    hub.put(platform, &telegram).await.expect(200);
    let id = hook["id"].as_str().unwrap().to_owned();
    (hub, id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_second_sees_the_difference_in_every_document_and_can_save_over_it() {
    let (hub, webhook) = hub_with_documents().await;
    let first = ConsoleBrowser::as_admin(&hub).await;
    let second = ConsoleBrowser::as_admin(&hub).await;
    for (name, page, operation, field, [one, two]) in edited_documents() {
        let is_of_hub = ["/groups", "/skills/", "/webhooks", "/policy"];
        let address = if is_of_hub.iter().any(|start| page.starts_with(start)) {
            page.replace("WEBHOOK", &webhook)
        } else {
            format!("{TENANT}{page}")
        };
        let shown = [first.get(&address).await, second.get(&address).await];
        let [mine, theirs] = shown.map(|page| page.expect_status(200).form(operation, &[field]));
        let saved = mine.with(field, one).submit(&first).await;
        let saved = save_preview(saved, operation, &first).await;
        assert_eq!(saved.status, 200, "{name}: {}", saved.text);
        let conflict = theirs.with(field, two).submit(&second).await;
        let conflict = save_preview(conflict, operation, &second).await;
        assert_eq!(conflict.status, 412, "{name}: {}", conflict.text);
        conflict.assert_shows("Somebody else has changed this");
        conflict.assert_shows("<ins>");
        conflict.assert_shows("<del>");
        let again = conflict.form(operation, &[]);
        let saved = again.submit(&second).await;
        assert_eq!(saved.status, 200, "{name}: {}", saved.text);
        assert!(saved.address.contains("done="), "{name}: {}", saved.address);
    }
}

/// Goes on from the page that shows what would change, where there is one.
async fn save_preview(
    page: super::ConsolePage,
    operation: &str,
    browser: &ConsoleBrowser,
) -> super::ConsolePage {
    if page.status != 200 || !page.shows("What changes") {
        return page;
    }
    page.form(operation, &[]).submit(browser).await
}

#[tokio::test]
async fn a_variable_that_somebody_else_has_set_is_not_overwritten_by_chance() {
    let hub = TestHub::new().await.with_examples().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let other = ConsoleBrowser::as_admin(&hub).await;
    let address = format!("{TENANT}/env");
    let form = async |browser: &ConsoleBrowser, value: &str| {
        let page = browser.get(&address).await.expect_status(200);
        let form = page.form("set_env", &["value"]);
        form.with("name", "API_KEY").with("value", value)
    };
    // One that was not there, and one that was.
    for value in ["secret-one-of-aaaa", "secret-two-of-bbbb"] {
        let mine = form(&admin, "secret-mine-cccc").await;
        let theirs = form(&other, value).await;
        theirs.submit(&other).await.expect_status(200);
        let conflict = mine.submit(&admin).await.expect_status(412);
        let end = &value[value.len() - 4..];
        conflict.assert_shows(&format!("<del>…{end} ("));
        conflict.assert_shows("<ins>…cccc</ins>");
        conflict.assert_lacks("<ins>secret");
        let saved = conflict.form("set_env", &[]).submit(&admin).await;
        assert!(saved.address.contains("done=set_env"), "{}", saved.address);
    }
    // Another variable is nobody's business.
    let mine = form(&admin, "secret-dddd").await.with("name", "OTHER_KEY");
    form(&other, "secret-eeee").await.submit(&other).await;
    let saved = mine.submit(&admin).await;
    assert!(saved.address.contains("done=set_env"), "{}", saved.address);
}

#[tokio::test]
async fn the_skills_of_a_group_are_given_and_a_change_in_between_is_shown() {
    let (hub, _) = hub_with_documents().await;
    let first = ConsoleBrowser::as_admin(&hub).await;
    let second = ConsoleBrowser::as_admin(&hub).await;
    let address = "/groups/division1";
    let open = async |browser: &ConsoleBrowser| {
        let page = browser.get(address).await.expect_status(200);
        page.form("put_group_skills", &["skills"])
    };
    let (mine, theirs) = (open(&first).await, open(&second).await);
    let given = mine.and("skills", "writer").submit(&first).await;
    given
        .expect_status(200)
        .assert_shows("value=\"writer\" checked");
    let conflict = theirs.submit(&second).await.expect_status(412);
    conflict.assert_shows("writer");
    let none = conflict.form("put_group_skills", &[]).submit(&second).await;
    none.expect_status(200)
        .assert_lacks("value=\"writer\" checked");
    let skills = hub.get("/v1/groups/division1/skills").await.expect(200);
    assert_eq!(skills, json!({"skills": []}));
}
