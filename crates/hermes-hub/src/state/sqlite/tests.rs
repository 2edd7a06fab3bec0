//! What can not be brought about from outside.

use super::*;
use crate::{
    Problem,
    audit::NewEntry,
    state::{AuditLog, StateError},
};

#[tokio::test]
async fn a_full_disk_is_told_from_a_fault_and_leaves_nothing_torn() {
    let directory = tempfile::tempdir().unwrap();
    let state = SqliteState::open(&directory.path().join("hub.db"), "n1")
        .await
        .unwrap();
    let mut write = state.begin().await.unwrap();
    let pages: i64 = sqlx::query_scalar("PRAGMA page_count")
        .fetch_one(&mut *write)
        .await
        .unwrap();
    // A pragma takes no bound value; this one is a number of ours.
    let limit = format!("PRAGMA max_page_count = {}", pages + 10);
    sqlx::raw_sql(sqlx::AssertSqlSafe(limit))
        .execute(&mut *write)
        .await
        .unwrap();
    commit(write).await.unwrap();
    let mut written = 0;
    let refused = loop {
        let mut large = NewEntry::by_hub("read");
        large.request_id = "x".repeat(4000);
        match state.append_audit(vec![large]).await {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 1000, "the disk does not get full");
    };
    assert!(matches!(refused, StateError::DiskFull(_)), "{refused}");
    let problem = Problem::from(refused);
    assert_eq!(
        (problem.code.status(), problem.reason),
        (507, Some("disk_full"))
    );
    let checks = state.verify_audit().await.unwrap();
    assert_eq!((checks[0].entries, &checks[0].broken), (written, &None));
}

async fn fresh() -> (tempfile::TempDir, SqliteState) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hub.db");
    let state = SqliteState::open(&path, "n1").await.unwrap();
    (directory, state)
}

#[tokio::test]
async fn changes_are_counted_reads_and_their_entries_are_not() {
    let (_directory, state) = fresh().await;
    let before = state.changes();
    state.meta("x").await.unwrap();
    let looked = NewEntry::by_hub("looked");
    state.append_audit(vec![looked]).await.unwrap();
    assert_eq!(state.changes(), before);
    state.set_meta("x", b"1").await.unwrap();
    assert_ne!(state.changes(), before);
    assert!(state.changes().is_some());
}

#[tokio::test]
async fn after_a_commit_that_nobody_waited_for_nothing_is_vouched_for() {
    let (_directory, state) = fresh().await;
    // SQLite's own thread may be done before it is looked at: then the commit was waited for after all.
    let mut tries = 0..1000;
    loop {
        assert!(tries.next().is_some(), "no commit was ever under way");
        let mut write = state.begin().await.unwrap();
        sqlx::query("INSERT INTO meta (name, value) VALUES (hex(randomblob(8)), zeroblob(65536))")
            .execute(&mut *write)
            .await
            .unwrap();
        let mut committing = Box::pin(commit(write));
        if futures::poll!(&mut committing).is_pending() {
            break;
        }
        assert!(state.changes().is_some());
    }
    assert_eq!(state.changes(), None);
}
