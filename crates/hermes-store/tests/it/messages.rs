//! Messages: what is written comes back, in order, and nothing vanishes silently.

use std::time::Duration;

use hermes_store::{
    CompactionFailure, Content, MessageId, MessageQuery, MessageRows, MessageState, NewMessage,
    NewSession, Origin, Role, SearchQuery, SessionId, SessionKey, Store, StoreError,
};
use serde_json::json;

use crate::{assistant, id, python_sql, user, with_session};

const LEASE: Duration = Duration::from_mins(1);

async fn texts(store: &Store, session: &SessionId, query: &MessageQuery) -> Vec<String> {
    let messages = store.read_messages(session, query).await.unwrap();
    messages
        .iter()
        .map(|message| {
            let content = message.body.content.as_ref().unwrap();
            content.text().into_owned()
        })
        .collect()
}

fn all(rows: MessageRows) -> MessageQuery {
    MessageQuery {
        rows,
        ..MessageQuery::default()
    }
}

#[tokio::test]
async fn every_field_survives() {
    let (_directory, _home, store, session) = with_session().await;
    let message = NewMessage {
        tool_call_id: Some("call".into()),
        tool_name: Some("tool".into()),
        tool_calls: Some(json!([{"id": "a", "extra": [1.5, null]}, {"id": "b"}])),
        effect_disposition: Some("none".into()),
        finish_reason: Some("stop".into()),
        reasoning: Some("r".into()),
        reasoning_content: Some("rc".into()),
        reasoning_details: Some(json!([{"x": 1}])),
        codex_reasoning_items: Some(json!([2])),
        codex_message_items: Some(json!([3])),
        timestamp: Some(1_234.567_891),
        token_count: Some(9),
        platform_message_id: Some("77".into()),
        observed: true,
        api_content: Some("sent".into()),
        ..assistant("text")
    };
    let row = store.append(&session, &message).await.unwrap();
    let stored = store.message(&session, row).await.unwrap().unwrap();
    assert_eq!(stored.body, message);
    assert_eq!(stored.state, MessageState::Active);
    assert!((stored.timestamp - 1_234.567_891).abs() < 1e-9);
    let counted = store.session(&session).await.unwrap().unwrap();
    assert_eq!((counted.message_count, counted.tool_call_count), (1, 2));
    store.close().await;
}

#[tokio::test]
async fn odd_texts_come_back_as_they_were() {
    let (_directory, _home, store, session) = with_session().await;
    let large = "0123456789abcdef".repeat(65_536);
    let contents = [
        Content::from(""),
        Content::from("\0"),
        Content::from("a\0b\0"),
        Content::from("\u{fffd} 😀👩‍👩‍👧‍👦 字 한국어 \u{202e}"),
        Content::from(large.as_str()),
        Content::Parts(
            json!([{"type": "text", "text": "\0"}, {"type": "image_url", "image_url": {"url": large}}]),
        ),
    ];
    for content in &contents {
        let message = NewMessage::new(Role::User, content.clone());
        store.append(&session, &message).await.unwrap();
    }
    let stored = store.active_messages(&session).await.unwrap();
    let read: Vec<_> = stored
        .into_iter()
        .map(|message| message.body.content.unwrap())
        .collect();
    assert!(read == contents, "some content changed");
    store.close().await;
}

#[tokio::test]
async fn several_messages_are_written_all_or_none() {
    let (_directory, _home, store, session) = with_session().await;
    let ids = store
        .append_all(&session, &[user("a"), user("a"), assistant("b")])
        .await
        .unwrap();
    assert!(ids.is_sorted());
    let stored = store.active_messages(&session).await.unwrap();
    assert!(
        stored[0].timestamp < stored[1].timestamp,
        "equal rows stay apart"
    );
    assert_eq!(store.append_all(&session, &[]).await.unwrap(), []);

    let error = store
        .append_all(&id("nobody"), &[user("a")])
        .await
        .unwrap_err();
    assert!(
        matches!(error, StoreError::NoSuchSession { .. }),
        "{error:?}"
    );
    assert_eq!(
        store
            .session(&session)
            .await
            .unwrap()
            .unwrap()
            .message_count,
        3
    );
    store.close().await;
}

