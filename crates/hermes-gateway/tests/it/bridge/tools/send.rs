//! Sending messages, to fake platforms.

use std::fs;

use hermes_testkit::platform::{PlatformFault, PlatformServer};

use super::*;
use crate::bridge::errors::lock;

const TOKEN: &str = "123456:AAF-very-secret-token";

/// A platform with one chat, which has a conversation.
struct PlatformFixture {
    place: BridgeFixture,
    store: Store,
    server: PlatformServer,
    platform: &'static str,
    chat: &'static str,
    /// The method that posts a text.
    path: &'static str,
}

impl PlatformFixture {
    async fn new(
        platform: &'static str,
        server: PlatformServer,
        chat: &'static str,
        path: &'static str,
    ) -> Self {
        let place = BridgeFixture::new();
        let store = place.store().await;
        add_chat_on(&store, platform, SESSION, KEY, chat).await;
        Self {
            place,
            store,
            server,
            platform,
            chat,
            path,
        }
    }

    async fn telegram() -> Self {
        let server = PlatformServer::telegram(TOKEN);
        Self::new("telegram", server, "5", "sendMessage").await
    }

    async fn all() -> [Self; 3] {
        let (discord, slack) = (PlatformServer::discord(TOKEN), PlatformServer::slack(TOKEN));
        [
            Self::telegram().await,
            Self::new("discord", discord, "42", "messages").await,
            Self::new("slack", slack, "C12345678", "chat.postMessage").await,
        ]
    }

    fn target(&self) -> String {
        format!("{}:{}", self.platform, self.chat)
    }

    async fn client(&self) -> Client {
        self.client_with("", TOKEN, BridgeOptions::default()).await
    }

    async fn client_with(&self, config: &str, token: &str, options: BridgeOptions) -> Client {
        let platform = self.platform.to_uppercase();
        let variables = Variables::from_pairs([
            (format!("{platform}_BOT_TOKEN"), token.to_owned()),
            (format!("{platform}_BASE_URL"), self.server.base_url()),
        ]);
        Client::legacy(&self.place.bridge_with_variables(config, variables, options)).await
    }

    async fn send(&self, client: &Client, message: &str) -> Value {
        let arguments = json!({"target": self.target(), "message": message});
        client.call_document("messages_send", arguments).await
    }

    async fn refused(&self, client: &Client) -> String {
        let refused = self.send(client, "hi").await;
        let error = refused["error"].as_str();
        let error = error.unwrap_or_else(|| panic!("{refused}")).to_owned();
        assert!(!error.contains("very-secret"), "{error}");
        error
    }

    fn posts(&self) -> usize {
        let requests = self.server.requests();
        let posts = requests
            .iter()
            .filter(|asked| asked.path.contains(self.path));
        posts.count()
    }
}

#[tokio::test]
async fn a_message_that_was_sent_is_an_event_of_its_conversation() {
    for played in PlatformFixture::all().await {
        let client = played.client().await;
        let result = {
            let arguments = json!({"target": played.target(), "message": "on it"});
            client.call("messages_send", arguments).await
        };
        let text = only_text(&result);
        assert!(!text.contains('\n'), "{text}");
        let sent: Value = serde_json::from_str(text).unwrap();
        let id = &sent["message_id"];
        assert!(id.is_string(), "{sent}");
        assert_eq!(
            sent,
            json!({
                "success": true,
                "platform": played.platform,
                "chat_id": played.chat,
                "message_id": id,
                "mirrored": true,
            })
        );
        let event = client.call_document("events_wait", json!({})).await["event"].clone();
        assert_eq!(
            (&event["type"], &event["role"], &event["content"]),
            (&json!("message"), &json!("assistant"), &json!("on it"))
        );
        assert_eq!(event["session_key"], KEY);
        let read = client
            .call_document("messages_read", json!({"session_key": KEY}))
            .await;
        assert_eq!(read["messages"][0]["id"], event["message_id"]);
        played.store.close().await;
    }
}

