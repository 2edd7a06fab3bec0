//! File operations: intents, outcomes and usage.

use hermes_hub::{
    GroupId,
    api_types::AuditPhase,
    storage::state::{
        AuditOrder, AuditQuery, FileChange, FileOutcome, NewFileOperation, Page, SpaceReservation,
        StateError, StorageUsage, UnfinishedOperation, UsageOwner,
    },
};

use super::{StateFixture, entry};

fn written_note() -> FileChange {
    FileChange::Share {
        group: GroupId::parse("division1").unwrap(),
        path: "notes/a.md".into(),
    }
}

fn intent(owner: &UsageOwner, bytes: u64, most: u64) -> NewFileOperation {
    NewFileOperation {
        entry: entry("write_share_file").with_target("division1:notes/a.md"),
        change: written_note(),
        reserve: Some(SpaceReservation {
            owner: owner.clone(),
            bytes,
            files: 1,
            max_bytes: Some(most),
            max_files: Some(10),
        }),
    }
}

#[tokio::test]
async fn an_intent_is_followed_by_what_came_of_it() {
    let fresh = StateFixture::new().await;
    let owner = UsageOwner::Group(fresh.group("division1").await);
    let state = &fresh.state;
    let begun = state
        .begin_file_operation(intent(&owner, 10, 100))
        .await
        .unwrap();
    assert_eq!(state.unfinished_file_operations().await.unwrap().len(), 1);
    let effect = || FileOutcome {
        entry: entry("write_share_file").with_target("division1:notes/a.md"),
        used: Some((owner.clone(), StorageUsage { bytes: 7, files: 1 })),
    };
    state
        .finish_file_operation(begun.clone(), effect())
        .await
        .unwrap();
    assert!(state.unfinished_file_operations().await.unwrap().is_empty());
    let usage = StorageUsage { bytes: 7, files: 1 };
    assert_eq!(state.usage(&owner).await.unwrap(), usage);
    let again = state.finish_file_operation(begun.clone(), effect()).await;
    assert!(matches!(again, Err(StateError::Conflict { .. })));
    assert_eq!(state.usage(&owner).await.unwrap(), usage);
    let query = AuditQuery {
        action: Some("write_share_file".into()),
        order: AuditOrder::OldestFirst,
        ..AuditQuery::default()
    };
    let entries = state.audit(&query, &Page::default()).await.unwrap().items;
    let phases: Vec<_> = entries
        .iter()
        .map(|entry| (entry.phase, entry.intent))
        .collect();
    let done = (Some(AuditPhase::Done), Some(begun.seq));
    assert_eq!(phases, [(Some(AuditPhase::Intent), None), done]);
}

#[tokio::test]
async fn room_is_kept_for_what_is_under_way() {
    let fresh = StateFixture::new().await;
    let owner = UsageOwner::Group(fresh.group("division1").await);
    let state = &fresh.state;
    let begun = state
        .begin_file_operation(intent(&owner, 60, 100))
        .await
        .unwrap();
    let refused = state.begin_file_operation(intent(&owner, 60, 100)).await;
    assert!(matches!(refused, Err(StateError::OverQuota { .. })));
    let effect = FileOutcome {
        entry: entry("write_share_file"),
        used: Some((
            owner.clone(),
            StorageUsage {
                bytes: 20,
                files: 1,
            },
        )),
    };
    state.finish_file_operation(begun, effect).await.unwrap();
    let begun = state
        .begin_file_operation(intent(&owner, 60, 100))
        .await
        .unwrap();
    let smaller = FileOutcome {
        entry: entry("remove_share_path"),
        used: Some((owner.clone(), StorageUsage::default())),
    };
    state.finish_file_operation(begun, smaller).await.unwrap();
    assert_eq!(state.usage(&owner).await.unwrap(), StorageUsage::default());
}

#[tokio::test]
async fn two_writes_that_fit_only_alone_do_not_both_begin() {
    let fresh = StateFixture::new().await;
    let owner = UsageOwner::Group(fresh.group("division1").await);
    let (one, two) = tokio::join!(
        fresh.state.begin_file_operation(intent(&owner, 60, 100)),
        fresh.state.begin_file_operation(intent(&owner, 60, 100))
    );
    assert_eq!(u32::from(one.is_ok()) + u32::from(two.is_ok()), 1);
}

#[tokio::test]
async fn what_was_cut_off_is_settled_at_the_next_start() {
    let mut fresh = StateFixture::new().await;
    let owner = UsageOwner::Group(fresh.group("division1").await);
    let begun = fresh
        .state
        .begin_file_operation(intent(&owner, 60, 100))
        .await
        .unwrap();
    fresh.reopen().await;
    let state = &fresh.state;
    let unfinished = state.unfinished_file_operations().await.unwrap();
    let expected = UnfinishedOperation {
        operation: begun.clone(),
        change: Some(written_note()),
        is_settled: false,
    };
    assert_eq!(unfinished, std::slice::from_ref(&expected));
    let settle = || state.settle_file_operation(begun.clone(), AuditPhase::Interrupted);
    settle().await.unwrap();
    let again = settle().await;
    assert!(matches!(again, Err(StateError::Conflict { .. })));
    // It is left to whoever removes its temporary files.
    let settled = UnfinishedOperation {
        is_settled: true,
        ..expected
    };
    assert_eq!(state.unfinished_file_operations().await.unwrap(), [settled]);
    let forgotten = state.forget_file_operation(begun.clone()).await;
    forgotten.unwrap();
    assert!(state.unfinished_file_operations().await.unwrap().is_empty());
    // The reservation is released.
    let again = state
        .begin_file_operation(intent(&owner, 60, 100))
        .await
        .unwrap();
    assert!(again.seq > begun.seq);
    let other = fresh.another_node("n2").await;
    assert!(other.unfinished_file_operations().await.unwrap().is_empty());
}