#[tokio::test]
async fn pages_are_cut_from_the_end_or_after_a_message() {
    let (_directory, _home, store, session) = with_session().await;
    let mut rows = Vec::new();
    for number in 0..10 {
        let message = if number % 2 == 0 {
            user(&number.to_string())
        } else {
            assistant(&number.to_string())
        };
        rows.push(store.append(&session, &message).await.unwrap());
    }
    let page = |limit| MessageQuery {
        limit,
        ..MessageQuery::default()
    };
    assert_eq!(texts(&store, &session, &page(3)).await, ["7", "8", "9"]);
    let before = MessageQuery {
        before: Some(rows[7]),
        ..page(3)
    };
    assert_eq!(texts(&store, &session, &before).await, ["4", "5", "6"]);
    let after = MessageQuery {
        after: Some(rows[2]),
        ..page(2)
    };
    assert_eq!(texts(&store, &session, &after).await, ["3", "4"]);
    let users = MessageQuery {
        roles: vec![Role::User],
        ..page(2)
    };
    assert_eq!(texts(&store, &session, &users).await, ["6", "8"]);

    let window = store.messages_around(&session, rows[4], 2).await.unwrap();
    let found: Vec<_> = window.messages.iter().map(|message| message.id).collect();
    assert_eq!(found, rows[2..=6]);
    assert!(window.more_before && window.more_after);
    let edge = store.messages_around(&session, rows[9], 20).await.unwrap();
    assert_eq!(edge.messages.len(), 10);
    assert!(!edge.more_before && !edge.more_after);
    let error = store
        .messages_around(&session, MessageId(999), 2)
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::NoSuchMessage { .. }));
    store.close().await;
}

#[tokio::test]
async fn a_rewound_turn_is_out_of_sight_but_not_gone() {
    let (_directory, _home, store, session) = with_session().await;
    store
        .append_all(
            &session,
            &[
                user("first"),
                assistant("one"),
                user("second"),
                assistant("two"),
                NewMessage {
                    observed: true,
                    ..user("overheard")
                },
            ],
        )
        .await
        .unwrap();
    let rewound = store.rewind_last_turn(&session).await.unwrap();
    assert_eq!(rewound.rows, 3);
    assert_eq!(rewound.prompt.body.content, Some("second".into()));
    assert_eq!(
        texts(&store, &session, &all(MessageRows::Active)).await,
        ["first", "one"]
    );
    assert_eq!(
        texts(&store, &session, &all(MessageRows::NotRewound)).await,
        ["first", "one"]
    );
    assert_eq!(
        texts(&store, &session, &all(MessageRows::All)).await.len(),
        5
    );
    assert_eq!(store.search(&SearchQuery::new("second")).await.unwrap(), []);

    store.append(&session, &user("again")).await.unwrap();
    let first = store.active_messages(&session).await.unwrap()[0].id;
    assert_eq!(store.rewind_to(&session, first).await.unwrap().rows, 3);
    assert_eq!(
        store.session(&session).await.unwrap().unwrap().rewind_count,
        2
    );
    let error = store.rewind_last_turn(&session).await.unwrap_err();
    assert!(matches!(error, StoreError::NothingToRewind { .. }));
    let error = store.rewind_to(&session, first).await.unwrap_err();
    assert!(matches!(error, StoreError::NoSuchMessage { .. }));
    store.close().await;
}

#[tokio::test]
async fn compaction_keeps_the_old_rows_and_what_arrived_meanwhile() {
    let (_directory, _home, store, session) = with_session().await;
    store
        .append_all(
            &session,
            &[user("old question"), assistant("old answer"), user("kept")],
        )
        .await
        .unwrap();
    let live = store.active_messages(&session).await.unwrap();
    let through = live[2].id;
    assert!(store.lock_compaction(&session, "me", LEASE).await.unwrap());
    store
        .append(
            &session,
            &NewMessage {
                tool_calls: Some(json!([{}])),
                ..assistant("meanwhile")
            },
        )
        .await
        .unwrap();
    let shorter = [user("summary"), live[2].body.clone()];
    let ids = store
        .compact(&session, "me", through, &shorter)
        .await
        .unwrap();
    assert_eq!(ids.len(), 3);
    store.unlock_compaction(&session, "me").await.unwrap();

    assert_eq!(
        texts(&store, &session, &all(MessageRows::Active)).await,
        ["summary", "kept", "meanwhile"]
    );
    let kept = store.message(&session, ids[1]).await.unwrap().unwrap();
    assert!((kept.timestamp - live[2].timestamp).abs() < 1e-9);
    assert!(kept.id > through);
    assert_eq!(
        texts(&store, &session, &all(MessageRows::NotRewound))
            .await
            .len(),
        7
    );
    let counted = store.session(&session).await.unwrap().unwrap();
    assert_eq!((counted.message_count, counted.tool_call_count), (3, 1));
    let hits = store.search(&SearchQuery::new("question")).await.unwrap();
    assert_eq!(hits.len(), 1, "what was summed up is still found");
    store.close().await;
}

