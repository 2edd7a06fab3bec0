//! What goes wrong: arguments, databases, files.

use std::fs;

use hermes_testkit::DatabaseLock;

use super::*;

#[tokio::test]
async fn wrong_arguments_are_named() {
    let place = BridgeFixture::new();
    let client = place.client().await;
    for (tool, arguments, named) in [
        ("conversations_list", json!({"limit": "abc"}), "limit"),
        ("conversations_list", json!({"limit": 1.5}), "limit"),
        ("conversations_list", json!({"limit": null}), "limit"),
        ("conversations_list", json!({"platform": 5}), "platform"),
        ("conversation_get", json!({}), "session_key"),
        (
            "conversation_get",
            json!({"session_key": null}),
            "session_key",
        ),
        ("messages_read", json!({"session_key": 7}), "session_key"),
        (
            "attachments_fetch",
            json!({"session_key": "k", "message_id": 7}),
            "message_id",
        ),
        ("events_poll", json!({"after_cursor": "x"}), "after_cursor"),
        ("events_wait", json!({"timeout_ms": []}), "timeout_ms"),
        ("messages_send", json!({"target": "telegram"}), "message"),
        ("permissions_respond", json!({"id": "a"}), "decision"),
    ] {
        let refused = client.call(tool, arguments.clone()).await;
        let text = only_text(&refused);
        assert_eq!(refused.is_error, Some(true), "{tool} {arguments}");
        assert_eq!(refused.structured_content, None, "{tool} {arguments}");
        assert!(
            text.contains(tool) && text.contains(named),
            "{tool} {arguments}: {text}"
        );
    }
    let unknown = client.call("no_such_tool", json!({})).await;
    assert_eq!(
        (unknown.is_error, only_text(&unknown)),
        (Some(true), "Unknown tool: no_such_tool")
    );
    let huge = json!({"limit": 1e30, "search": null, "strange": {"a": 1}});
    assert_eq!(
        client.call_document("conversations_list", huge).await["count"],
        0
    );
}

#[tokio::test]
async fn without_a_database_the_lists_are_empty_and_one_that_comes_later_is_used() {
    let place = BridgeFixture::new();
    let client = place.client().await;
    let list = client.call_document("conversations_list", json!({})).await;
    assert_eq!(
        (&list["count"], &list["conversations"]),
        (&json!(0), &json!([]))
    );
    assert_eq!(
        client
            .call_document("permissions_list_open", json!({}))
            .await,
        json!({"count": 0, "approvals": []})
    );
    assert!(!place.home.path().join("state.db").exists());

    let store = place.store().await;
    add_chat(&store, SESSION, KEY, "1").await;
    store.append(&id(SESSION), &user("late")).await.unwrap();
    let read = client
        .call_document("messages_read", json!({"session_key": KEY}))
        .await;
    assert_eq!(read["messages"][0]["content"], "late");
}

#[tokio::test]
async fn a_database_that_takes_the_place_of_another_is_the_one_that_is_read() {
    let (place, store) = with_chat().await;
    store.append(&id(SESSION), &user("old")).await.unwrap();
    let client = place.client().await;
    let content = async || {
        let read = client
            .call_document("messages_read", json!({"session_key": KEY}))
            .await;
        read["messages"][0]["content"].clone()
    };
    assert_eq!(content().await, "old");
    store.close().await;

    let (other, store) = with_chat().await;
    store.append(&id(SESSION), &user("new")).await.unwrap();
    store.close().await;
    for name in ["state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(place.home.path().join(name));
    }
    fs::rename(
        other.home.path().join("state.db"),
        place.home.path().join("state.db"),
    )
    .unwrap();
    assert_eq!(content().await, "new");
}

fn write_routing(place: &BridgeFixture, text: &str) {
    let directory = place.home.path().join("sessions");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("sessions.json"), text).unwrap();
}

#[tokio::test]
async fn broken_entries_of_the_routing_file_cost_only_themselves() {
    let place = BridgeFixture::new();
    let routing = json!({
        "_README": "text",
        "k:text": "no object",
        "k:list": [1],
        "k:null": null,
        "k:empty": {},
        "k:odd": {
            "session_id": 7, "platform": ["telegram"], "chat_type": null, "display_name": {}, "origin": "here",
            "updated_at": 3, "total_tokens": "many",
        },
        "k:evil": {"session_id": "../../etc/passwd", "platform": "telegram"},
        "k:good": {
            "session_key": "k:good", "session_id": "20260101_010101_0badcafe", "platform": "telegram",
            "chat_type": "dm", "created_at": "2026-01-01T00:00:00", "updated_at": "2026-01-02T00:00:00",
        },
    });
    write_routing(&place, &routing.to_string());
    let client = place.client().await;
    let listed = client.call_document("conversations_list", json!({})).await;
    let listed = listed["conversations"].as_array().unwrap();
    let mut keys: Vec<_> = listed
        .iter()
        .map(|entry| entry["session_key"].as_str().unwrap())
        .collect();
    assert_eq!(keys[0], "k:good", "the others have no time that counts");
    keys.sort_unstable();
    assert_eq!(keys, ["k:empty", "k:evil", "k:good", "k:odd"]);
    let error = async |tool, key| {
        let answer = client
            .call_document(tool, json!({"session_key": key}))
            .await;
        answer["error"].as_str().map(str::to_owned)
    };
    for key in ["k:empty", "k:evil", "k:good", "k:odd"] {
        assert_eq!(error("conversation_get", key).await, None, "{key}");
    }
    for (key, expected) in [
        ("k:good", "Session database unavailable"),
        ("k:empty", "No session ID for this conversation"),
        ("k:evil", "Failed to read messages: "),
        ("_README", "Conversation not found: _README"),
        ("k:text", "Conversation not found: k:text"),
    ] {
        let error = error("messages_read", key).await.unwrap();
        assert!(error.starts_with(expected), "{key}: {error}");
    }
}

