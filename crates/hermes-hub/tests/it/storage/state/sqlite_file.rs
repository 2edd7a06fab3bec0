//! What is true of an SQLite file alone: newer, and locked by another process.

use std::{
    fs,
    time::{Duration, Instant},
};

use hermes_hub::{
    GroupId, Problem,
    storage::state::{FileChange, NewFileOperation, SqliteState, StateError},
};
use hermes_store::StoreError;

use super::{
    StateFixture, entry,
    processes::{hold_lock, run_sql},
    tenant_id,
};

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let fresh = StateFixture::new().await;
    fresh.state.close().await;
    run_sql(&fresh, "PRAGMA user_version = 99").await;
    let path = fresh.directory.path().join("hub.db");
    let before = fs::read(&path).unwrap();
    let refused = SqliteState::open(&path, "n1").await.unwrap_err();
    assert!(matches!(
        refused,
        StoreError::NewerSchema { version: 99, .. }
    ));
    assert!(refused.to_string().contains("newer program"), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_database_that_another_process_holds_is_unavailable_after_two_seconds() {
    let fresh = StateFixture::new().await;
    fresh.tenant("a").await;
    let holder = hold_lock(&fresh);
    let begun = Instant::now();
    let write = || fresh.state.append_audit(vec![entry("denied")]);
    let several = futures::future::join_all([write(), write(), write()]).await;
    let waited = begun.elapsed();
    for refused in several {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, StateError::Unavailable(_)), "{refused}");
        let problem = Problem::from(refused);
        assert_eq!(problem.code.status(), 503);
        assert!(problem.retry_after_ms.is_some());
        assert!(!problem.message.contains("hub.db"), "{}", problem.message);
    }
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
    // They wait together: two seconds, plus what a busy machine needs, and not two seconds each.
    assert!(waited < Duration::from_secs(6), "{waited:?}");
    // Reads still work.
    let id = tenant_id("a");
    assert!(fresh.state.tenant(&id).await.unwrap().is_some());
    drop(holder);
    write().await.unwrap();
}

/// Turns the current tables into those before operations said what they change.
const BEFORE_CHANGES: &str =
    "DROP TABLE console_sessions; DROP TABLE sign_in_links; DROP INDEX tenants_in_trouble; DROP INDEX tenants_by_name;
    DROP INDEX runs_by_status; DROP INDEX runs_by_begin;
    DROP INDEX approvals_inbox; ALTER TABLE approvals DROP COLUMN choices;
    ALTER TABLE approvals DROP COLUMN form; ALTER TABLE approvals DROP COLUMN answer;
    DROP TABLE library_skills;
    DROP TABLE chat_runs;
    DROP TABLE group_skills;
    DROP TABLE provided_skills; DROP TABLE webhook_deliveries; DROP TABLE webhooks;
    DROP TABLE hub_events; DROP TABLE hub_event_head; DROP TABLE limit_days; DROP TABLE tenant_limits; DROP TABLE usage_days; DROP TABLE usage_totals;
    ALTER TABLE runs DROP COLUMN tool_calls; ALTER TABLE runs DROP COLUMN model;
    ALTER TABLE intents DROP COLUMN change; ALTER TABLE intents DROP COLUMN settled;
    PRAGMA user_version = 3;";

#[tokio::test]
async fn operations_of_an_earlier_version_are_known_by_their_audit_entry() {
    let mut fresh = StateFixture::new().await;
    let tenant = tenant_id("acme");
    for entry in [
        entry("write_share_file").with_target("division1:notes/a:b.md"),
        entry("create_tenant_cron")
            .for_tenant(&tenant)
            .with_target("job"),
        entry("write_share_file").with_target("no group"),
    ] {
        let intent = NewFileOperation {
            entry,
            change: FileChange::Copy,
            reserve: None,
        };
        let _ = fresh.state.begin_file_operation(intent).await.unwrap();
    }
    fresh.state.close().await;
    run_sql(&fresh, BEFORE_CHANGES).await;
    fresh.reopen().await;
    let unfinished = fresh.state.unfinished_file_operations().await.unwrap();
    let changes: Vec<_> = unfinished.into_iter().map(|one| one.change).collect();
    let share = FileChange::Share {
        group: GroupId::parse("division1").unwrap(),
        path: "notes/a:b.md".into(),
    };
    assert_eq!(
        changes,
        [Some(share), Some(FileChange::Home { tenant }), None]
    );
}