#[tokio::test]
async fn a_failed_compaction_is_remembered_until_one_succeeds() {
    let (_directory, _home, store, session) = with_session().await;
    assert_eq!(store.compaction_failure(&session).await.unwrap(), None);
    let failure = CompactionFailure {
        until: 1_234.5,
        error: "no answer".into(),
        streak: 2,
    };
    let set = store.set_compaction_failure(&session, Some(&failure));
    set.await.unwrap();
    let known = store.compaction_failure(&session).await.unwrap();
    assert_eq!(known, Some(failure));
    store.set_compaction_failure(&session, None).await.unwrap();
    assert_eq!(store.compaction_failure(&session).await.unwrap(), None);
    store.close().await;
}

#[tokio::test]
async fn only_the_holder_of_the_lease_compacts() {
    let (_directory, _home, store, session) = with_session().await;
    let row = store.append(&session, &user("x")).await.unwrap();
    assert!(store.lock_compaction(&session, "one", LEASE).await.unwrap());
    assert!(store.lock_compaction(&session, "one", LEASE).await.unwrap());
    assert!(!store.lock_compaction(&session, "two", LEASE).await.unwrap());
    let error = store.compact(&session, "two", row, &[]).await.unwrap_err();
    assert!(matches!(error, StoreError::CompactionNotLocked { .. }));
    store.unlock_compaction(&session, "two").await.unwrap();
    assert!(!store.lock_compaction(&session, "two", LEASE).await.unwrap());

    store.unlock_compaction(&session, "one").await.unwrap();
    assert!(
        store
            .lock_compaction(&session, "two", Duration::ZERO)
            .await
            .unwrap()
    );
    let error = store.compact(&session, "two", row, &[]).await.unwrap_err();
    assert!(matches!(error, StoreError::CompactionNotLocked { .. }));
    assert!(store.lock_compaction(&session, "one", LEASE).await.unwrap());
    assert_eq!(store.active_messages(&session).await.unwrap().len(), 1);
    store.close().await;
}

#[tokio::test]
async fn a_write_that_is_given_up_never_happened() {
    let (_directory, home, store, session) = with_session().await;
    for _ in 0..20 {
        let message = user("given up");
        let append = store.append(&session, &message);
        let _ = tokio::time::timeout(Duration::from_micros(50), append).await;
    }
    store.append(&session, &user("done")).await.unwrap();
    let counted = store
        .session(&session)
        .await
        .unwrap()
        .unwrap()
        .message_count;
    let rows = store.active_messages(&session).await.unwrap();
    assert_eq!(usize::try_from(counted).unwrap(), rows.len());
    store.close().await;
    assert_eq!(python_sql(&home, "PRAGMA integrity_check"), "ok");
}

#[tokio::test]
async fn writers_of_one_process_queue_up() {
    let (_directory, _home, store, session) = with_session().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (store, session) = (store.clone(), session.clone());
        tasks.spawn(async move { store.append(&session, &user("x")).await });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap().unwrap();
    }
    assert_eq!(store.count_active(&session).await.unwrap(), 50);
    store.close().await;
}

#[tokio::test]
async fn what_was_said_is_what_has_a_text_and_was_not_put_aside() {
    let (_directory, home, store, session) = with_session().await;
    let image = json!({"type": "image_url", "image_url": {"url": "data:"}});
    let parts = |parts| NewMessage::new(Role::User, Content::Parts(parts));
    let messages = [
        user("one"),
        assistant(""),
        NewMessage::without_content(Role::Assistant),
        NewMessage::new(Role::Tool, "a result"),
        parts(json!([image])),
        parts(json!([{"type": "text", "text": "two"}, image])),
        user("\0three"),
        user("taken back"),
        user("four"),
    ];
    // Later rows have earlier times: what counts is the order of ids.
    let messages = messages
        .into_iter()
        .zip(1..)
        .map(|(message, at)| NewMessage {
            timestamp: Some(100.0 - f64::from(at)),
            ..message
        });
    let messages: Vec<NewMessage> = messages.collect();
    let ids = store.append_all(&session, &messages).await.unwrap();
    let put_aside = format!("UPDATE messages SET active = 0 WHERE id = {}", ids[7].0);
    python_sql(&home, &put_aside);
    let texts = |said: &hermes_store::RecentTexts| -> Vec<String> {
        let messages = said.messages.iter();
        messages.map(|message| message.text.clone()).collect()
    };
    let all = store.recent_texts(&session, 50).await.unwrap();
    assert_eq!(texts(&all), ["one", "two", "\0three", "four"]);
    assert_eq!(all.total, 4);
    let newest = store.recent_texts(&session, 2).await.unwrap();
    assert_eq!(texts(&newest), ["\0three", "four"]);
    assert_eq!((newest.total, newest.messages[1].id), (4, ids[8]));
    let nothing = store.recent_texts(&id("20260101_010101_00000000"), 5).await;
    assert_eq!(nothing.unwrap().total, 0);
}

