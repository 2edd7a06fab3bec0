//! How often the disk is waited for: a change of a tenant and what follows from it are one transaction.

use std::path::Path;

use serde_json::{Value, json};

use crate::{storage::state::is_on_postgres, test_hub::TestHub};

const PATCHES: usize = 20;

/// The transactions in a write-ahead log: frames that end one name the size of the database.
fn commits(log: &Path) -> usize {
    const HEADER: usize = 32;
    const FRAME_HEADER: usize = 24;
    let log = std::fs::read(log).unwrap();
    let number = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
    let page_size = usize::try_from(number(8)).unwrap();
    let frames = (log.len() - HEADER) / (FRAME_HEADER + page_size);
    // After a restart of the log, old frames have other salts.
    let frames = (0..frames).map(|frame| HEADER + frame * (FRAME_HEADER + page_size));
    frames
        .take_while(|at| log[at + 8..at + 16] == log[16..24])
        .filter(|at| number(at + 4) > 0)
        .count()
}

/// How many transactions so many changes of a tenant take, with what the Hub does because of them.
async fn commits_of_patches(
    site: &TestHub,
    tenant: &str,
    change: impl Fn(usize) -> Value,
) -> usize {
    let log = site.directory.path().join("hub/hub.db-wal");
    let path = format!("/v1/tenants/{tenant}");
    let before = commits(&log);
    for number in 0..PATCHES {
        let patched = site.patch(&path, &change(number)).await.expect(200);
        let generation = patched["generation"].as_u64().unwrap();
        site.wait_until(&path, |shown| {
            shown["observedGeneration"].as_u64() >= Some(generation)
        })
        .await;
    }
    commits(&log) - before
}

/// What else the Hub stores meanwhile is less than one more transaction for every second change.
fn assert_one_each(commits: usize) {
    assert!(
        (PATCHES..PATCHES * 3 / 2).contains(&commits),
        "{commits} commits for {PATCHES} changes"
    );
}

#[tokio::test]
async fn a_patch_of_a_tenant_is_one_commit() {
    if is_on_postgres() {
        return;
    }
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme"})).await;
    let labels = |number: usize| json!({"labels": {"round": number.to_string()}});
    assert_one_each(commits_of_patches(&site, "acme", labels).await);
}

#[tokio::test]
async fn a_patch_of_a_sleeping_tenant_is_one_commit_with_what_its_agent_learns_later() {
    if is_on_postgres() {
        return;
    }
    let site = TestHub::new().await;
    site.tenant(json!({"id": "sleeper", "start": false})).await;
    let change = |number: usize| json!({"agent": {"model": format!("openai/m{number}")}, "env": {"ROUND": number.to_string()}});
    assert_one_each(commits_of_patches(&site, "sleeper", change).await);
}

#[tokio::test]
async fn a_patch_that_the_agent_has_to_follow_is_one_commit_and_one_when_it_has() {
    if is_on_postgres() {
        return;
    }
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme"})).await;
    let change = |number: usize| json!({"agent": {"model": format!("openai/m{number}")}});
    let commits = commits_of_patches(&site, "acme", change).await;
    assert!(
        commits < PATCHES * 5 / 2,
        "{commits} commits for {PATCHES} changes"
    );
}
