//! The index of conversations.

use std::{fs, process::Command, sync::Arc};

use hermes_config::Home;
use hermes_gateway::conversations::{ConversationEntry, ConversationIndex};
use hermes_store::{
    Access, EndReason, NewMessage, NewSession, SessionId, SessionKey, SessionUsage, Store,
    local_iso,
};

use crate::bridge::events::{KEY, chat, empty_home, id, user, with_chat};

#[tokio::test]
async fn a_chat_is_shown_with_all_that_is_known() {
    let (_directory, home, store, session) = with_chat().await;
    let index = ConversationIndex::open(&home);
    let entries = index.entries().await.unwrap();
    assert_eq!(entries[0].updated_at, entries[0].created_at);
    let message = NewMessage {
        timestamp: Some(4e9),
        ..user("late")
    };
    store.append(&session, &message).await.unwrap();
    let usage = SessionUsage {
        input_tokens: 3,
        output_tokens: 4,
        ..SessionUsage::default()
    };
    store
        .record_usage(&session, "m", None, &usage)
        .await
        .unwrap();
    let entries = index.entries().await.unwrap();
    let entry = &entries[0];
    assert_eq!(entry.session_key, KEY);
    assert_eq!(entry.session_id, "s1");
    assert_eq!(entry.platform, "telegram");
    assert_eq!(entry.chat_type, "dm");
    assert_eq!(entry.display_name, "Ann");
    assert_eq!(entry.chat_name, "Ann");
    assert_eq!(entry.chat_id, "1");
    assert_eq!(entry.thread_id, None);
    assert_eq!(entry.updated_at, local_iso(4e9));
    assert_eq!(
        (entry.input_tokens, entry.output_tokens, entry.total_tokens),
        (3, 4, 7)
    );
    index.close().await;
    store.close().await;
}

#[tokio::test]
async fn what_has_not_changed_is_not_read_again() {
    let (_directory, home, store, session) = with_chat().await;
    let index = ConversationIndex::open(&home);
    let first = index.entries().await.unwrap();
    assert!(Arc::ptr_eq(&first, &index.entries().await.unwrap()));
    store.append(&session, &user("x")).await.unwrap();
    assert!(!Arc::ptr_eq(&first, &index.entries().await.unwrap()));
    index.close().await;
    store.close().await;
}

#[tokio::test]
async fn after_a_change_only_the_chats_it_concerns_are_read_again() {
    let (_directory, home, store, session) = with_chat().await;
    let other = chat(&store, "s2", "another chat").await;
    let index = ConversationIndex::open(&home);
    let mut before = index.entries().await.unwrap();
    // Whether each chat was read again, the one with a change and the other.
    let mut read_again = async || {
        let now = index.entries().await.unwrap();
        let of = |entries: &[Arc<ConversationEntry>], session: &SessionId| {
            let mut found = entries.iter();
            let found = found.find(|entry| entry.session_id == session.as_str());
            found.cloned().unwrap()
        };
        let is_new = |session| !Arc::ptr_eq(&of(&before, session), &of(&now, session));
        let outcome = (is_new(&session), is_new(&other));
        before = now;
        (outcome, of(&before, &session))
    };
    let late = NewMessage {
        timestamp: Some(4e9),
        ..user("late")
    };
    store.append(&session, &late).await.unwrap();
    let (outcome, entry) = read_again().await;
    assert_eq!(outcome, (true, false));
    assert_eq!(entry.updated_at, local_iso(4e9));
    let usage = SessionUsage {
        output_tokens: 4,
        ..SessionUsage::default()
    };
    let recorded = store.record_usage(&session, "m", None, &usage);
    recorded.await.unwrap();
    let (outcome, entry) = read_again().await;
    assert_eq!((outcome, entry.output_tokens), ((true, false), 4));
    // Nothing of a chat.
    let own = NewSession::new(id("own"), "cli");
    store.create_session(&own).await.unwrap();
    store.append(&own.id, &user("x")).await.unwrap();
    assert_eq!(read_again().await.0, (false, false));
    index.close().await;
    store.close().await;
}

/// A statement of another program.
fn run_elsewhere(home: &Home, statement: &str) {
    let script = "import sqlite3, sys\n\
        connection = sqlite3.connect(sys.argv[1], timeout=20)\n\
        connection.execute(sys.argv[2])\n\
        connection.commit()\n";
    let ran = Command::new("python3")
        .args(["-c", script])
        .arg(home.path().join("state.db"))
        .arg(statement)
        .status();
    assert!(ran.unwrap().success(), "{statement}");
}

