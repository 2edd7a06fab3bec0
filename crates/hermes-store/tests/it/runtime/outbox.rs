//! Messages to platforms, from being queued until they are there.

use std::time::Duration;

use hermes_store::{
    Access, NewSession, Origin, SessionKey, Store, StoreError,
    runtime::{
        ChunkStart, InboxKey, NewOutbound, NewOutboundChunk, NewUpdate, OutboundAction,
        OutboundChat, RuntimeStore,
    },
};
use serde_json::json;

use crate::{empty_home, id};

fn chat(chat: &str) -> OutboundChat {
    OutboundChat {
        platform: "telegram".into(),
        account: String::new(),
        chat: chat.into(),
    }
}

fn message(to: &str, key: &str, chunks: &[&str]) -> NewOutbound {
    let chunk = |text: &&str| NewOutboundChunk {
        payload: json!({"text": text}),
        start: ChunkStart::Post,
    };
    NewOutbound {
        chat: chat(to),
        target: json!({"id": to, "kind": "group"}),
        chunks: chunks.iter().map(chunk).collect(),
        dedupe_key: key.into(),
        created_at: 1000.0,
    }
}

async fn open() -> (tempfile::TempDir, RuntimeStore) {
    let (directory, home) = empty_home();
    (directory, RuntimeStore::open(&home).await.unwrap())
}

async fn due(runtime: &RuntimeStore, now: f64) -> Vec<(String, String)> {
    let rows = runtime.due_outbound(now, 100).await.unwrap();
    let text = |row: &serde_json::Value| row["text"].as_str().unwrap().to_owned();
    rows.iter()
        .map(|row| (row.chat.chat.clone(), text(&row.payload)))
        .collect()
}

#[tokio::test]
async fn a_message_is_queued_once_and_each_chat_sends_its_oldest_chunk_first() {
    let (_directory, runtime) = open().await;
    let ids = runtime
        .queue_outbound(&message("a", "k1", &["1", "2"]))
        .await;
    let ids = ids.unwrap().unwrap();
    assert_eq!(ids.len(), 2);
    let again = runtime
        .queue_outbound(&message("a", "k1", &["1", "2"]))
        .await;
    assert_eq!(again.unwrap(), None);
    runtime
        .queue_outbound(&message("a", "k2", &["3"]))
        .await
        .unwrap();
    runtime
        .queue_outbound(&message("b", "k3", &["4"]))
        .await
        .unwrap();
    let pair = |chat: &str, text: &str| (chat.to_owned(), text.to_owned());
    assert_eq!(due(&runtime, 0.0).await, [pair("a", "1"), pair("b", "4")]);

    runtime.mark_sent(ids[0], "m1").await.unwrap();
    runtime
        .retry_outbound(ids[1], 0.0, Duration::from_secs(50), "no connection")
        .await
        .unwrap();
    assert_eq!(due(&runtime, 49.0).await, [pair("b", "4")]);
    assert_eq!(due(&runtime, 50.0).await, [pair("a", "2"), pair("b", "4")]);
    let row = runtime.next_outbound(&chat("a")).await.unwrap().unwrap();
    assert_eq!((row.chunk, row.chunks, row.attempts), (2, 2, 1));
    let state = runtime.outbound_state("k1").await.unwrap().unwrap();
    assert_eq!((state.chunks, state.sent, state.failed), (2, 1, 0));
    assert_eq!(state.message_ids, ["m1"]);
    assert_eq!(state.last_error.as_deref(), Some("no connection"));
    assert!(!state.is_delivered());
    assert_eq!(runtime.outbound_state("never").await.unwrap(), None);

    runtime.mark_sent(ids[1], "m2").await.unwrap();
    let state = runtime.outbound_state("k1").await.unwrap().unwrap();
    assert!(state.is_delivered());
    assert_eq!(due(&runtime, 50.0).await, [pair("a", "3"), pair("b", "4")]);
}

#[tokio::test]
async fn a_time_far_ahead_does_not_hold_a_message_back_after_the_clock_was_set() {
    let (_directory, runtime) = open().await;
    let ids = runtime.queue_outbound(&message("a", "k1", &["1"])).await;
    let hour = Duration::from_hours(1);
    runtime
        .retry_outbound(ids.unwrap().unwrap()[0], 1e9, hour, "x")
        .await
        .unwrap();
    let row = runtime.next_outbound(&chat("a")).await.unwrap().unwrap();
    for (now, is_due, wait) in [
        (1e9, false, hour),
        (1e9 + 600.0, false, Duration::from_mins(50)),
        (1e9 + 3600.0, true, Duration::ZERO),
        (1e9 + 86_400.0, true, Duration::ZERO),
        // Set back: it waits for as long as it was told to, and not for the clock.
        (1e9 - 1800.0, true, hour),
        (1000.0, true, hour),
    ] {
        assert_eq!(due(&runtime, now).await.len(), usize::from(is_due), "{now}");
        assert_eq!(row.remaining_wait(now), wait, "{now}");
    }
}

