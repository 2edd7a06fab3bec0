//! A Hub with one home in it, as `hermes up` has: its pages are about what is one's own.

use serde_json::json;

use super::{ConsoleBrowser, ConsolePage, conversations::add_conversation, links::crawl_pages};
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

#[tokio::test]
async fn one_person_without_a_model_is_told_where_to_choose_one() {
    let hub = TestHub::new().await;
    hub.tenant(json!({"id": "mine"})).await;
    let home = hub.home("mine");
    let link = format!("UPDATE tenants SET linked_home = '{}'", home.display());
    run_sql(&hub, &link).await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get("/").await.expect_status(200);
    page.assert_shows("No model is chosen.");
    let viewer = ConsoleBrowser::with_rights(&hub, json!({"role": "viewer"})).await;
    let page = viewer.get("/").await.expect_status(200);
    page.assert_lacks("No model is chosen.");
    let model = "/v1/tenants/mine/model";
    let chosen = hub.patch(model, &json!({"model": "openai/gpt-5"})).await;
    chosen.expect(200);
    let page = admin.get("/").await.expect_status(200);
    page.assert_lacks("No model is chosen.");
    // Whoever looks after many homes is not told of each.
    let unset = hub.patch(model, &json!({"model": null})).await;
    unset.expect(200);
    hub.tenant(json!({"id": "second"})).await;
    let page = admin.get("/").await.expect_status(200);
    page.assert_lacks("No model is chosen.");
}

/// What a person reads or hears of a page: no code, and nothing that somebody has typed.
fn words_of(page: &ConsolePage) -> String {
    let mut text = page.text.clone();
    for part in ["code", "pre", "textarea"] {
        let (start, end) = (format!("<{part}"), format!("</{part}>"));
        while let Some(at) = text.find(&start) {
            let length = text[at..].find(&end).unwrap_or(text.len() - at - end.len());
            text.replace_range(at..at + length + end.len(), " ");
        }
    }
    let mut words = String::new();
    for piece in text.split('<') {
        let (tag, content) = piece.split_once('>').unwrap_or(("", piece));
        for name in ["aria-label", "title", "alt", "placeholder"] {
            let mark = format!(" {name}=\"");
            if let Some((_, value)) = tag.split_once(&mark) {
                words.push_str(value.split('"').next().unwrap_or_default());
                words.push(' ');
            }
        }
        words.push_str(content);
        words.push(' ');
    }
    words.to_lowercase()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_page_of_one_person_speaks_of_tenants_in_any_language() {
    let hub = TestHub::new().await;
    hub.tenant(json!({"id": "main", "displayName": "Home"}))
        .await;
    add_conversation(&hub, "main", "Where is the invoice?").await;
    let job = json!({"id": "job_1", "schedule": "0 9 * * *", "prompt": "Summarize"});
    let jobs = "/v1/tenants/main/agent-cron";
    hub.post(jobs, &job).await.expect(201);
    let hook = json!({"url": "https://example.org/hook", "events": ["quota.near"]});
    hub.post("/v1/webhooks", &hook).await.expect(201);
    let run = json!({"input": "hello"});
    hub.post("/v1/tenants/main/runs", &run).await.expect(202);
    let link = format!(
        "UPDATE tenants SET linked_home = '{}'",
        hub.home("main").display()
    );
    run_sql(&hub, &link).await;
    for (language, yours) in [
        ("en", ["your servers", "your conversations", "your jobs"]),
        (
            "de",
            ["eigene server", "eigene gespräche", "eigene zeitpläne"],
        ),
    ] {
        let admin = ConsoleBrowser::as_admin(&hub).await.speaking(language);
        let pages = crawl_pages(&admin).await;
        assert!(pages.len() > 25, "{}", pages.len());
        for page in &pages {
            if !page.is_html() || page.address.starts_with("/docs") {
                continue;
            }
            let words = words_of(page);
            for word in ["tenant", "mandant"] {
                let at = words.find(word);
                let near = at.map(|at| {
                    let start = words[..at].char_indices().rev().nth(60);
                    words[start.map_or(0, |(at, _)| at)..]
                        .chars()
                        .take(140)
                        .collect::<String>()
                });
                assert_eq!(near, None, "{} in {language}", page.address);
            }
            for own in yours {
                assert!(words.contains(own), "{} lacks {own}: {words}", page.address);
            }
        }
        let titled = admin.get("/tenants/main/mcp").await;
        assert!(
            titled
                .text
                .to_lowercase()
                .contains(&format!("<h1>{}</h1>", yours[0]))
        );
    }
}
