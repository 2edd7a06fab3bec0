//! Conversations without a messaging platform, and whose conversations are shown.

use hermes_gateway::platforms::PlatformFilter;
use hermes_store::EndReason;

use super::*;

const AT_TERMINAL: &str = "20260101_010102_abcdef";
const OVER_API: &str = "20260101_010103_00c0ffee";

/// A chat, a conversation at the terminal that is over, one over the API, and what is none: a session that another one
/// continues, and one that worked for another.
async fn with_own_conversations() -> (BridgeFixture, Store) {
    let (place, store) = with_chat().await;
    let own = async |session: &str, source: &str, started_at: f64| {
        let mut new = NewSession::new(id(session), source);
        new.started_at = Some(started_at);
        store.create_session(&new).await.unwrap();
        store.append(&new.id, &user("hello")).await.unwrap();
        new.id
    };
    let terminal = own(AT_TERMINAL, "cli", 1.0).await;
    store.set_title(&terminal, "A plan").await.unwrap();
    let closed = store.end_session(&terminal, EndReason::CliClose);
    closed.await.unwrap();
    own(OVER_API, "api_server", 2.0).await;
    let continued = own("20260101_010104_aaaaaa", "cli", 3.0).await;
    let ended = store.end_session(&continued, EndReason::Compression);
    ended.await.unwrap();
    let mut worker = NewSession::new(id("20260101_010105_bbbbbb"), "cli");
    worker.model_config = Some(json!({"_delegate_from": AT_TERMINAL}));
    store.create_session(&worker).await.unwrap();
    (place, store)
}

fn showing(names: &[&str]) -> BridgeOptions {
    BridgeOptions {
        platforms: PlatformFilter::from_names(names).unwrap(),
        ..BridgeOptions::default()
    }
}

fn keys(list: &Value) -> Vec<&str> {
    let conversations = list["conversations"].as_array().unwrap().iter();
    let mut keys: Vec<&str> = conversations
        .map(|entry| entry["session_key"].as_str().unwrap())
        .collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn conversations_of_the_terminal_and_the_api_are_shown_where_that_is_asked_for() {
    let (place, store) = with_own_conversations().await;
    let client = place.client().await;
    let list = client.call_document("conversations_list", json!({})).await;
    assert_eq!(keys(&list), [KEY]);
    assert_eq!(list.get("hint"), None);

    let (terminal, api) = (format!("cli:{AT_TERMINAL}"), format!("api:{OVER_API}"));
    let client = Client::legacy(&place.bridge(showing(&["all"]))).await;
    let list = client.call_document("conversations_list", json!({})).await;
    assert_eq!(keys(&list), [KEY, &api, &terminal]);
    let client = Client::legacy(&place.bridge(showing(&["cli", "api"]))).await;
    let list = client.call_document("conversations_list", json!({})).await;
    assert_eq!(keys(&list), [&*api, &terminal]);

    let found = client
        .call_document("conversations_list", json!({"platform": "cli"}))
        .await;
    let row = &found["conversations"][0];
    assert_eq!(row["session_id"], AT_TERMINAL);
    assert_eq!(
        (&row["platform"], &row["display_name"]),
        (&json!("cli"), &json!("A plan"))
    );
    let one = client
        .call_document("conversation_get", json!({"session_key": api}))
        .await;
    assert_eq!(
        (&one["platform"], &one["session_id"]),
        (&json!("api"), &json!(OVER_API))
    );
    let read = client
        .call_document("messages_read", json!({"session_key": terminal}))
        .await;
    assert_eq!(read["messages"][0]["content"], "hello");
    // Nothing can be sent there, so they are not channels either.
    let channels = client.call_document("channels_list", json!({})).await;
    assert_eq!(channels["count"], 0);
    store.close().await;
}

#[tokio::test]
async fn sending_to_a_conversation_without_a_platform_is_refused_with_the_reason() {
    let (place, _store) = with_own_conversations().await;
    let client = Client::legacy(&place.bridge(showing(&["all"]))).await;
    for (target, reason) in [
        (format!("cli:{AT_TERMINAL}"), "they belong to the terminal"),
        ("api".to_owned(), "over the HTTP API"),
        ("cron:x".to_owned(), "runs of jobs"),
    ] {
        let sent = client
            .call_document("messages_send", json!({"target": target, "message": "x"}))
            .await;
        let error = sent["error"].as_str().unwrap();
        assert!(error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn a_client_that_finds_nothing_is_told_why_and_how_to_see_more() {
    let place = BridgeFixture::new();
    let client = place.client().await;
    let list = client.call_document("conversations_list", json!({})).await;
    assert_eq!(list["count"], 0);
    let hint = list["hint"].as_str().unwrap();
    assert!(hint.contains("--platforms all"), "{hint}");
    assert!(hint.contains("bridge.platforms"), "{hint}");
    let client = Client::legacy(&place.bridge(showing(&["all"]))).await;
    let list = client.call_document("conversations_list", json!({})).await;
    assert_eq!(list["hint"], "This home has no conversations yet.");

    let (place, _store) = with_own_conversations().await;
    let client = place.client().await;
    let list = client.call_document("conversations_list", json!({"search": "nobody"}));
    let list = list.await;
    let hint = list["hint"].as_str().unwrap();
    assert!(hint.starts_with("None of the 1 conversations"), "{hint}");
}

#[tokio::test]
async fn what_is_said_at_the_terminal_is_an_event_for_those_who_see_it() {
    let (place, store) = with_own_conversations().await;
    let all = Client::legacy(&place.bridge(showing(&["all"]))).await;
    let usual = place.client().await;
    let begun = all.call_document("events_poll", json!({})).await["next_cursor"].clone();
    assert_eq!(
        usual.call_document("events_poll", json!({})).await["next_cursor"],
        begun
    );
    store.append(&id(AT_TERMINAL), &user("one")).await.unwrap();
    store.append(&id(SESSION), &user("two")).await.unwrap();
    let said = async |client: &Client, count| {
        let page = client.poll_events(&json!({}), count).await;
        let events = page["events"].as_array().unwrap().iter();
        let said = events.map(|event| {
            let text = |name: &str| event[name].as_str().unwrap().to_owned();
            (text("session_key"), text("content"))
        });
        said.collect::<Vec<_>>()
    };
    let chat = (KEY.to_owned(), "two".to_owned());
    let terminal = (format!("cli:{AT_TERMINAL}"), "one".to_owned());
    assert_eq!(said(&all, 2).await, [terminal, chat.clone()]);
    assert_eq!(said(&usual, 1).await, [chat]);
    let wait = usual
        .call_document("events_wait", json!({"timeout_ms": 0}))
        .await;
    assert_eq!(wait["event"]["content"], "two");
    store.close().await;
}
