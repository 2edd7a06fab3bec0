//! Which chat is meant, and what is said when none is.

use hermes_config::{Home, Settings, Variables};
use hermes_gateway::{
    conversations::ConversationIndex,
    send::{MediaPolicy, MessageSender},
};
use serde_json::json;

use super::SendFixture;

const DIRECTORY: &str = r#"{"updated_at": null, "platforms": {
    "telegram": [
        {"id": "-1001", "name": "Family", "type": "group"},
        {"id": "-1002:7", "name": "Work / deploys", "type": "forum"},
        {"id": "55", "name": "Ada", "type": "dm"},
        {"id": "56", "name": "Ada Lovelace", "type": "dm"}],
    "discord": [{"id": "42", "name": "general", "type": "channel", "guild": "Team"}],
    "whatsapp": [{"id": "1", "name": "x", "type": "dm"}]}}"#;

#[tokio::test]
async fn what_is_wrong_is_said_in_the_order_of_what_is_looked_at() {
    let mut place = SendFixture::telegram();
    for (target, error) in [
        (
            "telegram:nobody",
            "Could not resolve 'nobody' on telegram. Use send_message(action='list') to see available targets.",
        ),
        (
            "fax:nobody",
            "Could not resolve 'nobody' on fax. Use send_message(action='list') to see available targets.",
        ),
        // A number is an id, whatever the platform.
        ("fax:12345", "Unknown platform: fax"),
        (" FAX ", "Unknown platform: fax"),
        ("", "Unknown platform: "),
        (
            "discord:42",
            "Platform 'discord' is not configured. Set up credentials in ~/.hermes/config.yaml or environment variables.",
        ),
        (
            "signal",
            "Platform 'signal' is not configured. Set up credentials in ~/.hermes/config.yaml or environment variables.",
        ),
        (
            "telegram",
            "No home channel set for telegram to determine where to send the message. Name a chat as 'telegram:CHAT', or set TELEGRAM_HOME_CHANNEL to the one to use.",
        ),
    ] {
        assert_eq!(
            place.refused(target, "hi").await,
            json!({"error": error}),
            "{target}"
        );
    }
    place.set("TELEGRAM_HOME_CHANNEL", "5");
    let error = place.refused("telegram:nobody", "hi").await["error"].clone();
    assert!(
        error.as_str().unwrap().starts_with("Could not resolve"),
        "{error}"
    );
    place.home.write("channel_directory.json", DIRECTORY);
    let error = place.refused("whatsapp:x", "hi").await["error"].clone();
    assert!(
        error.as_str().unwrap().contains("not configured"),
        "{error}"
    );
    assert_eq!(place.paths(), [""; 0]);
}

