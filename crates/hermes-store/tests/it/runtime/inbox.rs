//! Updates of platforms, from their arrival until they are dealt with.

use std::time::Duration;

use hermes_store::{
    SessionKey,
    runtime::{InboxCounts, InboxKey, InboxState, NewUpdate, RuntimeStore},
};
use serde_json::json;

use crate::empty_home;

fn update(id: &str) -> NewUpdate {
    NewUpdate {
        event_id: id.into(),
        payload: json!({"update_id": id, "unknown": [null, {"x": 1}]}),
    }
}

fn key(id: &str) -> InboxKey {
    InboxKey {
        platform: "telegram".into(),
        account: String::new(),
        event_id: id.into(),
    }
}

#[tokio::test]
async fn an_update_is_stored_once_together_with_the_cursor() {
    let (_directory, home) = empty_home();
    let runtime = RuntimeStore::open(&home).await.unwrap();
    let store = async |updates: &[NewUpdate], cursor| {
        let stored = runtime.store_updates("telegram", "", updates, Some(&cursor));
        stored.await.unwrap()
    };
    assert_eq!(
        store(&[update("1"), update("2")], json!(3)).await,
        ["1", "2"]
    );
    assert_eq!(store(&[update("2"), update("3")], json!(4)).await, ["3"]);
    let cursor = runtime.platform_cursor("telegram", "").await.unwrap();
    assert_eq!(cursor, Some(json!(4)));
    // Another account is another bot.
    let other = runtime
        .store_updates("telegram", "work", &[update("1")], None)
        .await;
    assert_eq!(other.unwrap(), ["1"]);
    let cursor = runtime.platform_cursor("telegram", "work").await.unwrap();
    assert_eq!(cursor, None);
}

#[tokio::test]
async fn the_same_update_entering_twice_in_the_same_instant_is_new_once() {
    let (_directory, home) = empty_home();
    let runtime = RuntimeStore::open(&home).await.unwrap();
    let entries = (0..20).map(|_| {
        let runtime = runtime.clone();
        async move {
            let update = [update("1")];
            let stored = runtime.store_updates("slack", "", &update, None).await;
            stored.unwrap().len()
        }
    });
    let new: usize = futures::future::join_all(entries).await.into_iter().sum();
    assert_eq!(new, 1);
}

#[tokio::test]
async fn what_is_not_done_is_there_after_a_restart_oldest_first() {
    let (_directory, home) = empty_home();
    let runtime = RuntimeStore::open(&home).await.unwrap();
    let updates: Vec<NewUpdate> = ["9", "10", "11", "12"].map(update).into();
    runtime
        .store_updates("telegram", "", &updates, None)
        .await
        .unwrap();
    let session = SessionKey::new("agent:main:telegram:dm:1");
    assert!(
        runtime
            .start_update(&key("9"), Some(&session))
            .await
            .unwrap()
    );
    assert!(runtime.start_update(&key("9"), None).await.unwrap());
    assert!(runtime.start_update(&key("10"), None).await.unwrap());
    runtime.finish_update(&key("10")).await.unwrap();
    runtime.drop_update_payload(&key("12")).await.unwrap();
    assert!(!runtime.start_update(&key("10"), None).await.unwrap());
    assert!(!runtime.start_update(&key("never"), None).await.unwrap());
    runtime.close().await;

    let runtime = RuntimeStore::open(&home).await.unwrap();
    let pending = runtime.pending_updates().await.unwrap();
    let ids: Vec<&str> = pending.iter().map(|row| row.event_id.as_str()).collect();
    assert_eq!(ids, ["9", "11"]);
    assert_eq!(pending[0].state, InboxState::Running);
    assert_eq!(pending[0].attempts, 2);
    assert_eq!(pending[0].session_key, Some(session));
    assert_eq!(pending[0].payload, update("9").payload);
    assert_eq!(pending[0].key(), key("9"));
    assert_eq!(pending[1].state, InboxState::New);
    let refused = runtime.update(&key("12")).await.unwrap().unwrap();
    assert_eq!(refused.payload, json!(null));
    assert_eq!(refused.state, InboxState::Done);
    let counts = runtime.inbox_counts().await.unwrap();
    assert_eq!(counts, InboxCounts { new: 1, running: 1 });

    // Only what is done is forgotten.
    assert_eq!(
        runtime.prune_inbox(Duration::from_hours(1)).await.unwrap(),
        0
    );
    assert_eq!(runtime.prune_inbox(Duration::ZERO).await.unwrap(), 2);
    assert_eq!(runtime.pending_updates().await.unwrap().len(), 2);
}

#[tokio::test]
async fn deferred_updates_are_taken_up_in_order_and_once() {
    let (_directory, home) = empty_home();
    let runtime = RuntimeStore::open(&home).await.unwrap();
    let updates: Vec<NewUpdate> = ["1", "2", "3", "4", "5", "6"].map(update).into();
    runtime
        .store_updates("telegram", "", &updates, None)
        .await
        .unwrap();
    let (one, other) = (SessionKey::new("one"), SessionKey::new("other"));
    let defer = async |id, session: &SessionKey| {
        let deferred = runtime.defer_update(&key(id), session).await;
        deferred.unwrap()
    };
    let take = async |session: &SessionKey, most| {
        let taken = runtime.take_deferred(session, most).await.unwrap();
        let taken: Vec<String> = taken.into_iter().map(|row| row.event_id).collect();
        taken
    };
    // One that is begun keeps its count.
    runtime.start_update(&key("2"), None).await.unwrap();
    runtime.finish_update(&key("6")).await.unwrap();
    for id in ["4", "3", "2"] {
        assert!(defer(id, &one).await);
    }
    assert!(defer("5", &other).await);
    assert!(!defer("6", &one).await, "it is done");
    assert_eq!(take(&one, 2).await, ["2", "3"]);
    assert_eq!(take(&one, 2).await, ["4"]);
    assert_eq!(take(&one, 2).await, [""; 0]);
    let begun = runtime.update(&key("2")).await.unwrap().unwrap();
    assert_eq!((begun.state, begun.attempts), (InboxState::New, 1));
    // What is taken up and not begun is still there after a restart.
    assert_eq!(runtime.pending_updates().await.unwrap().len(), 5);
    let dropped = runtime.finish_deferred(&other).await.unwrap();
    assert_eq!(dropped, [key("5")]);
    assert_eq!(runtime.pending_updates().await.unwrap().len(), 4);
}
