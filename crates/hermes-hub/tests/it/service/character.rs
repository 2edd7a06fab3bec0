//! What an agent is and knows.

use std::os::unix::fs::symlink;

use reqwest::Method;
use serde_json::json;

use crate::test_hub::TestHub;

const OWN: &str = "/v1/tenants/tenant_123";

#[tokio::test]
async fn the_soul_is_read_and_replaced_by_versions() {
    let site = TestHub::new().await.with_examples().await;
    let answer = site.get(&format!("{OWN}/soul")).await;
    let version = answer.header("etag").to_owned();
    assert_eq!(answer.expect(200)["content"], "I am Acme's.\n");
    let write = async |content: &str, version: &str| {
        let request = site
            .request(&site.admin, Method::PUT, &format!("{OWN}/soul"))
            .header("content-type", "application/json")
            .header("if-match", version);
        site.send(request.body(json!({"content": content}).to_string()))
            .await
    };
    write("I am new.", &version).await.expect(200);
    write("I am late.", &version).await.expect(412);
    let home = site.home("tenant_123");
    let text = std::fs::read_to_string(home.join("SOUL.md")).unwrap();
    assert_eq!(text, "I am new.");
    let long = json!({"content": "x".repeat(20_001)});
    site.put(&format!("{OWN}/soul"), &long).await.expect(413);
    site.put(&format!("{OWN}/soul"), &json!({"content": ""}))
        .await
        .expect(200);
    assert_eq!(
        site.get(&format!("{OWN}/soul")).await.expect(200)["content"],
        ""
    );
}

#[tokio::test]
async fn memories_have_the_limits_that_the_home_configures() {
    let site = TestHub::new().await.with_examples().await;
    let home = site.home("tenant_123");
    let shown = site.get(&format!("{OWN}/memory/user")).await.expect(200);
    assert_eq!(
        (&shown["content"], &shown["maxChars"]),
        (&json!(""), &json!(1375))
    );
    std::fs::write(home.join("config.yaml"), "memory:\n  user_char_limit: 10\n").unwrap();
    let path = format!("{OWN}/memory/user");
    site.put(&path, &json!({"content": "Likes tea, and coffee"}))
        .await
        .expect(413);
    site.put(&path, &json!({"content": "Likes tea"}))
        .await
        .expect(200);
    let text = std::fs::read_to_string(home.join("memories/USER.md")).unwrap();
    assert_eq!(text, "Likes tea");
    site.get(&format!("{OWN}/memory/other")).await.expect(400);
    // Whoever holds the lock writes first.
    let lock = std::fs::File::create(home.join("memories/USER.md.lock")).unwrap();
    lock.lock().unwrap();
    let busy = site.put(&path, &json!({"content": "x"})).await.expect(503);
    assert_eq!(busy["reason"], "busy");
}

#[tokio::test]
async fn links_in_the_place_of_these_texts_show_and_change_nothing() {
    let site = TestHub::new().await.with_examples().await;
    let home = site.home("tenant_123");
    let secret = site.directory.path().join("secret");
    std::fs::write(&secret, "hunter2").unwrap();
    std::fs::remove_file(home.join("SOUL.md")).unwrap();
    symlink(&secret, home.join("SOUL.md")).unwrap();
    let refused = site.get(&format!("{OWN}/soul")).await;
    assert_eq!(refused.status, 409);
    assert!(!refused.text.contains("hunter2"), "{}", refused.text);
    // Writing puts a file in the place of the link.
    site.put(&format!("{OWN}/soul"), &json!({"content": "own"}))
        .await
        .expect(200);
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "hunter2");
    std::fs::remove_dir_all(home.join("memories")).unwrap();
    symlink(site.directory.path(), home.join("memories")).unwrap();
    site.put(&format!("{OWN}/memory/memory"), &json!({"content": "x"}))
        .await
        .expect(409);
    assert!(!site.directory.path().join("MEMORY.md").exists());
}