#[tokio::test]
async fn names_of_the_directory_lead_to_their_chats() {
    let place = SendFixture::telegram();
    place.home.write("channel_directory.json", DIRECTORY);
    place.home.write(
        "channel_aliases.json",
        r#"{"telegram": {"-1001": "home sweet home", "77": "Bea"}}"#,
    );
    for (target, chat_id, thread) in [
        ("telegram:Home Sweet Home", -1001, None),
        ("Telegram : bea", 77, None),
        ("telegram:ada", 55, None),
        ("telegram:Ada Lovelace (dm)", 56, None),
        ("telegram:work", -1002, Some(7)),
        ("telegram:-1002:7", -1002, Some(7)),
    ] {
        place.send(target, "hi").await;
        let last = place.server.requests().pop().unwrap();
        assert_eq!(last.body["chat_id"], chat_id, "{target}");
        assert_eq!(last.body["message_thread_id"], json!(thread), "{target}");
    }
    // The alias has taken the place of the old name, and `A` fits two.
    for target in ["telegram:Family", "telegram:A"] {
        let error = place.refused(target, "hi").await["error"].clone();
        assert!(
            error.as_str().unwrap().starts_with("Could not resolve"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn the_users_own_names_need_no_directory() {
    let place = SendFixture::telegram();
    let aliases = r#"{"telegram": {"77": "Bea"}}"#;
    place.home.write("channel_aliases.json", aliases);
    place.send("telegram:bea", "hi").await;
    let last = place.server.requests().pop().unwrap();
    assert_eq!(last.body["chat_id"], 77);
}

#[tokio::test]
async fn without_a_chat_the_home_channel_is_meant_and_named() {
    let mut place = SendFixture::telegram();
    place.set("TELEGRAM_HOME_CHANNEL", "-100");
    place.set("TELEGRAM_HOME_CHANNEL_THREAD_ID", "9");
    assert_eq!(
        place.send("telegram:", "hi").await,
        json!({
            "success": true,
            "platform": "telegram",
            "chat_id": "-100",
            "message_id": "101",
            "thread_id": "9",
            "note": "Sent to telegram home channel (chat_id: -100)",
        })
    );
}

#[tokio::test]
async fn plain_http_is_for_this_machine_only() {
    let mut place = SendFixture::telegram();
    place.set("TELEGRAM_BASE_URL", "http://api.example.com/bot");
    let error = place.refused("telegram:5", "hi").await["error"].clone();
    assert!(error.as_str().unwrap().contains("plain http"), "{error}");
    place.set("TELEGRAM_BASE_URL", "not an address");
    let error = place.refused("telegram:5", "hi").await["error"].clone();
    assert!(error.as_str().unwrap().contains("not a URL"), "{error}");
}

#[tokio::test]
async fn known_chats_come_from_the_directory() {
    let place = SendFixture::telegram();
    place.home.write("channel_directory.json", DIRECTORY);
    let sender = place.sender();
    let conversations = ConversationIndex::open(&Home::at(place.home.path()));
    let targets = sender.list_targets(&conversations, None).await.unwrap();
    assert_eq!(targets.len(), 6);
    assert_eq!(
        json!(targets[1]),
        json!({
            "target": "telegram:-1002:7",
            "platform": "telegram",
            "name": "Work / deploys",
            "chat_type": "forum",
        })
    );
    let discord = sender
        .list_targets(&conversations, Some("Discord"))
        .await
        .unwrap();
    assert_eq!(discord.len(), 1);
    place
        .home
        .write("channel_directory.json", r#"{"platforms": {}}"#);
    assert_eq!(sender.list_targets(&conversations, None).await.unwrap(), []);
}

#[tokio::test]
async fn without_a_directory_they_come_from_conversations() {
    let place = SendFixture::telegram();
    let sender = place.sender();
    let conversations = ConversationIndex::open(&Home::at(place.home.path()));
    assert_eq!(sender.list_targets(&conversations, None).await.unwrap(), []);
    assert!(!place.home.path().join("state.db").exists());
    super::mirror::add_session(&place, "a", "telegram", "5", None, Some("u1")).await;
    super::mirror::add_session(&place, "b", "telegram", "5", Some("7"), Some("u1")).await;
    super::mirror::add_session(&place, "c", "slack", "C12345678", None, None).await;
    let targets = sender.list_targets(&conversations, None).await.unwrap();
    let shown: Vec<_> = targets
        .iter()
        .map(|target| (target.target.as_str(), target.name.as_str()))
        .collect();
    // The last used first.
    assert_eq!(
        shown,
        [("slack:C12345678", "c chat"), ("telegram:5", "b chat")]
    );
    let slack = sender
        .list_targets(&conversations, Some("SLACK"))
        .await
        .unwrap();
    assert_eq!(slack[0].chat_type, "group");
}

#[tokio::test]
async fn a_sender_can_be_shared_between_tasks() {
    fn is_shared<T: Send + Sync + Clone>(_: &T) {}
    fn is_sent<T: Send>(future: T) -> T {
        future
    }
    let place = SendFixture::telegram();
    let sender = place.sender();
    is_shared(&sender);
    let sent = is_sent(sender.send("telegram:5", "hi", MediaPolicy::Literal)).await;
    assert_eq!(sent.unwrap().message_id, "101");
    let settings = Settings::parse("", Variables::default()).unwrap();
    let other = MessageSender::new(&place.home(), &settings);
    assert!(
        other
            .send("telegram:5", "hi", MediaPolicy::Literal)
            .await
            .is_err()
    );
}