#[tokio::test]
async fn a_routing_file_that_cannot_be_read_is_none_until_it_can() {
    let place = BridgeFixture::new();
    let client = place.client().await;
    let count =
        async || client.call_document("conversations_list", json!({})).await["count"].clone();
    let good = r#"{"k": {"session_id": "s", "platform": "telegram"}}"#;
    for broken in ["", "[]", "3", &good[..good.len() - 4]] {
        write_routing(&place, broken);
        assert_eq!(count().await, 0, "{broken}");
        write_routing(&place, good);
        assert_eq!(count().await, 1, "after {broken}");
    }
}

/// Another process keeps the conversations of a home for itself.
pub(super) fn lock(place: &BridgeFixture) -> DatabaseLock {
    DatabaseLock::acquire(&place.home.path().join("state.db"))
}

/// Asks all that reads conversations, at the same time.
async fn read_everything(client: &Client) -> Vec<Value> {
    let key = json!({"session_key": KEY});
    let message = json!({"session_key": KEY, "message_id": "1"});
    let ask = |tool, arguments| Box::pin(client.call_document(tool, arguments));
    let answers = tokio::join!(
        ask("conversations_list", json!({})),
        ask("conversation_get", key.clone()),
        ask("messages_read", key),
        ask("attachments_fetch", message),
    );
    vec![answers.0, answers.1, answers.2, answers.3]
}

#[tokio::test]
async fn a_locked_database_is_an_answer_and_later_none() {
    let (place, store) = with_chat().await;
    store.append(&id(SESSION), &user("there")).await.unwrap();
    store.close().await;
    let locker = lock(&place);
    let client = place.client().await;
    for answer in Box::pin(read_everything(&client)).await {
        assert_eq!(answer["error"], "Session database unavailable", "{answer}");
        let reason = answer["reason"].as_str().unwrap();
        assert!(reason.contains("is locked by another process"), "{reason}");
    }
    let channels = client.call_document("channels_list", json!({})).await;
    let error = channels["error"].as_str().unwrap();
    assert!(error.contains("is locked by another process"), "{error}");
    assert!(client.running.list_all_resources().await.is_err());
    // What needs no conversations works.
    assert_eq!(client.running.list_all_tools().await.unwrap().len(), 10);
    drop(locker);
    for answer in Box::pin(read_everything(&client)).await {
        assert_eq!(answer["error"], Value::Null, "{answer}");
    }
    // What was read before is not taken for the truth later.
    let locker = lock(&place);
    for answer in Box::pin(read_everything(&client)).await {
        assert_eq!(answer["error"], "Session database unavailable", "{answer}");
    }
    drop(locker);
}

#[tokio::test]
async fn a_short_lock_is_waited_for() {
    let (place, store) = with_chat().await;
    store.append(&id(SESSION), &user("there")).await.unwrap();
    store.close().await;
    // Leaves a file that can be locked while others have it open.
    drop(lock(&place));
    let client = place.client().await;
    let locker = lock(&place);
    let mut reading = Box::pin(read_everything(&client));
    let early = tokio::time::timeout(Duration::from_millis(300), &mut reading).await;
    assert!(early.is_err(), "{early:?}");
    drop(locker);
    for answer in reading.await {
        assert_eq!(answer["error"], Value::Null, "{answer}");
    }
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_an_answer() {
    let place = BridgeFixture::new();
    fs::write(
        place.home.path().join("state.db"),
        "this is no database at all, whatever its name",
    )
    .unwrap();
    let client = place.client().await;
    for answer in Box::pin(read_everything(&client)).await {
        assert_eq!(answer["error"], "Session database unavailable", "{answer}");
        let reason = answer["reason"].as_str().unwrap();
        assert!(reason.contains("damaged or not a database"), "{reason}");
    }
    let sent = client
        .call_document("messages_send", json!({"target": "", "message": "x"}))
        .await;
    assert_eq!(
        sent,
        json!({"error": "Both target and message are required"})
    );
}

#[tokio::test]
async fn a_log_that_is_deleted_meanwhile_does_no_harm() {
    let (place, store) = with_chat().await;
    let client = place.client().await;
    store.append(&id(SESSION), &user("before")).await.unwrap();
    let before = client.call_document("events_wait", json!({})).await;
    fs::remove_file(place.home.path().join("runtime.db")).unwrap();
    assert_eq!(
        client
            .call_document("permissions_list_open", json!({}))
            .await,
        json!({"count": 0, "approvals": []})
    );
    let gone = json!({"id": "ap_1", "decision": "deny"});
    assert_eq!(
        client.call_document("permissions_respond", gone).await,
        json!({"error": "Approval not found: ap_1"})
    );
    store.append(&id(SESSION), &user("after")).await.unwrap();
    let cursor = &before["event"]["cursor"];
    let after = client
        .call_document("events_wait", json!({"after_cursor": cursor}))
        .await;
    assert_eq!(after["event"]["content"], "after", "{after}");
}