#[tokio::test]
async fn a_chunk_that_is_refused_takes_those_behind_it_along() {
    let (_directory, runtime) = open().await;
    let ids = runtime
        .queue_outbound(&message("a", "k1", &["1", "2", "3"]))
        .await;
    let ids = ids.unwrap().unwrap();
    runtime
        .queue_outbound(&message("a", "k2", &["4"]))
        .await
        .unwrap();
    runtime.mark_sent(ids[0], "m1").await.unwrap();
    runtime.fail_outbound(ids[1], "blocked").await.unwrap();
    let state = runtime.outbound_state("k1").await.unwrap().unwrap();
    assert_eq!((state.sent, state.failed), (1, 2));
    assert_eq!(state.last_error.as_deref(), Some("blocked"));
    assert_eq!(due(&runtime, 0.0).await, [("a".into(), "4".into())]);
    let counts = runtime.outbound_counts().await.unwrap();
    assert_eq!((counts.queued, counts.failed), (1, 2));
    assert_eq!(counts.oldest_queued_at, Some(1000.0));

    assert_eq!(
        runtime
            .prune_outbound(Duration::from_hours(1))
            .await
            .unwrap(),
        0
    );
    assert_eq!(runtime.prune_outbound(Duration::ZERO).await.unwrap(), 3);
    assert_eq!(runtime.outbound_state("k1").await.unwrap(), None);
    assert_eq!(due(&runtime, 0.0).await.len(), 1);
}

