//! A Hub with one home in it, as `hermes up` has: its pages are about what is one's own.

use serde_json::json;

use super::{ConsoleBrowser, ConsolePage, conversations::add_conversation};
use crate::{hub::lifecycle::run_sql, test_hub::TestHub};

/// Whether the navigation leads there.
fn leads_to(page: &ConsolePage, path: &str) -> bool {
    let (_, rest) = page.text.split_once("<nav").unwrap();
    let (navigation, _) = rest.split_once("</nav>").unwrap();
    navigation.contains(&format!("href=\"{path}\""))
}

#[tokio::test]
async fn one_person_sees_what_is_theirs_until_there_is_a_second_tenant() {
    let hub = TestHub::new().await.with_examples().await;
    add_conversation(&hub, "tenant_123", "Where is the invoice?").await;
    let home = hub.home("tenant_123");
    let link = format!("UPDATE tenants SET linked_home = '{}'", home.display());
    run_sql(&hub, &link).await;

    let admin = ConsoleBrowser::as_admin(&hub).await;
    let of_many = [
        "/runs", "/tenants", "/groups", "/cron", "/policy", "/tokens", "/nodes",
    ];
    let of_one = [
        ("/conversations", "Your conversations", "invoice"),
        ("/mcp", "Your servers", "demo"),
        ("/cron", "Your jobs", "/cron/job_123"),
        ("/platforms", "Your platforms", "Telegram"),
        ("/skills", "Your skills", "writer"),
    ];
    let first = admin.get("/").await.expect_status(200);
    for path in of_many {
        assert!(!leads_to(&first, path), "{path}: {}", first.text);
    }
    first.assert_lacks("href=\"/nodes\"");
    for (path, words, content) in of_one {
        let path = format!("/tenants/tenant_123{path}");
        assert!(leads_to(&first, &path), "{path}: {}", first.text);
        first.assert_shows(words);
        let page = admin.get(&path).await.expect_status(200);
        page.assert_shows(content);
    }

    hub.tenant(json!({"id": "second"})).await;
    let first = admin.get("/").await.expect_status(200);
    for path in of_many {
        assert!(leads_to(&first, path), "{path}: {}", first.text);
    }
    for (path, words, _) in of_one {
        let path = format!("/tenants/tenant_123{path}");
        assert!(!leads_to(&first, &path), "{path}: {}", first.text);
        first.assert_lacks(words);
    }
}
