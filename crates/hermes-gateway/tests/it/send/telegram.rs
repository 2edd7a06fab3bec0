//! Messages to Telegram.

use hermes_testkit::platform::PlatformFault;
use serde_json::json;

use super::SendFixture;

#[tokio::test]
async fn a_message_is_sent_with_its_markup() {
    let place = SendFixture::telegram();
    assert_eq!(
        place
            .send("telegram:5", "**Done.** See [log](https://x.y)")
            .await,
        json!({"success": true, "platform": "telegram", "chat_id": "5", "message_id": "101"})
    );
    let request = &place.server.requests()[0];
    assert_eq!(
        request.body,
        json!({
            "chat_id": 5,
            "text": r"*Done\.* See [log](https://x.y)",
            "parse_mode": "MarkdownV2",
        })
    );
}

#[tokio::test]
async fn bot_in_the_address_is_not_doubled() {
    let mut place = SendFixture::telegram();
    for ending in ["", "/", "/bot"] {
        let address = format!("{}{ending}", place.server.base_url());
        place.set("TELEGRAM_BASE_URL", &address);
        place.send("telegram:5", "hi").await;
    }
    assert_eq!(place.paths(), ["/bot…/sendMessage"; 3]);
}

#[tokio::test]
async fn topics_are_named_and_the_general_one_is_not() {
    let place = SendFixture::telegram();
    let sent = place.send("telegram:-100:7", "hi").await;
    assert_eq!(sent["thread_id"], "7");
    place.send("telegram:-100:1", "hi").await;
    let requests = place.server.requests();
    assert_eq!(requests[0].body["message_thread_id"], 7);
    assert_eq!(requests[1].body["message_thread_id"], json!(null));
}

#[tokio::test]
async fn a_topic_that_is_gone_is_left_out_and_that_is_said() {
    let place = SendFixture::telegram();
    let gone = json!({"ok": false, "description": "Bad Request: message thread not found"});
    place
        .server
        .fail("sendMessage", PlatformFault::Status(400, gone));
    let sent = place.send("telegram:-100:7", "hi").await;
    assert_eq!(sent["thread_id"], json!(null));
    assert!(
        sent["warnings"][0].as_str().unwrap().contains("topic 7"),
        "{sent}"
    );
    assert_eq!(
        place.server.requests()[1].body["message_thread_id"],
        json!(null)
    );
}

#[tokio::test]
async fn a_chat_may_be_given_by_its_name() {
    let place = SendFixture::telegram();
    let sent = place.send("telegram:@some_channel", "hi").await;
    assert_eq!(sent["chat_id"], "@some_channel");
    assert_eq!(place.fields("chat_id"), ["@some_channel"]);
}

#[tokio::test]
async fn what_cannot_be_parsed_is_sent_plain() {
    let place = SendFixture::telegram();
    let wrong = json!({"ok": false, "description": "Bad Request: can't parse entities: oops"});
    place
        .server
        .fail("sendMessage", PlatformFault::Status(400, wrong));
    place.send("telegram:5", "**bold**.").await;
    let requests = place.server.requests();
    assert_eq!(requests[1].body, json!({"chat_id": 5, "text": "**bold**."}));
}

#[tokio::test]
async fn a_long_message_arrives_in_parts_and_in_order() {
    let place = SendFixture::telegram();
    let line = "A line. With (signs) that are escaped!\n";
    let text = format!(
        "{}```rust\n{}```\n",
        line.repeat(150),
        "let a = b;\n".repeat(400)
    );
    let sent = place.send("telegram:5", &text).await;
    let texts = place.fields("text");
    assert!(texts.len() > 2);
    assert_eq!(sent["message_id"], (100 + texts.len()).to_string());
    for (index, text) in texts.iter().enumerate() {
        let text = text.as_str().unwrap();
        assert!(text.encode_utf16().count() <= 4096);
        let number = format!(r" \({}/{}\)", index + 1, texts.len());
        assert!(text.ends_with(&number), "{text}");
    }
    let last = texts.last().unwrap().as_str().unwrap();
    assert!(last.starts_with("```rust\nlet a = b;"), "{last}");
}

#[tokio::test]
async fn the_first_error_stops_and_says_how_much_went_out() {
    let place = SendFixture::telegram();
    let blocked = json!({"ok": false, "description": "Forbidden: bot was blocked by the user"});
    let fault = PlatformFault::Status(403, blocked);
    place.server.fail_after("sendMessage", 2, fault);
    let text = "word ".repeat(4000);
    assert_eq!(
        place.refused("telegram:5", &text).await,
        json!({
            "error": "Telegram API error (403): Forbidden: bot was blocked by the user",
            "sent_chunks": 2,
        })
    );
    let texts = place.fields("text");
    assert_eq!(texts.len(), 3);
    assert!(
        texts[2].as_str().unwrap().ends_with(r" \(3/5\)"),
        "{texts:?}"
    );
}

#[tokio::test]
async fn a_token_of_the_wrong_form_is_hinted_at() {
    let place = SendFixture::telegram();
    let unknown = json!({"ok": false, "error_code": 404, "description": "Not Found"});
    place
        .server
        .fail("sendMessage", PlatformFault::Status(404, unknown));
    let error = place.try_send("telegram:5", "hi").await.unwrap_err();
    assert_eq!(error.hint().unwrap(), "check `TELEGRAM_BOT_TOKEN`");
}
