//! Files of shares.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;

use crate::test_hub::TestHub;

const SHARE: &str = "/v1/tenants/tenant_123/shares/division1";

#[tokio::test]
async fn reads_by_lines_join_back_to_the_file() {
    let site = TestHub::new().await.with_examples().await;
    let lines: Vec<String> = (0..950).map(|line| format!("line {line} ä\n")).collect();
    let whole = lines.concat();
    site.put(
        &format!("{SHARE}/files/content"),
        &json!({"path": "long.md", "content": whole}),
    )
    .await
    .expect(201);
    let mut joined = String::new();
    let mut offset = Some(0);
    while let Some(from) = offset {
        let part = site
            .get(&format!(
                "{SHARE}/files/content?path=long.md&offset={from}&limit=200"
            ))
            .await
            .expect(200);
        joined.push_str(part["content"].as_str().unwrap());
        assert_eq!(part["totalLines"], 950);
        offset = part["nextOffset"].as_u64();
    }
    assert_eq!(joined, whole);
    let all = site
        .get(&format!("{SHARE}/files/content?path=long.md&limit=0"))
        .await
        .expect(200);
    assert_eq!(all["content"], whole);
    assert_eq!(all["truncated"], false);
}

#[tokio::test]
async fn nothing_is_overwritten_by_moving_and_nothing_full_removed_by_chance() {
    let site = TestHub::new().await.with_examples().await;
    let write = |path: &'static str| json!({"path": path, "content": path});
    let written = site
        .put(&format!("{SHARE}/files/content"), &write("a/b/c.md"))
        .await
        .expect(201);
    assert_eq!(written["bytesWritten"], 8);
    site.put(&format!("{SHARE}/files/content"), &write("d.md"))
        .await
        .expect(201);
    let taken = site
        .post(
            &format!("{SHARE}/move"),
            &json!({"from": "d.md", "to": "a/b/c.md"}),
        )
        .await
        .expect(409);
    assert_eq!(taken["code"], "already_exists");
    let kept = site
        .get(&format!("{SHARE}/files/content?path=a/b/c.md"))
        .await
        .expect(200);
    assert_eq!(kept["content"], "a/b/c.md");
    let full = site
        .delete(&format!("{SHARE}/files?path=a"))
        .await
        .expect(409);
    assert_eq!(
        (&full["code"], &full["reason"]),
        (&json!("failed_precondition"), &json!("not_empty"))
    );
    site.delete(&format!("{SHARE}/files?path=a&recursive=true"))
        .await
        .expect(204);
    site.get(&format!("{SHARE}/stat?path=a")).await.expect(404);
    for path in ["/etc/passwd", "../x", "a/../../x", "a\\b"] {
        let answer = site
            .put(
                &format!("{SHARE}/files/content"),
                &json!({"path": path, "content": "x"}),
            )
            .await;
        assert_eq!(answer.status, 400, "{path}");
    }
    let shares = site.get("/v1/tenants/tenant_123/shares").await.expect(200);
    assert!(
        shares["shares"][0]["usedBytes"].as_u64().unwrap() > 0,
        "{shares}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_is_changed_disturbs_no_write_to_its_share() {
    let site = TestHub::new().await.with_examples().await;
    let (is_over, written) = (AtomicBool::new(false), AtomicUsize::new(0));
    let change_group = async {
        // As many writes as make it certain that some were under way.
        let mut number = 0;
        while written.load(Ordering::Relaxed) < 200 {
            number += 1;
            let name = json!({"displayName": format!("Name {number}")});
            site.patch("/v1/groups/division1", &name).await.expect(200);
        }
        is_over.store(true, Ordering::Relaxed);
    };
    let write_files = async |writer: usize| {
        let mut number = 0;
        while !is_over.load(Ordering::Relaxed) {
            number += 1;
            let path = format!("{writer}/{number}.md");
            let file = json!({"path": path, "content": "x".repeat(20_000)});
            let answer = site.put(&format!("{SHARE}/files/content"), &file).await;
            answer.expect(201);
            written.fetch_add(1, Ordering::Relaxed);
        }
        number
    };
    let writers = futures::future::join_all((0..8).map(write_files));
    let ((), numbers) = tokio::join!(change_group, writers);
    for (writer, number) in numbers.into_iter().enumerate() {
        let listed = site.get(&format!("{SHARE}/files?path={writer}")).await;
        let listed = listed.expect(200);
        assert_eq!(listed["entries"].as_array().unwrap().len(), number);
    }
}

#[tokio::test]
async fn a_changed_quota_holds_for_a_share_that_is_open() {
    let site = TestHub::new().await.with_examples().await;
    let write = async |path: &str| {
        let file = json!({"path": path, "content": "x".repeat(2_000)});
        site.put(&format!("{SHARE}/files/content"), &file).await
    };
    write("open.md").await.expect(201);
    let quota = async |bytes: u64| {
        let quota = json!({"quotaBytes": bytes});
        site.patch("/v1/groups/division1", &quota).await.expect(200);
    };
    quota(3_000).await;
    write("second.md").await.expect(507);
    quota(0).await;
    write("second.md").await.expect(201);
}