#[tokio::test]
async fn a_long_message_goes_in_parts_and_is_one_event() {
    for played in PlatformFixture::all().await {
        let client = played.client().await;
        let long = "word ".repeat(20_000);
        let sent = played.send(&client, &long).await;
        assert_eq!(sent["success"], true, "{sent}");
        let posts = played.posts();
        assert!(posts > 1, "{}: {posts}", played.platform);
        let polled = client.poll_events(&json!({}), 1).await;
        assert_eq!(polled["events"].as_array().unwrap().len(), 1);

        played
            .server
            .fail_after(played.path, 1, PlatformFault::status(500));
        let refused = played.send(&client, &long).await;
        assert_eq!(refused["sent_chunks"], 1, "{refused}");
        assert!(refused["error"].is_string(), "{refused}");
        played.store.close().await;
    }
}

#[tokio::test]
async fn a_platform_that_refuses_is_an_answer() {
    for played in PlatformFixture::all().await {
        let wrong = "987:very-secret-and-wrong";
        let client = played
            .client_with("", wrong, BridgeOptions::default())
            .await;
        let error = played.refused(&client).await;
        assert!(error.contains("API error"), "{error}");
        let client = played.client().await;
        played.server.fail(played.path, PlatformFault::status(500));
        let error = played.refused(&client).await;
        assert!(error.contains("API error (500)"), "{error}");
        // A failed message is not an event.
        let polled = client.call_document("events_poll", json!({})).await;
        assert_eq!(polled["events"], json!([]));
        played.store.close().await;
    }
}

#[tokio::test]
async fn a_platform_that_asks_to_wait_gets_the_message_later() {
    for played in PlatformFixture::all().await {
        let client = played.client().await;
        played
            .server
            .fail(played.path, PlatformFault::LimitedByHeader(1));
        let sent = played.send(&client, "hi").await;
        assert_eq!(sent["success"], true, "{sent}");
        assert_eq!(played.posts(), 2, "{}", played.platform);
        played.store.close().await;
    }
}

#[tokio::test]
async fn a_platform_that_never_answers_holds_nobody_up_for_long() {
    for played in PlatformFixture::all().await {
        let options = BridgeOptions {
            platform_timeout: Some(Duration::from_secs(1)),
            ..BridgeOptions::default()
        };
        let client = played.client_with("", TOKEN, options).await;
        played.server.fail(played.path, PlatformFault::Silence);
        let (error, others) = tokio::join!(
            played.refused(&client),
            client.call_document("conversations_list", json!({}))
        );
        assert!(error.contains("did not answer within 1 s"), "{error}");
        assert_eq!(others["count"], 1);
        played.store.close().await;
    }
}

#[tokio::test]
async fn a_locked_database_keeps_no_message_from_being_sent() {
    let played = PlatformFixture::telegram().await;
    played.store.close().await;
    // Leaves a file that can be locked while others have it open.
    drop(lock(&played.place));
    let client = played.client().await;
    let locker = lock(&played.place);
    let sent = played.send(&client, "hi").await;
    assert_eq!(sent["success"], true, "{sent}");
    assert_eq!(sent["mirrored"], Value::Null, "{sent}");
    assert_eq!(played.posts(), 1);
    drop(locker);
    let sent = played.send(&client, "again").await;
    assert_eq!(sent["mirrored"], true, "{sent}");
}

#[tokio::test]
async fn files_are_sent_only_where_that_is_allowed() {
    let played = PlatformFixture::telegram().await;
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("plan.png");
    fs::write(&picture, [0, 159, 146, 150]).unwrap();
    let message = format!("The plan. MEDIA:{} [[as_document]]", picture.display());
    let client = played.client().await;
    let sent = played.send(&client, &message).await;
    assert_eq!(sent["success"], true, "{sent}");
    let requests = played.server.requests();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].files.is_empty());
    let read = client
        .call_document("messages_read", json!({"session_key": KEY}))
        .await;
    assert_eq!(read["messages"][0]["content"], message);

    let allowed = "bridge: {allow_media: true}\n";
    let client = played
        .client_with(allowed, TOKEN, BridgeOptions::default())
        .await;
    let sent = played.send(&client, &message).await;
    assert_eq!(sent["success"], true, "{sent}");
    let requests = played.server.requests();
    assert_eq!(requests[1].last_segment(), "sendDocument");
    assert_eq!(requests[1].files[0].content, [0, 159, 146, 150]);
    played.store.close().await;
}

