//! Answers match what was done, even if the database fails meanwhile.

use std::fs::File;

use hermes_testkit::eventually_some;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{ConnectOptions, SqliteConnection, sqlite::SqliteConnectOptions};

use crate::test_hub::{HttpAnswer, TIMEOUT, TestHub};

const CRON: &str = "/v1/tenants/tenant_123/agent-cron";
const MOVE: &str = "/v1/tenants/tenant_123/shares/division1/move";

/// Holds the write lock of the Hub's database while it lives.
async fn hold_the_database(site: &TestHub) -> SqliteConnection {
    let mut connection = SqliteConnectOptions::new()
        .filename(site.directory.path().join("hub/hub.db"))
        .busy_timeout(TIMEOUT)
        .connect()
        .await
        .unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE")
        .execute(&mut connection)
        .await
        .unwrap();
    connection
}

/// Keeps the Hub from changing a tenant's jobs.
fn hold_the_jobs(site: &TestHub) -> File {
    let lock = site.home("tenant_123").join("cron/.jobs.lock");
    let held = File::options()
        .append(true)
        .create(true)
        .open(lock)
        .unwrap();
    held.lock().unwrap();
    held
}

/// Waits until file operations are in progress, or none is.
async fn wait_for_changes(site: &TestHub, are_under_way: bool) {
    let reached = eventually_some(TIMEOUT, async || {
        let unfinished = site.hub.state().unfinished_file_operations().await;
        (unfinished.unwrap().is_empty() != are_under_way).then_some(())
    });
    assert!(reached.await.is_some());
}

async fn create_job(site: &TestHub) -> HttpAnswer {
    let request = site
        .request(&site.admin, Method::POST, CRON)
        .header("content-type", "application/json")
        .header("idempotency-key", "once")
        .body(json!({"id": "late", "schedule": "every 1h", "prompt": "x"}).to_string());
    site.send(request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_was_made_is_told_so_though_the_log_cannot_be_written() {
    let site = TestHub::new().await.with_examples().await;
    let jobs = hold_the_jobs(&site);
    let making = async {
        let made = create_job(&site).await;
        (made.status, made.expect(201))
    };
    let meanwhile = async {
        wait_for_changes(&site, true).await;
        let database = hold_the_database(&site).await;
        drop(jobs);
        database
    };
    let ((status, made), database) = tokio::join!(making, meanwhile);
    assert_eq!(status, 201);
    // Its audit entry is not finished, and nothing new can start.
    assert_eq!(
        site.hub
            .state()
            .unfinished_file_operations()
            .await
            .unwrap()
            .len(),
        1
    );
    create_job(&site).await.expect(503);
    drop(database);
    wait_for_changes(&site, false).await;
    // The same request gets the same reply, and there is one such job.
    let again = eventually_some(TIMEOUT, async || {
        let again = create_job(&site).await;
        assert!([201, 409].contains(&again.status), "{}", again.text);
        (again.status == 201).then_some(again)
    });
    let again = again.await.expect("it stays in progress");
    assert_eq!(again.header("idempotent-replay"), "true");
    assert_eq!(again.expect(201), made);
    let jobs = site.get(CRON).await.expect(200);
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 2, "{jobs}");
    let entries = site
        .get("/v1/audit?action=create_tenant_cron")
        .await
        .expect(200);
    let done = |entry: &&Value| entry["phase"] == "done" && entry["status"] == 201;
    let ends = entries["entries"].as_array().unwrap().iter().filter(done);
    assert_eq!(ends.count(), 2, "{entries}");
    let verified = site.get("/v1/audit/verify").await.expect(200);
    assert_eq!(verified["ok"], true, "{verified}");
}

#[tokio::test]
async fn a_change_that_failed_may_be_sent_again_under_its_key() {
    let site = TestHub::new().await.with_examples().await;
    let relocate = async || {
        let request = site
            .request(&site.admin, Method::POST, MOVE)
            .header("content-type", "application/json")
            .header("idempotency-key", "again")
            .body(json!({"from": "missing.md", "to": "there.md"}).to_string());
        site.send(request).await
    };
    relocate().await.expect(404);
    let file = json!({"path": "missing.md", "content": "here now"});
    site.put(
        "/v1/tenants/tenant_123/shares/division1/files/content",
        &file,
    )
    .await
    .expect(201);
    relocate().await.expect(200);
    let again = relocate().await;
    assert_eq!(again.header("idempotent-replay"), "true");
    again.expect(200);
}
