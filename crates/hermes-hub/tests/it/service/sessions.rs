//! Conversations of tenants.

use std::os::unix::fs::symlink;

use hermes_store::{Access, NewMessage, Role, SessionId, Store};
use reqwest::Method;
use serde_json::json;

use crate::{tenant_fixture::write_conversation, test_hub::TestHub};

const SESSIONS: &str = "/v1/tenants/tenant_123/sessions";

#[tokio::test]
async fn conversations_are_listed_read_and_searched_in_pages_while_the_agent_writes() {
    let site = TestHub::new().await.with_examples().await;
    let empty = site.get(SESSIONS).await.expect(200);
    assert_eq!(empty, json!({"sessions": [], "nextCursor": null}));
    site.get(&format!("{SESSIONS}/one/messages"))
        .await
        .expect(404);
    let path = site.home("tenant_123");
    write_conversation(&path, "one", "Where is the invoice?").await;
    write_conversation(&path, "two", "Hello").await;
    let home = hermes_config::Home::at(&path);
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let one = SessionId::parse("one").unwrap();
    for number in 0..5 {
        let reply = NewMessage::new(Role::Assistant, format!("The invoice is here: {number}"));
        store.append(&one, &reply).await.unwrap();
    }
    let first = site.get(&format!("{SESSIONS}?limit=1")).await.expect(200);
    assert_eq!(first["sessions"][0]["id"], "one");
    let next = first["nextCursor"].as_str().unwrap();
    let second = site
        .get(&format!("{SESSIONS}?limit=1&cursor={next}"))
        .await
        .expect(200);
    assert_eq!(second["sessions"][0]["id"], "two");
    assert_eq!(second["nextCursor"], json!(null));
    let mut texts = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = format!("{SESSIONS}/one/messages?limit=4{cursor}");
        let page = site.get(&page).await.expect(200);
        let messages = page["messages"].as_array().unwrap();
        texts.extend(messages.iter().map(|message| message["text"].clone()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(texts.len(), 6);
    assert_eq!(
        (&texts[0], &texts[5]),
        (
            &json!("Where is the invoice?"),
            &json!("The invoice is here: 4")
        )
    );
    let found = site
        .get(&format!("{SESSIONS}/search?query=invoice&limit=2"))
        .await;
    let found = found.expect(200);
    assert_eq!(found["matches"].as_array().unwrap().len(), 2);
    assert_eq!(found["matches"][0]["sessionId"], "one");
    assert!(found["nextCursor"].is_string());
    site.get(&format!("{SESSIONS}/search?query="))
        .await
        .expect(400);
    site.get(&format!("{SESSIONS}/..%2Fx/messages"))
        .await
        .expect(400);
    store.close().await;
    // Nothing is left behind, and no agent was woken.
    let reading = site.directory.path().join("hub/reading");
    assert_eq!(std::fs::read_dir(reading).unwrap().count(), 0);
    let agent = site.get("/v1/tenants/tenant_123/agent").await.expect(200);
    assert_eq!(agent["restarts"], 0);
}

#[tokio::test]
async fn secrets_of_the_tenant_are_redacted_and_other_tokens_see_nothing() {
    let site = TestHub::new().await.with_examples().await;
    let secret = "correct-horse-battery-staple";
    let value = json!({"value": secret});
    site.put("/v1/tenants/tenant_123/env/API_KEY", &value)
        .await
        .expect(204);
    let text = format!("The key is {secret} for invoices");
    write_conversation(&site.home("tenant_123"), "one", &text).await;
    for path in [
        SESSIONS.to_owned(),
        format!("{SESSIONS}/one/messages"),
        format!("{SESSIONS}/search?query=invoices"),
    ] {
        let answer = site.get(&path).await;
        assert!(answer.text.contains("key is"), "{path}: {}", answer.text);
        assert!(!answer.text.contains(secret), "{path}: {}", answer.text);
    }
    site.tenant(json!({"id": "other"})).await;
    let other = json!({"name": "other", "role": "admin", "tenants": ["other"]});
    let other = site.token(other).await;
    let less = json!({"name": "less", "scopes": ["tenants:read", "runs:read"]});
    let less = site.token(less).await;
    for (token, status) in [(&other, 404), (&less, 403)] {
        for path in [SESSIONS, &format!("{SESSIONS}/one/messages")] {
            let answer = site.send(site.request(token, Method::GET, path)).await;
            assert_eq!(answer.status, status, "{path}");
        }
    }
}

#[tokio::test]
async fn a_link_to_the_database_of_another_tenant_shows_nothing_of_it() {
    let site = TestHub::new().await.with_examples().await;
    site.tenant(json!({"id": "victim"})).await;
    write_conversation(&site.home("victim"), "one", "hunter2").await;
    let theirs = site.home("victim").join("state.db");
    let own = site.home("tenant_123").join("state.db");
    symlink(&theirs, &own).unwrap();
    let refused = site.get(SESSIONS).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    std::fs::remove_file(&own).unwrap();
    std::fs::write(&own, "not a database").unwrap();
    let refused = site.get(SESSIONS).await.expect(409);
    assert_eq!(refused["reason"], "damaged");
}

#[tokio::test]
async fn a_database_that_computes_what_is_read_is_refused() {
    use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
    let site = TestHub::new().await.with_examples().await;
    let home = site.home("tenant_123");
    write_conversation(&home, "one", "Hello").await;
    let mut connection = SqliteConnectOptions::new()
        .filename(home.join("state.db"))
        .connect()
        .await
        .unwrap();
    let endless = "ALTER TABLE messages RENAME TO kept; CREATE VIEW messages AS
        WITH RECURSIVE forever(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM forever) SELECT kept.* FROM kept, forever";
    sqlx::raw_sql(endless)
        .execute(&mut connection)
        .await
        .unwrap();
    let refused = site.get(&format!("{SESSIONS}/one/messages")).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
}