#[tokio::test]
async fn what_was_said_is_counted_rightly_whatever_happens_between_two_looks() {
    let (_directory, home, store, session) = with_session().await;
    let said = async || {
        let said = store.recent_texts(&session, 2).await.unwrap();
        let texts = said.messages.into_iter().map(|message| message.text);
        (said.total, texts.collect::<Vec<_>>())
    };
    let rows = [user("one"), assistant("two"), user("three")];
    store.append_all(&session, &rows).await.unwrap();
    assert_eq!(said().await, (3, vec!["two".into(), "three".into()]));
    // More comes, of which some says nothing.
    let rows = [
        NewMessage::without_content(Role::Assistant),
        NewMessage::new(Role::Tool, "a result"),
        NewMessage::new(Role::User, Content::Parts(json!([{"type": "image"}]))),
        assistant("four"),
    ];
    store.append_all(&session, &rows).await.unwrap();
    assert_eq!(said().await, (4, vec!["three".into(), "four".into()]));
    // The last turn is taken back, and another one follows.
    store.rewind_last_turn(&session).await.unwrap();
    assert_eq!(said().await, (3, vec!["two".into(), "three".into()]));
    store.append(&session, &user("five")).await.unwrap();
    assert_eq!(said().await, (4, vec!["three".into(), "five".into()]));
    // Another program puts rows aside, and brings them back.
    python_sql(
        &home,
        "UPDATE messages SET active = 0 WHERE content = 'one'",
    );
    assert_eq!(said().await.0, 3);
    python_sql(
        &home,
        "UPDATE messages SET active = 1 WHERE content = 'one'",
    );
    assert_eq!(said().await.0, 4);
    // It writes the history anew.
    python_sql(
        &home,
        "CREATE TEMP TABLE t AS SELECT session_id, role, content, timestamp FROM messages WHERE active = 1; \
         DELETE FROM messages; INSERT INTO messages (session_id, role, content, timestamp) \
         SELECT * FROM t WHERE content != 'two'",
    );
    assert_eq!(said().await, (3, vec!["three".into(), "five".into()]));
    store.close().await;
}

#[tokio::test]
async fn what_the_bot_sent_is_found_by_the_platforms_id() {
    let (_directory, _home, store, _) = with_session().await;
    let key = SessionKey::new("agent:main:slack:group:C1:7");
    let session = id("in-a-thread");
    let origin = Origin {
        platform: "slack".into(),
        chat_id: Some("C1".into()),
        chat_type: "group".into(),
        ..Origin::default()
    };
    let row = NewSession {
        session_key: Some(key.clone()),
        origin: Some(origin),
        ..NewSession::new(session.clone(), "slack")
    };
    store.create_session(&row).await.unwrap();
    let overheard = NewMessage {
        observed: true,
        ..user("talk")
    };
    store.append(&session, &overheard).await.unwrap();
    assert!(!store.has_exchange(&key).await.unwrap());
    store.append(&session, &user("hello")).await.unwrap();
    assert!(store.has_exchange(&key).await.unwrap());
    assert_eq!(store.last_answer(&session, "hello").await.unwrap(), None);
    let answer = store.append(&session, &assistant("hi")).await.unwrap();
    assert_eq!(store.last_answer(&session, "bye").await.unwrap(), None);
    assert_eq!(
        store.last_answer(&session, "hi").await.unwrap(),
        Some(answer)
    );
    store.set_platform_message(answer, "7.1").await.unwrap();
    let stored = store.message(&session, answer).await.unwrap().unwrap();
    assert_eq!(stored.body.platform_message_id.as_deref(), Some("7.1"));
    let sent = async |chat: &str, message: &str| {
        let found = store.sent_message("slack", chat, message).await;
        found.unwrap()
    };
    assert_eq!(sent("C1", "7.1").await.as_deref(), Some("hi"));
    assert_eq!(sent("C2", "7.1").await, None);
    assert_eq!(sent("C1", "7.2").await, None);
}
