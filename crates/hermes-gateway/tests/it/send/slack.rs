//! Messages to Slack.

use hermes_testkit::platform::PlatformFault;
use serde_json::json;

use super::{SendFixture, TOKEN};

#[tokio::test]
async fn a_message_is_posted_with_slacks_markup() {
    let place = SendFixture::slack();
    assert_eq!(
        place.send("slack:C12345678", "**a** & b").await,
        json!({
            "success": true,
            "platform": "slack",
            "chat_id": "C12345678",
            "message_id": "1700000000.000101",
        })
    );
    let request = &place.server.requests()[0];
    assert_eq!(
        request.body,
        json!({"channel": "C12345678", "text": "*a* &amp; b", "mrkdwn": true})
    );
    assert_eq!(request.authorization, Some(format!("Bearer {TOKEN}")));
}

#[tokio::test]
async fn a_thread_is_named_in_every_part() {
    let place = SendFixture::slack();
    let sent = place
        .send("slack:C12345678:17.5", &"word ".repeat(10_000))
        .await;
    assert_eq!(sent["thread_id"], "17.5");
    assert_eq!(place.fields("thread_ts"), ["17.5", "17.5"]);
}

#[tokio::test]
async fn a_person_is_written_to_in_their_conversation() {
    for person in ["U12345678", "W12345678"] {
        let place = SendFixture::slack();
        let sent = place.send(&format!("slack:{person}"), "hi").await;
        assert_eq!(sent["chat_id"], "D12345678", "{person}");
        assert_eq!(place.paths(), ["/conversations.open", "/chat.postMessage"]);
        assert_eq!(place.fields("channel"), ["D12345678"]);
    }
    let place = SendFixture::slack();
    place.server.fail(
        "conversations.open",
        PlatformFault::NotOk("missing_scope".into()),
    );
    assert_eq!(
        place.refused("slack:U12345678", "hi").await,
        json!({"error": "Slack API error: missing_scope"})
    );
}

#[tokio::test]
async fn a_refusal_is_in_slacks_word() {
    let mut place = SendFixture::slack();
    place.server.fail(
        "chat.postMessage",
        PlatformFault::NotOk("not_in_channel".into()),
    );
    assert_eq!(
        place.refused("slack:C12345678", "hi").await,
        json!({"error": "Slack API error: not_in_channel"})
    );
    place.set("SLACK_BOT_TOKEN", "xoxb-very-secret-and-wrong");
    let error = place.try_send("slack:C12345678", "hi").await.unwrap_err();
    assert_eq!(error.to_string(), "Slack API error: invalid_auth");
    assert_eq!(error.hint().unwrap(), "check `SLACK_BOT_TOKEN`");
}
