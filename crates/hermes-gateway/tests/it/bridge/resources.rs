//! Resources, prompts, and notifications.

use hermes_gateway::bridge::ChannelPush;
use rmcp::model::{
    GetPromptRequestParams, ReadResourceRequestParams, SubscribeRequestParams, SubscriptionFilter,
    UnsubscribeRequestParams,
};

use super::*;

const URI: &str = "hermes://conversations/agent:main:telegram:dm:1";

#[tokio::test]
async fn conversations_are_resources() {
    let (place, store) = with_chat().await;
    store.append(&id(SESSION), &user("hello")).await.unwrap();
    let client = place.client().await;
    let listed = client.running.list_all_resources().await.unwrap();
    let uris: Vec<_> = listed
        .iter()
        .map(|resource| resource.uri.as_str())
        .collect();
    assert_eq!(uris, ["hermes://conversations", URI]);
    assert_eq!(
        client
            .running
            .list_all_resource_templates()
            .await
            .unwrap()
            .len(),
        2
    );
    let read = async |uri: &str| {
        let read = client
            .running
            .read_resource(ReadResourceRequestParams::new(uri))
            .await;
        read.map(|read| serde_json::to_value(read).unwrap()["contents"][0].clone())
    };
    let list = read("hermes://conversations").await.unwrap();
    assert_eq!(list["mimeType"], "application/json");
    assert!(list["text"].as_str().unwrap().contains(KEY));
    let conversation = read(URI).await.unwrap();
    let conversation: Value = serde_json::from_str(conversation["text"].as_str().unwrap()).unwrap();
    assert_eq!(conversation["messages"][0]["content"], "hello");
    for strange in [
        "hermes://other",
        "hermes://conversations/none",
        "hermes://messages/a/1/attachments/0",
    ] {
        assert!(read(strange).await.is_err(), "{strange}");
    }
}

#[tokio::test]
async fn a_watched_conversation_is_told_of_when_something_is_said() {
    let (place, store) = with_chat().await;
    add_chat(&store, "other", "k:other", "2").await;
    let mut client = place.client().await;
    let watch =
        SubscribeRequestParams::new("hermes://conversations/agent%3Amain%3Atelegram%3Adm%3A1");
    #[allow(deprecated, reason = "the method of the older revisions")]
    client.running.subscribe(watch).await.unwrap();
    store
        .append(&id("other"), &user("elsewhere"))
        .await
        .unwrap();
    store.append(&id(SESSION), &user("here")).await.unwrap();
    let Notification::Updated(uri) = client.next().await else {
        panic!("something else was told");
    };
    assert_eq!(uri, URI);
    #[allow(deprecated, reason = "the method of the older revisions")]
    client
        .running
        .unsubscribe(UnsubscribeRequestParams::new(URI))
        .await
        .unwrap();
    store.append(&id(SESSION), &user("unheard")).await.unwrap();
    client
        .call_document("events_wait", json!({"timeout_ms": 0}))
        .await;
    assert!(client.notifications.try_recv().is_err());
    #[allow(deprecated, reason = "the method of the older revisions")]
    let strange = client.running.subscribe(SubscribeRequestParams::new(
        "hermes://messages/a/1/attachments/0",
    ));
    assert!(strange.await.is_err());
}

#[tokio::test]
async fn a_stateless_client_listens_to_conversations() {
    let (place, store) = with_chat().await;
    let client =
        Client::connect(&place.bridge(BridgeOptions::default()), "test", stateless()).await;
    let filter = SubscriptionFilter::builder()
        .resource_subscriptions(vec![URI.to_owned(), "hermes://other".to_owned()])
        .tools_list_changed()
        .build();
    let mut subscription = client.running.listen(filter).await.unwrap();
    let accepted = subscription.acknowledged().clone();
    assert_eq!(accepted.resource_subscriptions, Some(vec![URI.to_owned()]));
    assert_eq!(accepted.tools_list_changed, None);
    store.append(&id(SESSION), &user("hello")).await.unwrap();
    let told = tokio::time::timeout(TIMEOUT, subscription.next())
        .await
        .unwrap();
    assert!(format!("{told:?}").contains(URI), "{told:?}");
}

