//! What the real API refuses, and the order of things.

use std::time::Duration;

use hermes_testkit::{eventually, platform::TelegramFile};
use serde_json::{Value, json};

use super::{ANN, BOB, FORUM, GROUP, TOKEN, call, telegram};

async fn description(server: &super::TelegramServer, method: &str, parameters: Value) -> String {
    let reply = call(server, method, parameters).await;
    assert_eq!(reply["ok"], false, "{reply}");
    reply["description"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn updates_stay_until_an_offset_confirms_them() {
    let server = telegram();
    server.say(ANN, "one");
    server.say(ANN, "two");
    let first = call(&server, "getUpdates", json!({})).await;
    let again = call(&server, "getUpdates", json!({"limit": 1})).await;
    assert_eq!(first["result"].as_array().unwrap().len(), 2);
    assert_eq!(again["result"][0], first["result"][0]);
    let offset = first["result"][1]["update_id"].as_i64().unwrap();
    let rest = call(&server, "getUpdates", json!({"offset": offset})).await;
    assert_eq!(rest["result"].as_array().unwrap().len(), 1);
    let none = call(&server, "getUpdates", json!({"offset": offset + 1})).await;
    assert_eq!(none["result"], json!([]));
    assert_eq!(server.waiting_updates(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_poll_ends_with_an_update_and_another_poll_ends_it() {
    let server = telegram();
    let write = async {
        assert!(eventually(Duration::from_secs(5), || server.polls() == 1).await);
        server.say(ANN, "hi");
    };
    let (reply, ()) = tokio::join!(call(&server, "getUpdates", json!({"timeout": 30})), write);
    let offset = reply["result"][0]["update_id"].as_i64().unwrap() + 1;
    let second = async {
        assert!(eventually(Duration::from_secs(5), || server.polls() == 2).await);
        call(&server, "getUpdates", json!({"timeout": 0})).await
    };
    let first = json!({"timeout": 30, "offset": offset});
    let (first, second) = tokio::join!(call(&server, "getUpdates", first), second);
    assert_eq!(first["error_code"], 409, "{first}");
    assert_eq!(second["ok"], true);
}

#[tokio::test]
async fn only_wanted_updates_are_kept() {
    let server = telegram();
    call(
        &server,
        "getUpdates",
        json!({"allowed_updates": ["callback_query"]}),
    )
    .await;
    server.say(ANN, "hi");
    assert_eq!(server.waiting_updates(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_webhook_excludes_polls_and_wants_https() {
    let server = telegram();
    let plain = json!({"url": "http://bot.example/hook"});
    assert!(
        description(&server, "setWebhook", plain)
            .await
            .contains("HTTPS")
    );
    let hook = json!({"url": "https://bot.example/hook", "secret_token": "s3cret"});
    assert_eq!(call(&server, "setWebhook", hook).await["ok"], true);
    let refused = description(&server, "getUpdates", json!({})).await;
    assert!(refused.contains("webhook is active"), "{refused}");
    call(&server, "deleteWebhook", json!({})).await;
    assert_eq!(call(&server, "getUpdates", json!({})).await["ok"], true);
}

#[tokio::test]
async fn texts_and_buttons_are_checked() {
    let server = telegram();
    server.say(ANN, "hi");
    let text = |text: &str| json!({"chat_id": ANN, "text": text});
    let cases = [
        (text(" "), "message text is empty"),
        (text(&"😀".repeat(2049)), "message is too long"),
        (
            json!({"chat_id": ANN, "text": "a.b", "parse_mode": "MarkdownV2"}),
            "can't parse entities",
        ),
        (
            json!({"chat_id": ANN, "text": "<b>a", "parse_mode": "HTML"}),
            "can't parse entities",
        ),
        (
            json!({"chat_id": ANN, "text": "a", "reply_markup": {"inline_keyboard": [[
                {"text": "x", "callback_data": "y".repeat(65)}]]}}),
            "BUTTON_DATA_INVALID",
        ),
        (
            json!({"chat_id": ANN, "text": "a", "entities": [{"type": "bold", "offset": 0, "length": 2}]}),
            "ENTITY_BOUNDS_INVALID",
        ),
        (
            json!({"chat_id": ANN, "text": "a", "reply_parameters": {"message_id": 4}}),
            "message to be replied not found",
        ),
        (json!({"text": "a"}), "chat_id is empty"),
    ];
    for (parameters, reason) in cases {
        let said = description(&server, "sendMessage", parameters).await;
        assert!(said.contains(reason), "{said}");
    }
    assert_eq!(server.answers(ANN), Vec::<String>::new());
}

#[tokio::test]
async fn topics_exist_or_are_not_found() {
    let server = telegram();
    let topic = server.add_topic(FORUM, "Deploys");
    let post = |topic: i64| json!({"chat_id": FORUM, "text": "x", "message_thread_id": topic});
    let sent = call(&server, "sendMessage", post(topic)).await;
    assert_eq!(sent["result"]["is_topic_message"], true);
    server.delete_topic(FORUM, topic);
    for gone in [topic, 1] {
        let said = description(&server, "sendMessage", post(gone)).await;
        assert_eq!(said, "Bad Request: message thread not found");
    }
}

#[tokio::test]
async fn drafts_are_for_private_chats_and_end_with_the_message() {
    let server = telegram();
    server.say(ANN, "hi");
    let draft = |chat: i64, id: i64| json!({"chat_id": chat, "draft_id": id, "text": "Hal"});
    description(&server, "sendMessageDraft", draft(GROUP, 1)).await;
    description(&server, "sendMessageDraft", draft(ANN, 0)).await;
    assert_eq!(
        call(&server, "sendMessageDraft", draft(ANN, 1)).await["ok"],
        true
    );
    assert_eq!(server.drafts(ANN)[0].text, "Hal");
    server.set_draft_lifetime(Duration::ZERO);
    assert_eq!(server.drafts(ANN), []);
    server.set_draft_lifetime(Duration::from_secs(30));
    call(
        &server,
        "sendMessage",
        json!({"chat_id": ANN, "text": "Hallo"}),
    )
    .await;
    assert_eq!(server.drafts(ANN), []);
    assert_eq!(server.answers(ANN), ["Hallo"]);
}

#[tokio::test]
async fn privacy_mode_hides_what_is_not_meant_for_the_bot() {
    let server = telegram();
    server.set_privacy_mode(true);
    server.message(GROUP, ANN).text("just talking").send();
    assert_eq!(server.waiting_updates(), Vec::<Value>::new());
    server
        .message(GROUP, ANN)
        .text("@hermes_test_bot hi")
        .send();
    server.message(GROUP, BOB).text("/stop").send();
    assert_eq!(server.waiting_updates().len(), 2);
}

#[tokio::test]
async fn files_are_given_out_up_to_a_size() {
    let server = telegram();
    let big = server
        .message(ANN, ANN)
        .file(TelegramFile::Document, "big.zip", b"x");
    big.claimed_size(200 << 20).send();
    let updates = call(&server, "getUpdates", json!({})).await;
    let id = &updates["result"][0]["message"]["document"]["file_id"];
    let said = description(&server, "getFile", json!({"file_id": id})).await;
    assert_eq!(said, "Bad Request: file is too big");
    let url = format!("{}{TOKEN}/nowhere", server.file_url());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    assert_eq!(client.get(url).send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn it_can_be_gone_for_a_while() {
    let mut server = telegram();
    server.say(ANN, "before");
    server.go_offline();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{}/bot{TOKEN}/getMe", server.base_url());
    assert!(client.get(&url).send().await.unwrap_err().is_connect());
    server.come_back();
    let updates = call(&server, "getUpdates", json!({})).await;
    assert_eq!(updates["result"][0]["message"]["text"], "before");
}