#[tokio::test]
async fn a_chat_has_a_thousand_waiting_chunks_at_most() {
    let (_directory, runtime) = open().await;
    let many = vec!["x"; 999];
    runtime
        .queue_outbound(&message("a", "k1", &many))
        .await
        .unwrap();
    let full = runtime
        .queue_outbound(&message("a", "k2", &["1", "2"]))
        .await;
    assert!(
        matches!(full, Err(StoreError::OutboxFull { .. })),
        "{full:?}"
    );
    assert_eq!(runtime.outbound_state("k2").await.unwrap(), None);
    runtime
        .queue_outbound(&message("a", "k2", &["1"]))
        .await
        .unwrap()
        .unwrap();
    // Other chats are not affected.
    runtime
        .queue_outbound(&message("b", "k3", &["1"]))
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn an_answer_takes_the_place_of_its_preview_after_a_restart_too() {
    let (_directory, home) = empty_home();
    let runtime = RuntimeStore::open(&home).await.unwrap();
    let target = json!({"id": "a"});
    for (part, id) in [(1, "p1"), (2, "p2"), (3, "p3")] {
        runtime
            .record_preview(&chat("a"), &target, "k1", part, id)
            .await
            .unwrap();
    }
    runtime.close().await;
    let runtime = RuntimeStore::open(&home).await.unwrap();
    assert_eq!(
        runtime.preview_messages("k1").await.unwrap(),
        ["p1", "p2", "p3"]
    );
    assert_eq!(runtime.outbound_state("k1").await.unwrap(), None);
    // A preview is nothing to send.
    assert_eq!(due(&runtime, 0.0).await.len(), 0);
    let ids = runtime
        .queue_outbound(&message("a", "k1", &["1", "2"]))
        .await;
    let ids = ids.unwrap().unwrap();
    let mut actions = Vec::new();
    while let Some(row) = runtime.next_outbound(&chat("a")).await.unwrap() {
        actions.push((row.action, row.message_id.clone().unwrap()));
        let id = row.message_id.unwrap();
        runtime.mark_sent(row.id, &id).await.unwrap();
    }
    let expected = [
        (OutboundAction::Replace, "p1".to_owned()),
        (OutboundAction::Replace, "p2".to_owned()),
        (OutboundAction::Delete, "p3".to_owned()),
    ];
    assert_eq!(actions, expected);
    let state = runtime.outbound_state("k1").await.unwrap().unwrap();
    assert_eq!((state.chunks, state.sent), (2, 2));
    assert_eq!(ids.len(), 2);
}

#[tokio::test]
async fn a_claimed_chunk_holds_its_chat_up_until_it_is_sent_or_released() {
    let (_directory, runtime) = open().await;
    let mut new = message("a", "k1", &["1", "2"]);
    new.chunks[0].start = ChunkStart::Claimed;
    let ids = runtime.queue_outbound(&new).await.unwrap().unwrap();
    assert_eq!(due(&runtime, 0.0).await, []);
    let head = runtime.next_outbound(&chat("a")).await.unwrap().unwrap();
    assert!(head.is_claimed);
    runtime.release_outbound(ids[0]).await.unwrap();
    assert_eq!(due(&runtime, 0.0).await, [("a".into(), "1".into())]);

    let mut new = message("b", "k2", &["3"]);
    new.chunks[0].start = ChunkStart::Claimed;
    runtime.queue_outbound(&new).await.unwrap().unwrap();
    let release = async |held: &[String]| runtime.release_claimed_outbound(held).await.unwrap();
    assert_eq!(release(&["k2".into()]).await, 0);
    assert_eq!(release(&["k1".into()]).await, 1);
    assert_eq!(due(&runtime, 0.0).await.len(), 2);
}

#[tokio::test]
async fn a_forgotten_preview_can_be_made_again() {
    let (_directory, runtime) = open().await;
    let target = json!({"id": "a"});
    let record = async |id| {
        let chat = chat("a");
        let recorded = runtime.record_preview(&chat, &target, "k1", 1, id);
        recorded.await.unwrap();
    };
    record("p1").await;
    runtime.forget_preview("k1").await.unwrap();
    assert_eq!(runtime.preview_messages("k1").await.unwrap().len(), 0);
    record("p2").await;
    assert_eq!(runtime.preview_messages("k1").await.unwrap(), ["p2"]);
}

#[tokio::test]
async fn a_chat_with_another_id_keeps_its_messages_updates_and_sessions() {
    let (_directory, home) = empty_home();
    let runtime = RuntimeStore::open(&home).await.unwrap();
    runtime
        .queue_outbound(&message("-5", "k1", &["1"]))
        .await
        .unwrap();
    runtime
        .queue_outbound(&message("-55", "k2", &["2"]))
        .await
        .unwrap();
    let payload = json!({"message": {"chat": {"id": -5}, "from": {"id": -5}, "text": "-5"}});
    let update = NewUpdate {
        event_id: "1".into(),
        payload,
    };
    runtime
        .store_updates("telegram", "", &[update], None)
        .await
        .unwrap();
    let key = InboxKey {
        platform: "telegram".into(),
        account: String::new(),
        event_id: "1".into(),
    };
    let session_key = SessionKey::new("agent:main:telegram:group:-5:u");
    runtime
        .start_update(&key, Some(&session_key))
        .await
        .unwrap();
    runtime
        .rewrite_chat_id(&chat("-5"), "telegram", "-1005")
        .await
        .unwrap();
    let moved = runtime
        .next_outbound(&chat("-1005"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(moved.target, json!({"id": "-1005", "kind": "group"}));
    assert!(runtime.next_outbound(&chat("-5")).await.unwrap().is_none());
    assert!(runtime.next_outbound(&chat("-55")).await.unwrap().is_some());
    let row = runtime.update(&key).await.unwrap().unwrap();
    assert_eq!(
        row.payload,
        json!({"message": {"chat": {"id": -1005}, "from": {"id": -5}, "text": "-5"}})
    );
    let new_key = SessionKey::new("agent:main:telegram:group:-1005:u");
    assert_eq!(row.session_key.as_ref(), Some(&new_key));

    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let session = id("20260101_010101_abcdef01");
    let new = NewSession {
        session_key: Some(session_key.clone()),
        origin: Some(Origin {
            platform: "telegram".into(),
            chat_id: Some("-5".into()),
            chat_type: "group".into(),
            ..Origin::default()
        }),
        ..NewSession::new(session.clone(), "telegram")
    };
    store.create_session(&new).await.unwrap();
    let entry = json!({"session_key": session_key.as_str(), "session_id": session.as_str(), "origin": {"chat_id": "-5"}});
    let other = SessionKey::new("agent:main:telegram:dm:1");
    let routing = [
        (session_key.clone(), entry),
        (other.clone(), json!({"session_id": "x"})),
    ];
    store.replace_routing("scope", &routing).await.unwrap();
    let keys = store
        .rewrite_chat_id("telegram", "-5", "-1005")
        .await
        .unwrap();
    assert_eq!(keys, [(session_key, new_key.clone())]);
    let chats = store.chats().await.unwrap();
    assert_eq!(chats[0].session_key, new_key);
    assert_eq!(chats[0].chat_id.as_deref(), Some("-1005"));
    assert_eq!(chats[0].origin.as_ref().unwrap()["chat_id"], "-1005");
    let routing = store.routing("scope").await.unwrap();
    assert_eq!(routing[0].0, other);
    assert_eq!(routing[1].0, new_key);
    assert_eq!(routing[1].1["session_key"], new_key.as_str());
    assert_eq!(routing[1].1["origin"]["chat_id"], "-1005");
    let again = store
        .rewrite_chat_id("telegram", "-5", "-1005")
        .await
        .unwrap();
    assert_eq!(again, []);
}