#[tokio::test]
async fn what_cannot_be_sent_says_why() {
    let played = PlatformFixture::telegram().await;
    let client = played.client().await;
    for (target, message, error) in [
        ("", "hi", "Both target and message are required"),
        ("telegram:5", "", "Both target and message are required"),
        (
            "telegram:nobody",
            "hi",
            "Could not resolve 'nobody' on telegram. Use send_message(action='list') to see available targets.",
        ),
        ("fax", "hi", "Unknown platform: fax"),
        (
            "slack:C12345678",
            "hi",
            "Platform 'slack' is not configured. Set up credentials in ~/.hermes/config.yaml or environment variables.",
        ),
    ] {
        let arguments = json!({"target": target, "message": message});
        let refused = client.call_document("messages_send", arguments).await;
        assert_eq!(refused, json!({"error": error}), "{target}");
    }
    let no_home = client
        .call_document(
            "messages_send",
            json!({"target": "telegram", "message": "hi"}),
        )
        .await;
    let error = no_home["error"].as_str().unwrap();
    assert!(
        error.starts_with(
            "No home channel set for telegram to determine where to send the message."
        ),
        "{error}"
    );
    assert!(error.contains("TELEGRAM_HOME_CHANNEL"), "{error}");
    assert_eq!(played.server.requests().len(), 0);

    let home = "telegram: {home_channel: 5}\n";
    let client = played
        .client_with(home, TOKEN, BridgeOptions::default())
        .await;
    let sent = client
        .call_document(
            "messages_send",
            json!({"target": "telegram", "message": "hi"}),
        )
        .await;
    assert_eq!(sent["note"], "Sent to telegram home channel (chat_id: 5)");
    played.store.close().await;
}

#[tokio::test]
async fn channels_come_from_the_directory_or_else_from_conversations() {
    let played = PlatformFixture::telegram().await;
    let client = played.client().await;
    let channels = async |arguments| {
        let listed = client.call_document("channels_list", arguments).await;
        let channels = listed["channels"].as_array().unwrap().clone();
        assert_eq!(listed["count"], channels.len());
        channels
    };
    let ann =
        json!({"target": "telegram:5", "platform": "telegram", "name": "Ann", "chat_type": "dm"});
    assert_eq!(channels(json!({})).await, [ann]);
    assert_eq!(
        channels(json!({"platform": "discord"})).await,
        [json!(null); 0]
    );

    let directory = json!({"platforms": {
        "telegram": [
            {"id": "-1001", "name": "Family", "type": "group"},
            {"id": "55", "name": "Ada", "type": "dm"},
            {"name": "nowhere", "type": "dm"},
        ],
        "discord": [{"id": "42", "name": "general", "type": "channel", "guild": "Team"}],
    }});
    let home = played.place.home.path();
    fs::write(home.join("channel_directory.json"), directory.to_string()).unwrap();
    let targets: Vec<_> = channels(json!({}))
        .await
        .iter()
        .map(|channel| channel["target"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        targets,
        ["telegram:-1001", "telegram:55", "telegram", "discord:42"]
    );
    assert_eq!(
        channels(json!({"platform": "DISCORD"})).await,
        [
            json!({"target": "discord:42", "platform": "discord", "name": "general", "chat_type": "channel"})
        ]
    );

    let aliases = json!({"telegram": {"55": "the countess"}});
    fs::write(home.join("channel_aliases.json"), aliases.to_string()).unwrap();
    let renamed = channels(json!({"platform": "telegram"})).await;
    assert_eq!(renamed[1]["name"], "the countess", "{renamed:?}");
    let sent = client
        .call_document(
            "messages_send",
            json!({"target": "telegram:The Countess", "message": "hi"}),
        )
        .await;
    assert_eq!(sent["chat_id"], "55", "{sent}");
    played.store.close().await;
}