#[tokio::test]
async fn chats_that_come_go_and_change_are_shown_as_a_new_index_shows_them() {
    let (_directory, home, store, session) = with_chat().await;
    for number in 0..6 {
        chat(&store, &format!("k{number}"), &format!("key {number}")).await;
    }
    let index = ConversationIndex::open(&home);
    let all = index.entries().await.unwrap().len();
    assert_eq!(all, 7);
    // How many were not read again.
    let count_kept = async |before: &[Arc<ConversationEntry>]| {
        let now = index.entries().await.unwrap();
        let fresh = ConversationIndex::open(&home);
        assert_eq!(now, fresh.entries().await.unwrap());
        fresh.close().await;
        let kept =
            |entry: &&Arc<ConversationEntry>| before.iter().any(|known| Arc::ptr_eq(known, entry));
        (now.iter().filter(kept).count(), now)
    };
    let before = index.entries().await.unwrap();
    chat(&store, "new", "key 2 and a half").await;
    let (kept, before) = count_kept(&before).await;
    assert_eq!((kept, before.len()), (7, 8));
    store.end_session(&id("k1"), EndReason::Idle).await.unwrap();
    let (kept, before) = count_kept(&before).await;
    assert_eq!((kept, before.len()), (7, 7));
    // No message tells of these.
    run_elsewhere(
        &home,
        "UPDATE sessions SET display_name = 'Else' WHERE id = 'k3'",
    );
    let (kept, before) = count_kept(&before).await;
    assert_eq!((kept, before.len()), (6, 7));
    run_elsewhere(&home, "DELETE FROM sessions WHERE id = 'k4'");
    store.append(&session, &user("x")).await.unwrap();
    let (kept, before) = count_kept(&before).await;
    assert_eq!((kept, before.len()), (5, 6));
    store.append(&id("k5"), &user("x")).await.unwrap();
    let (kept, _) = count_kept(&before).await;
    assert_eq!(kept, 5);
    index.close().await;
    store.close().await;
}

#[tokio::test]
async fn the_newest_session_of_a_chat_counts_even_if_it_is_ended() {
    let (_directory, home, store, _) = with_chat().await;
    let index = ConversationIndex::open(&home);
    let newer = chat(&store, "s2", KEY).await;
    let entries = index.entries().await.unwrap();
    assert_eq!((entries.len(), entries[0].session_id.as_str()), (1, "s2"));
    let ended = store.end_session(&newer, EndReason::Idle);
    ended.await.unwrap();
    assert_eq!(index.entries().await.unwrap().len(), 0);
    index.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_chat_without_an_origin_is_described_by_its_columns() {
    let (_directory, home, store, _) = with_chat().await;
    let bare = NewSession {
        session_key: Some(SessionKey::new("bare")),
        ..NewSession::new(id("s2"), "slack")
    };
    store.create_session(&bare).await.unwrap();
    let index = ConversationIndex::open(&home);
    let entries = index.entries().await.unwrap();
    let entry = entries.iter().find(|e| e.session_key == "bare").unwrap();
    assert_eq!(entry.platform, "slack");
    assert_eq!(entry.origin["platform"], "slack");
    assert!(entry.origin["chat_id"].is_null());
    assert_eq!(
        (entry.display_name.as_str(), entry.chat_type.as_str()),
        ("", "")
    );
    index.close().await;
    store.close().await;
}

#[tokio::test]
async fn without_chats_in_a_store_the_file_is_read_until_there_are() {
    let (_directory, home) = empty_home();
    let index = ConversationIndex::open(&home);
    assert_eq!(index.entries().await.unwrap().len(), 0);
    fs::create_dir(home.path().join("sessions")).unwrap();
    let file = r#"{"_README": "x", "_odd": {}, "bad": 3,
        "k1": {"session_id": "s9", "platform": "discord", "updated_at": "2026-01-01T00:00:00.000000",
               "total_tokens": 12, "origin": {"chat_id": 77, "chat_name": "general", "thread_id": "5"}},
        "k2": {"updated_at": "2026-01-02T00:00:00.000000"}}"#;
    fs::write(home.path().join("sessions/sessions.json"), file).unwrap();
    let entries = index.entries().await.unwrap();
    let keys: Vec<_> = entries.iter().map(|e| e.session_key.as_str()).collect();
    assert_eq!(keys, ["k2", "k1"], "the last used first");
    assert_eq!(entries[0].session_id, "");
    let entry = &entries[1];
    assert_eq!(
        (entry.chat_id.as_str(), entry.display_name.as_str()),
        ("77", "general")
    );
    assert_eq!(
        (entry.thread_id.as_deref(), entry.total_tokens),
        (Some("5"), 12)
    );
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    assert_eq!(index.entries().await.unwrap().len(), 2);
    chat(&store, "s1", KEY).await;
    let entries = index.entries().await.unwrap();
    assert_eq!((entries.len(), entries[0].session_key.as_str()), (1, KEY));
    index.close().await;
    store.close().await;
}

#[tokio::test]
async fn another_store_in_its_place_is_seen() {
    let (_directory, home, store, _) = with_chat().await;
    let index = ConversationIndex::open(&home);
    assert_eq!(index.entries().await.unwrap()[0].session_key, KEY);
    store.close().await;
    let (_other_directory, other) = empty_home();
    let store = Store::open(&other, Access::ReadWrite).await.unwrap();
    chat(&store, "s1", "another chat").await;
    store.close().await;
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(home.path().join(format!("state.db{suffix}")));
    }
    fs::rename(other.path().join("state.db"), home.path().join("state.db")).unwrap();
    assert_eq!(
        index.entries().await.unwrap()[0].session_key,
        "another chat"
    );
    index.close().await;
}
