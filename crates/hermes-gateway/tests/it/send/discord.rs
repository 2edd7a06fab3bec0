//! Messages to Discord.

use hermes_gateway::send::MediaPolicy;
use hermes_testkit::platform::PlatformFault;
use serde_json::json;

use super::{SendFixture, TOKEN};

#[tokio::test]
async fn the_channel_is_looked_at_and_then_posted_to() {
    let place = SendFixture::discord();
    assert_eq!(
        place.send("discord:42", "**hi**").await,
        json!({"success": true, "platform": "discord", "chat_id": "42", "message_id": "101"})
    );
    assert_eq!(place.paths(), ["/channels/42", "/channels/42/messages"]);
    let request = &place.server.requests()[1];
    assert_eq!(request.body, json!({"content": "**hi**"}));
    assert_eq!(request.authorization, Some(format!("Bot {TOKEN}")));
}

#[tokio::test]
async fn a_thread_is_posted_to_by_its_own_id() {
    let place = SendFixture::discord();
    let sent = place.send("discord:42:43", "hi").await;
    assert_eq!(
        (&sent["chat_id"], &sent["thread_id"]),
        (&json!("42"), &json!("43"))
    );
    assert_eq!(place.paths(), ["/channels/43/messages"]);
}

#[tokio::test]
async fn in_a_forum_the_first_line_names_a_new_thread() {
    let place = SendFixture::discord();
    let title = "x".repeat(120);
    let text = format!("## {title}\n{}", "word ".repeat(500));
    let sent = place.send("discord:150", &text).await;
    let requests = place.server.requests();
    assert_eq!(requests[1].body["name"], "x".repeat(100));
    let first = requests[1].body["message"]["content"].as_str().unwrap();
    assert!(first.ends_with(" (1/2)"), "{first}");
    assert_eq!(
        place.paths(),
        [
            "/channels/150",
            "/channels/150/threads",
            "/channels/101/messages"
        ]
    );
    assert_eq!(sent["thread_id"], "101");
    assert_eq!(sent["message_id"], "102");
}

#[tokio::test]
async fn parts_are_within_the_limit_and_in_order() {
    let place = SendFixture::discord();
    let words: Vec<String> = (0..1000).map(|number| format!("{number:04}")).collect();
    let text = words.join(" ");
    place.send("discord:42", &text).await;
    let contents = place.fields("content");
    assert_eq!(contents.len(), 3);
    for (index, content) in contents.iter().enumerate() {
        let content = content.as_str().unwrap();
        assert!(content.chars().count() <= 2000);
        assert!(
            content.ends_with(&format!(" ({}/3)", index + 1)),
            "{content}"
        );
    }
    assert!(contents[0].as_str().unwrap().starts_with("0000 "));
}

#[tokio::test]
async fn what_a_model_wrote_notifies_people_but_no_role_and_not_everyone() {
    let place = SendFixture::discord();
    let text = "@everyone <@&7> <@5> the build is done";
    for target in ["discord:42", "discord:150"] {
        let sender = place.sender().without_broadcasts();
        sender
            .send(target, text, MediaPolicy::Upload)
            .await
            .unwrap();
    }
    let people = json!({"parse": ["users"]});
    let requests = place.server.requests();
    assert_eq!(requests[1].body["allowed_mentions"], people);
    assert_eq!(requests[3].body["message"]["allowed_mentions"], people);
    // A person who sends a message means whom it names.
    place.send("discord:42", text).await;
    let body = &place.server.requests()[5].body;
    assert_eq!(*body, json!({"content": text}));
}

#[tokio::test]
async fn a_refusal_is_in_discords_words() {
    let place = SendFixture::discord();
    let unknown = json!({"message": "Unknown Channel", "code": 10003});
    place
        .server
        .fail("/channels/42", PlatformFault::Status(404, unknown));
    assert_eq!(
        place.refused("discord:42", "hi").await,
        json!({"error": "Discord API error (404): Unknown Channel"})
    );
}

#[tokio::test]
async fn a_proxy_of_its_own_is_used_for_another_machine() {
    let mut place = SendFixture::discord();
    place
        .home
        .write_config("discord: {extra: {allow_http: true}}\n");
    place.set("DISCORD_BASE_URL", "http://discord.invalid/api/");
    let proxy = place.server.base_url();
    place.set("DISCORD_PROXY", &proxy);
    // The fake does not know this path, but it was asked for it.
    place.refused("discord:42", "hi").await;
    assert_eq!(place.paths(), ["/api/channels/42"]);
}