#[tokio::test]
async fn prompts_carry_the_conversation() {
    let (place, store) = with_chat().await;
    store
        .append(&id(SESSION), &user("shall we meet on Tuesday?"))
        .await
        .unwrap();
    let client = place.client().await;
    let prompts = client.running.list_all_prompts().await.unwrap();
    let names: Vec<_> = prompts.iter().map(|prompt| prompt.name.as_str()).collect();
    assert_eq!(
        names,
        ["summarize_conversation", "triage_inbox", "draft_reply"]
    );
    let get = async |name: &str, arguments: Value| {
        let arguments = arguments.as_object().unwrap().clone();
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        let got = client.running.get_prompt(params).await;
        got.map(|got| serde_json::to_string(&got.messages).unwrap())
    };
    let summary = get(
        "summarize_conversation",
        json!({"session_key": KEY, "limit": "5"}),
    )
    .await
    .unwrap();
    assert!(summary.contains("Tuesday"), "{summary}");
    let draft = get(
        "draft_reply",
        json!({"session_key": KEY, "intent": "say yes"}),
    )
    .await
    .unwrap();
    assert!(
        draft.contains("Tuesday") && draft.contains("say yes"),
        "{draft}"
    );
    assert!(
        get("triage_inbox", json!({"platform": "telegram"}))
            .await
            .unwrap()
            .contains(KEY)
    );
    for (name, arguments, named) in [
        ("draft_reply", json!({"session_key": KEY}), "intent"),
        ("summarize_conversation", json!({}), "session_key"),
        (
            "summarize_conversation",
            json!({"session_key": "k"}),
            "Conversation not found: k",
        ),
        (
            "summarize_conversation",
            json!({"session_key": KEY, "limit": "many"}),
            "limit",
        ),
        ("other", json!({}), "Unknown prompt: other"),
    ] {
        let error = get(name, arguments).await.unwrap_err().to_string();
        assert!(error.contains(named), "{name}: {error}");
    }
}

#[tokio::test]
async fn new_messages_are_pushed_to_claude_code() {
    let (place, store) = with_chat().await;
    let bridge = place.bridge(BridgeOptions::default());
    let mut client = Client::connect(&bridge, "claude-code", ClientLifecycleMode::Initialize).await;
    let info = client.running.peer_info().unwrap();
    let capabilities = serde_json::to_value(&info.capabilities).unwrap();
    assert_eq!(capabilities["experimental"], json!({"claude/channel": {}}));
    let long = "ä".repeat(600);
    let (pushed, rows) = first_pushed(&store, &mut client, &long).await;
    assert_eq!(pushed.method, "notifications/claude/channel");
    let params = pushed.params.unwrap();
    let row = params["meta"]["message_id"].as_str().unwrap();
    assert!(rows.iter().any(|known| known == row), "{row} of {rows:?}");
    assert_eq!(
        params,
        json!({"content": long, "meta": {
            "session_key": KEY, "platform": "telegram", "chat_id": "1", "user": "ann", "message_id": row,
        }})
    );
}

/// Writes messages of model and user until the client is notified, since messages before the channel
/// is open are not pushed. Returns the notification, and the user's rows.
async fn first_pushed(
    store: &Store,
    client: &mut Client,
    text: &str,
) -> (CustomNotification, Vec<String>) {
    let began = std::time::Instant::now();
    let mut rows = Vec::new();
    loop {
        let own = assistant("not a person's");
        store.append(&id(SESSION), &own).await.unwrap();
        let row = store.append(&id(SESSION), &user(text)).await.unwrap();
        rows.push(row.to_string());
        let told =
            tokio::time::timeout(Duration::from_millis(500), client.notifications.recv()).await;
        match told.map(Option::unwrap) {
            Ok(Notification::Custom(pushed)) => return (pushed, rows),
            Ok(_) => panic!("something else was told"),
            Err(_) => assert!(began.elapsed() < TIMEOUT, "nothing is pushed"),
        }
    }
}

#[tokio::test]
async fn a_client_that_comes_before_the_log_can_be_read_gets_its_messages_later() {
    let (place, store) = with_chat().await;
    let locker = hermes_testkit::DatabaseLock::acquire(&place.home.path().join("runtime.db"));
    let bridge = place.bridge(BridgeOptions::default());
    let mut client = Client::connect(&bridge, "claude-code", ClientLifecycleMode::Initialize).await;
    // Longer than the beginning of a connection waits for the log.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(4)).await;
    tokio::time::resume();
    drop(locker);
    let (pushed, _) = first_pushed(&store, &mut client, "hello").await;
    assert_eq!(pushed.params.unwrap()["content"], "hello");
}

#[tokio::test]
async fn others_get_nothing_pushed_unless_it_is_asked_for() {
    let (place, _store) = with_chat().await;
    for (push, name, expected) in [
        (ChannelPush::Auto, "cursor", false),
        (ChannelPush::Off, "claude-code", false),
        (ChannelPush::On, "cursor", true),
    ] {
        let options = BridgeOptions {
            push,
            ..BridgeOptions::default()
        };
        let client = Client::connect(
            &place.bridge(options),
            name,
            ClientLifecycleMode::Initialize,
        )
        .await;
        let info = client.running.peer_info().unwrap();
        assert_eq!(
            info.capabilities.experimental.is_some(),
            expected,
            "{push:?} {name}"
        );
    }
}
