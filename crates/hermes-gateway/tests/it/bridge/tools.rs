//! Tools for conversations, messages and attachments.

mod approvals;
mod events;
mod send;

use std::{fs, process::Command};

use hermes_gateway::bridge::ToolAccess;
use hermes_store::{Content, EndReason};

use super::*;

#[tokio::test]
async fn both_eras_get_ten_tools_and_the_same_answers() {
    let (place, store) = with_chat().await;
    store.append(&id(SESSION), &user("hello")).await.unwrap();
    let bridge = place.bridge(BridgeOptions::default());
    let mut answers = Vec::new();
    for (era, version) in [
        (
            ClientLifecycleMode::Initialize,
            ProtocolVersion::V_2025_11_25,
        ),
        (stateless(), ProtocolVersion::V_2026_07_28),
    ] {
        let client = Client::connect(&bridge, "test", era).await;
        let info = client.running.peer_info().unwrap();
        assert_eq!(info.protocol_version, version);
        assert_eq!(
            info.server_info.as_ref().map(|info| info.name.as_str()),
            Some("hermes")
        );
        assert_eq!(client.running.list_all_tools().await.unwrap().len(), 10);
        answers.push(
            client
                .call_document("messages_read", json!({"session_key": KEY}))
                .await,
        );
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0]["messages"][0]["content"], "hello");
}

#[tokio::test]
async fn a_read_only_bridge_has_no_tool_that_sends_or_decides() {
    let place = BridgeFixture::new();
    let options = BridgeOptions {
        access: ToolAccess::ReadOnly,
        ..BridgeOptions::default()
    };
    let client = Client::legacy(&place.bridge(options)).await;
    assert_eq!(client.running.list_all_tools().await.unwrap().len(), 8);
    let refused = client
        .call(
            "messages_send",
            json!({"target": "telegram", "message": "x"}),
        )
        .await;
    assert_eq!(refused.is_error, Some(true));
    assert_eq!(only_text(&refused), "Unknown tool: messages_send");
}

#[tokio::test]
async fn conversations_are_listed_newest_first_and_filtered() {
    let place = BridgeFixture::new();
    let store = place.store().await;
    for (session, key, chat) in [
        ("a", "k:one", "1"),
        ("b", "k:two", "2"),
        ("c", "k:three", "3"),
    ] {
        add_chat(&store, session, key, chat).await;
    }
    for (session, timestamp) in [
        ("a", 1_780_000_300.0),
        ("b", 1_780_000_100.0),
        ("c", 1_780_000_200.0),
    ] {
        let mut message = user("x");
        message.timestamp = Some(timestamp);
        store.append(&id(session), &message).await.unwrap();
    }
    let client = place.client().await;
    let keys = async |arguments: Value| -> Vec<String> {
        let listed = client.call_document("conversations_list", arguments).await;
        let listed = listed["conversations"].as_array().unwrap().clone();
        let key = |entry: &Value| entry["session_key"].as_str().unwrap().to_owned();
        listed.iter().map(key).collect()
    };
    assert_eq!(keys(json!({})).await, ["k:one", "k:three", "k:two"]);
    assert_eq!(keys(json!({"limit": 1})).await, ["k:one"]);
    assert_eq!(
        keys(json!({"limit": "2", "platform": "Telegram"})).await,
        ["k:one", "k:three"]
    );
    assert_eq!(keys(json!({"platform": "discord"})).await, [""; 0]);
    assert_eq!(keys(json!({"search": "K:T"})).await, ["k:three", "k:two"]);
    assert_eq!(
        keys(json!({"search": "ann", "limit": 10_000})).await.len(),
        3
    );

    let listed = client
        .call_document("conversations_list", json!({"limit": 1}))
        .await;
    assert_eq!(listed["count"], 1);
    let members: Vec<_> = listed["conversations"][0]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(
        members,
        [
            "session_key",
            "session_id",
            "platform",
            "chat_type",
            "display_name",
            "chat_name",
            "user_name",
            "updated_at",
        ]
    );
}

#[tokio::test]
async fn a_conversation_is_shown_with_all_it_has() {
    let (place, store) = with_chat().await;
    let client = place.client().await;
    let shown = client
        .call_document("conversation_get", json!({"session_key": KEY}))
        .await;
    let members: Vec<_> = shown.as_object().unwrap().keys().collect();
    assert_eq!(
        members,
        [
            "session_key",
            "session_id",
            "platform",
            "chat_type",
            "display_name",
            "user_name",
            "chat_name",
            "chat_id",
            "thread_id",
            "updated_at",
            "created_at",
            "input_tokens",
            "output_tokens",
            "total_tokens",
        ]
    );
    assert_eq!(shown["session_id"], SESSION);
    assert_eq!(shown["chat_id"], "1");
    assert_eq!(shown["thread_id"], Value::Null);
    let missing = client
        .call_document("conversation_get", json!({"session_key": "k"}))
        .await;
    assert_eq!(missing, json!({"error": "Conversation not found: k"}));
    store
        .end_session(&id(SESSION), EndReason::SessionReset)
        .await
        .unwrap();
    let ended = client
        .call_document("conversation_get", json!({"session_key": KEY}))
        .await;
    assert_eq!(
        ended,
        json!({"error": format!("Conversation not found: {KEY}")})
    );
}

