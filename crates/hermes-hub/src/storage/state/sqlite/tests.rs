//! Cases that cannot be caused from outside.

use super::*;
use crate::{
    Problem,
    storage::{
        audit::NewAuditEntry,
        state::{AuditStore, StateError, TenantStore},
    },
};

#[tokio::test]
async fn a_full_disk_is_told_from_a_fault_and_leaves_nothing_torn() {
    let directory = tempfile::tempdir().unwrap();
    let state = SqliteState::open(&directory.path().join("hub.db"), "n1")
        .await
        .unwrap();
    let mut write = state.begin_change(Affected::NoTenant).await.unwrap();
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
        let mut large = NewAuditEntry::by_hub("read");
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

fn tenant(id: &str) -> TenantId {
    TenantId::parse(id).unwrap()
}

async fn fresh() -> (tempfile::TempDir, SqliteState) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hub.db");
    let state = SqliteState::open(&path, "n1").await.unwrap();
    (directory, state)
}

#[tokio::test]
async fn only_changes_of_a_tenant_are_counted_for_it() {
    let (_directory, state) = fresh().await;
    let (one, other) = (tenant("one"), tenant("other"));
    let count = |id: &TenantId| state.changes_of(id).unwrap();
    let (before, before_other) = (count(&one), count(&other));
    state.meta("x").await.unwrap();
    let looked = NewAuditEntry::by_hub("looked");
    state.append_audit(vec![looked]).await.unwrap();
    state.set_meta("x", b"1").await.unwrap();
    assert_eq!(count(&one), before);
    state.observe_generation(&one, 1).await.unwrap();
    assert!(!count(&one).vouches_for(before));
    assert!(count(&one).is_one_change_after(before));
    assert_eq!(count(&other), before_other);
    state
        .delete_encrypted(NewAuditEntry::by_hub("forget"))
        .await
        .unwrap();
    assert!(!count(&other).vouches_for(before_other));
    assert!(!count(&one).is_one_change_after(before));
}

#[tokio::test]
async fn what_a_change_wrote_is_not_vouched_for_while_another_is_under_way() {
    let (_directory, state) = fresh().await;
    let one = tenant("one");
    let before = state.changes_of(&one).unwrap();
    state.observe_generation(&one, 1).await.unwrap();
    let pending = state.begin_change(Affected::Tenant(&one)).await.unwrap();
    let after = state.changes_of(&one).unwrap();
    assert!(!after.is_one_change_after(before));
    drop(pending);
    // Nor after it: nobody knows which of the two came last.
    assert!(!state.changes_of(&one).unwrap().is_one_change_after(before));
}

/// What the log's end is remembered as must be what is stored, whatever became of the writes in between.
#[tokio::test]
async fn the_chain_holds_after_writes_that_were_left_and_writes_that_share_a_commit() {
    let (_directory, state) = fresh().await;
    for round in 0..5 {
        let mut left = state.begin_change(Affected::NoTenant).await.unwrap();
        state
            .append_effect(&mut left, NewAuditEntry::by_hub("left"))
            .await
            .unwrap();
        drop(left);
        let name = format!("m{round}");
        state.set_meta(&name, b"1").await.unwrap();
        let entries = (0..20).map(|_| state.append_audit(vec![NewAuditEntry::by_hub("kept")]));
        for added in futures::future::join_all(entries).await {
            added.unwrap();
        }
    }
    let checks = state.verify_audit().await.unwrap();
    assert_eq!((checks[0].entries, &checks[0].broken), (100, &None));
}

#[tokio::test]
async fn after_a_commit_that_nobody_waited_for_nothing_is_vouched_for() {
    let (_directory, state) = fresh().await;
    // SQLite's own thread may be done before it is looked at: then the commit was waited for after all.
    let mut tries = 0..1000;
    let one = tenant("one");
    loop {
        assert!(tries.next().is_some(), "no commit was ever under way");
        let mut write = state.begin_change(Affected::Tenant(&one)).await.unwrap();
        sqlx::query("INSERT INTO meta (name, value) VALUES (hex(randomblob(8)), zeroblob(65536))")
            .execute(&mut *write)
            .await
            .unwrap();
        let mut committing = Box::pin(commit(write));
        if futures::poll!(&mut committing).is_pending() {
            break;
        }
        assert!(state.changes_of(&one).is_some());
    }
    assert_eq!(state.changes_of(&one), None);
}
