//! Rows that are written again, taken back or summed up: what of that is an event.

use std::time::Duration;

use hermes_store::{EndReason, MessageId, NewMessage, NewSession, SessionId, SessionKey, Store};

use super::{KEY, chat, open, page, poll_texts, with_chat, with_timestamp};
use crate::{assistant, id, python_sql, user};

/// Sums up the live messages, keeping the last ones.
async fn compact(store: &Store, session: &SessionId, keep: usize) -> Vec<MessageId> {
    let lease = Duration::from_mins(1);
    assert!(store.lock_compaction(session, "me", lease).await.unwrap());
    let live = store.active_messages(session).await.unwrap();
    let through = live.last().unwrap().id;
    let mut list = vec![user("summary")];
    list.extend(
        live[live.len() - keep..]
            .iter()
            .map(|message| message.body.clone()),
    );
    let ids = store.compact(session, "me", through, &list).await.unwrap();
    store.unlock_compaction(session, "me").await.unwrap();
    ids
}

fn turn(number: usize) -> [NewMessage; 2] {
    [
        user(&format!("question {number}")),
        assistant(&format!("answer {number}")),
    ]
}

#[tokio::test]
async fn a_compaction_of_known_messages_is_not_an_event() {
    let (_directory, home, store, session) = with_chat().await;
    let mut log = open(&home).await;
    for number in 0..3 {
        store.append_all(&session, &turn(number)).await.unwrap();
    }
    assert_eq!(poll_texts(&mut log, 0).await.len(), 6);
    compact(&store, &session, 3).await;
    store.append(&session, &user("next")).await.unwrap();
    assert_eq!(poll_texts(&mut log, 6).await, ["next"]);
    compact(&store, &session, 2).await;
    compact(&store, &session, 1).await;
    assert_eq!(poll_texts(&mut log, 7).await, [""; 0]);
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_compaction_before_the_look_loses_and_doubles_nothing() {
    let (_directory, home, store, session) = with_chat().await;
    let mut log = open(&home).await;
    store.append_all(&session, &turn(0)).await.unwrap();
    log.poll().await.unwrap();
    store.append_all(&session, &turn(1)).await.unwrap();
    store.append_all(&session, &turn(2)).await.unwrap();
    compact(&store, &session, 3).await;
    let ids = compact(&store, &session, 2).await;
    store.append_all(&session, &turn(3)).await.unwrap();
    let expected = [
        "question 1",
        "answer 1",
        "question 2",
        "answer 2",
        "question 3",
        "answer 3",
    ];
    assert_eq!(poll_texts(&mut log, 2).await, expected);
    let events = page(&log, 4).await.events;
    assert_eq!(
        events[0].payload["message_id"],
        ids[1].to_string(),
        "of a message and its copy, the live row"
    );
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_summary_before_tool_results_alone_is_not_an_event() {
    let (_directory, home, store, session) = with_chat().await;
    let mut log = open(&home).await;
    store.append_all(&session, &turn(0)).await.unwrap();
    let result = NewMessage::new(hermes_store::Role::Tool, "result");
    store.append(&session, &result).await.unwrap();
    log.poll().await.unwrap();
    compact(&store, &session, 1).await;
    assert_eq!(poll_texts(&mut log, 2).await, [""; 0]);
    log.close().await;
    store.close().await;
}

/// A retry as Hermes Agent 0.19 does it: the history is deleted and written again without its last turn.
const RETRY: &str = "CREATE TEMP TABLE kept AS SELECT * FROM messages WHERE session_id = 's1' \
    AND id < (SELECT MAX(id) FROM messages WHERE session_id = 's1' AND role = 'user'); \
    DELETE FROM messages WHERE session_id = 's1' AND active = 1; \
    INSERT INTO messages (session_id, role, content, timestamp) \
    SELECT session_id, role, content, timestamp FROM kept WHERE active = 1 ORDER BY id";

#[tokio::test]
async fn a_history_deleted_and_written_again_is_not_an_event() {
    let (_directory, home, store, session) = with_chat().await;
    store.append_all(&session, &turn(0)).await.unwrap();
    let mut log = open(&home).await;
    store.append_all(&session, &turn(1)).await.unwrap();
    assert_eq!(poll_texts(&mut log, 0).await.len(), 2);
    python_sql(&home, RETRY);
    assert_eq!(poll_texts(&mut log, 2).await, [""; 0]);
    store.append_all(&session, &turn(1)).await.unwrap();
    assert_eq!(poll_texts(&mut log, 2).await, ["question 1", "answer 1"]);
    // Again, with the new turn already there at the look.
    python_sql(&home, RETRY);
    store.append_all(&session, &turn(2)).await.unwrap();
    assert_eq!(poll_texts(&mut log, 4).await, ["question 2", "answer 2"]);
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_history_written_again_right_after_the_first_start_is_not_an_event() {
    let (_directory, home, store, session) = with_chat().await;
    store.append_all(&session, &turn(0)).await.unwrap();
    store.append_all(&session, &turn(1)).await.unwrap();
    let mut log = open(&home).await;
    python_sql(&home, RETRY);
    assert_eq!(poll_texts(&mut log, 0).await, [""; 0]);
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn what_is_taken_back_is_not_said_again_and_its_successor_is() {
    let (_directory, home, store, session) = with_chat().await;
    let mut log = open(&home).await;
    store.append_all(&session, &turn(0)).await.unwrap();
    assert_eq!(poll_texts(&mut log, 0).await.len(), 2);
    store.rewind_last_turn(&session).await.unwrap();
    assert_eq!(poll_texts(&mut log, 2).await, [""; 0]);
    store.append_all(&session, &turn(0)).await.unwrap();
    assert_eq!(poll_texts(&mut log, 2).await, ["question 0", "answer 0"]);
    // Taken back before anybody looked.
    store.append_all(&session, &turn(1)).await.unwrap();
    store.rewind_last_turn(&session).await.unwrap();
    store.append(&session, &user("instead")).await.unwrap();
    assert_eq!(poll_texts(&mut log, 4).await, ["instead"]);
    log.close().await;
    store.close().await;
}

/// Copies all live messages of a session into another one, as branching does.
async fn copy(store: &Store, from: &SessionId, to: &SessionId) {
    let live = store.active_messages(from).await.unwrap();
    let bodies: Vec<_> = live.into_iter().map(|message| message.body).collect();
    store.append_all(to, &bodies).await.unwrap();
}

async fn branch(store: &Store, from: &SessionId, name: &str, key: &str) -> SessionId {
    let mut new = NewSession::new(id(name), "telegram");
    new.session_key = Some(SessionKey::new(key));
    new.parent = Some(from.clone());
    store.create_session(&new).await.unwrap();
    new.id
}

#[tokio::test]
async fn a_branch_says_nothing_that_its_ancestors_said() {
    let (_directory, home, store, session) = with_chat().await;
    store.append_all(&session, &turn(0)).await.unwrap();
    let mut log = open(&home).await;
    store.append_all(&session, &turn(1)).await.unwrap();
    log.poll().await.unwrap();
    store
        .end_session(&session, EndReason::Branched)
        .await
        .unwrap();
    let child = branch(&store, &session, "s2", KEY).await;
    copy(&store, &session, &child).await;
    let grandchild = branch(&store, &child, "s3", KEY).await;
    copy(&store, &child, &grandchild).await;
    store.append(&grandchild, &user("further")).await.unwrap();
    assert_eq!(poll_texts(&mut log, 2).await, ["further"]);
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_message_and_its_branch_seen_together_are_one_event() {
    let (_directory, home, store, session) = with_chat().await;
    let mut log = open(&home).await;
    store.append_all(&session, &turn(0)).await.unwrap();
    let child = branch(&store, &session, "s2", "another chat").await;
    copy(&store, &session, &child).await;
    assert_eq!(poll_texts(&mut log, 0).await, ["question 0", "answer 0"]);
    let events = page(&log, 0).await.events;
    assert_eq!(events[0].session_key, Some(SessionKey::new(KEY)));
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_continuation_under_another_id_shows_neither_summary_nor_copies() {
    let (_directory, home, store, session) = with_chat().await;
    let mut log = open(&home).await;
    store.append_all(&session, &turn(0)).await.unwrap();
    log.poll().await.unwrap();
    let child = branch(&store, &session, "s2", KEY).await;
    store.append(&child, &user("summary")).await.unwrap();
    copy(&store, &session, &child).await;
    store.append(&child, &user("next")).await.unwrap();
    assert_eq!(poll_texts(&mut log, 2).await, ["next"]);
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn equal_and_earlier_times_are_events_like_others() {
    let (_directory, home, store, session) = with_chat().await;
    let mut log = open(&home).await;
    for (text, time) in [("a", 100.0), ("b", 100.0), ("c", 50.0), ("d", 50.0)] {
        store
            .append(&session, &with_timestamp(user(text), time))
            .await
            .unwrap();
        log.poll().await.unwrap();
    }
    let same = [
        with_timestamp(user("e"), 10.0),
        with_timestamp(assistant("e"), 10.0),
    ];
    store.append_all(&session, &same).await.unwrap();
    let other = chat(&store, "s2", "other").await;
    store
        .append(&other, &with_timestamp(user("a"), 100.0))
        .await
        .unwrap();
    assert_eq!(
        poll_texts(&mut log, 0).await,
        ["a", "b", "c", "d", "e", "e", "a"]
    );
    log.close().await;
    store.close().await;
}