#[tokio::test]
async fn the_last_messages_are_read_in_order_and_cut() {
    let (place, store) = with_chat().await;
    let long = "ä".repeat(3000);
    let parts = json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]);
    let messages = [
        user("first"),
        assistant(""),
        NewMessage::without_content(Role::Assistant),
        NewMessage::new(Role::Tool, "result"),
        assistant(&long),
        NewMessage::new(Role::User, Content::Parts(parts)),
    ];
    store.append_all(&id(SESSION), &messages).await.unwrap();
    let client = place.client().await;
    let read = client
        .call_document("messages_read", json!({"session_key": KEY, "limit": 2}))
        .await;
    assert_eq!(
        (&read["count"], &read["total_in_session"]),
        (&json!(2), &json!(3))
    );
    assert_eq!(read["session_key"], KEY);
    assert_eq!(read["messages"][0]["content"], "ä".repeat(2000));
    assert_eq!(read["messages"][1]["content"], "one\ntwo");
    assert_eq!(read["messages"][1]["role"], "user");
    assert!(read["messages"][1]["id"].is_string());
    assert!(read["messages"][1]["timestamp"].is_f64());
}

#[tokio::test]
async fn attachments_are_listed_and_large_ones_are_resources() {
    let (place, store) = with_chat().await;
    let image = format!("data:image/png;base64,{}", "AQID".repeat(100));
    let parts = json!([
        {"type": "text", "text": "look MEDIA:/tmp/a.ogg"},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "image_url", "image_url": {"url": image}},
    ]);
    let message = NewMessage::new(Role::User, Content::Parts(parts));
    let row = store
        .append(&id(SESSION), &message)
        .await
        .unwrap()
        .to_string();
    let bridge = place.bridge_with(
        "bridge:\n  max_inline_bytes: 100\n",
        BridgeOptions::default(),
    );
    let client = Client::legacy(&bridge).await;
    let ask = async |id: &str| {
        client
            .call_document(
                "attachments_fetch",
                json!({"session_key": KEY, "message_id": id}),
            )
            .await
    };
    let found = ask(&row).await;
    assert_eq!(
        (&found["message_id"], &found["count"]),
        (&json!(row), &json!(3))
    );
    let found = &found["attachments"];
    assert_eq!(found[0], json!({"type": "image", "url": "https://x/y.png"}));
    assert_eq!(found[1]["truncated"], true);
    assert_eq!(found[2], json!({"type": "media", "path": "/tmp/a.ogg"}));
    let uri = found[1]["resource"].as_str().unwrap();
    let read = rmcp::model::ReadResourceRequestParams::new(uri);
    let read = serde_json::to_value(client.running.read_resource(read).await.unwrap()).unwrap();
    assert_eq!(read["contents"][0]["mimeType"], "image/png");
    assert_eq!(read["contents"][0]["blob"], "AQID".repeat(100));
    for strange in [format!("0{row}"), "999".into(), "x".into()] {
        let error = json!({"error": format!("Message not found: {strange}")});
        assert_eq!(ask(&strange).await, error);
    }
}

#[tokio::test]
async fn what_was_summed_up_still_has_its_attachments_and_what_was_taken_back_has_not() {
    let (place, store) = with_chat().await;
    let session = id(SESSION);
    let message = NewMessage::new(Role::Tool, "MEDIA:/tmp/a.ogg");
    let summed_up = store.append(&session, &message).await.unwrap();
    assert!(
        store
            .lock_compaction(&session, "me", Duration::from_mins(1))
            .await
            .unwrap()
    );
    store
        .compact(&session, "me", summed_up, &[assistant("in short")])
        .await
        .unwrap();
    let message = user("MEDIA:/tmp/b.ogg");
    let taken_back = store.append(&session, &message).await.unwrap();
    let client = place.client().await;
    let attachments = async |message: String| {
        let arguments = json!({"session_key": KEY, "message_id": message});
        client.call_document("attachments_fetch", arguments).await
    };
    let found = attachments(taken_back.to_string()).await;
    assert_eq!(found["attachments"][0]["path"], "/tmp/b.ogg", "{found}");
    store.rewind_last_turn(&session).await.unwrap();
    assert_eq!(
        attachments(taken_back.to_string()).await,
        json!({"error": format!("Message not found: {taken_back}")})
    );
    let found = attachments(summed_up.to_string()).await;
    assert_eq!(
        found["attachments"],
        json!([{"type": "media", "path": "/tmp/a.ogg"}])
    );
    let read = client.call_document("messages_read", json!({"session_key": KEY}));
    let read = read.await;
    assert_eq!(read["total_in_session"], 1, "{read}");
    assert_eq!(read["messages"][0]["content"], "in short");
}

/// A database written by Python's SQLite with the documented schema is only read.
#[tokio::test]
async fn a_database_of_python_stays_as_it_is_byte_by_byte() {
    let place = BridgeFixture::new();
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../hermes-store/tests/it/reference.py"
    );
    let path = place.home.path().join("state.db");
    let made = Command::new("python3")
        .args([script, "create"])
        .arg(&path)
        .status()
        .unwrap();
    assert!(made.success());
    let before = fs::read(&path).unwrap();
    let bridge = place.bridge(BridgeOptions::default());
    let client = Client::legacy(&bridge).await;
    let listed = client.call_document("conversations_list", json!({})).await;
    let key = listed["conversations"][0]["session_key"]
        .as_str()
        .unwrap()
        .to_owned();
    let read = client
        .call_document("messages_read", json!({"session_key": key}))
        .await;
    assert!(read["count"].as_u64().unwrap() > 0, "{read}");
    let polled = client.call_document("events_poll", json!({})).await;
    assert_eq!(polled["events"], json!([]), "{polled}");
    bridge.close().await;
    assert_eq!(fs::read(&path).unwrap(), before);
}
