//! What is sent, read by the types of a library that others wrote.

use frankenstein::{
    response::{ErrorResponse, MethodResponse},
    types::{BotCommand, ChatFullInfo, File, Message, User},
    updates::{Update, UpdateContent, WebhookInfo},
};
use hermes_testkit::platform::TelegramFile;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{ANN, BOB, FORUM, GROUP, TelegramServer, call, telegram};

fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value:#}"))
}

async fn result<T: DeserializeOwned>(
    server: &TelegramServer,
    method: &str,
    parameters: Value,
) -> T {
    let reply = call(server, method, parameters).await;
    read::<MethodResponse<T>>(&reply).result
}

#[tokio::test]
async fn every_kind_of_update_can_be_read() {
    let server = telegram();
    let first = server.say(ANN, "hi @hermes_test_bot /now https://x.y");
    server.message(ANN, ANN).text("and").reply_to(first).send();
    let topic = server.add_topic(FORUM, "Deploys");
    server.message(FORUM, BOB).topic(topic).text("go").send();
    server.add_channel(-900, "News");
    server.message(-900, ANN).text("news").send();
    for kind in [
        TelegramFile::Photo,
        TelegramFile::Video,
        TelegramFile::Audio,
        TelegramFile::Voice,
        TelegramFile::Document,
        TelegramFile::Animation,
    ] {
        let message = server.message(ANN, ANN).file(kind, "a.bin", b"x");
        message.text("look").album("1").forwarded_from("Eve").send();
    }
    server.edit(ANN, first, "hello");
    server.set_blocked(BOB, true);
    server.migrate_group(GROUP);
    let button = json!({"inline_keyboard": [[{"text": "Go", "callback_data": "go"}]]});
    let sent = json!({"chat_id": ANN, "text": "Sure?", "reply_markup": button});
    let sent: Message = result(&server, "sendMessage", sent).await;
    server.press(ANN, ANN, i64::from(sent.message_id), "go");
    let draft = json!({"chat_id": ANN, "draft_id": 3, "text": "Hal", "can_stop": true});
    assert!(result::<bool>(&server, "sendMessageDraft", draft).await);
    assert!(server.press_stop(ANN));

    let updates: Vec<Update> = result(&server, "getUpdates", json!({})).await;
    let kinds: Vec<&str> = updates
        .iter()
        .map(|update| match &update.content {
            UpdateContent::Message(_) => "message",
            UpdateContent::EditedMessage(_) => "edited",
            UpdateContent::ChannelPost(_) => "post",
            UpdateContent::CallbackQuery(_) => "button",
            UpdateContent::MyChatMember(_) => "member",
            UpdateContent::StoppedMessageGeneration(stopped) => {
                assert_eq!(stopped.draft_id, 3);
                "stop"
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let mut expected = vec!["message", "message", "message", "post"];
    expected.extend(["message"; 6]);
    expected.extend(["edited", "member", "message", "message", "button", "stop"]);
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn every_reply_can_be_read() {
    let server = telegram();
    server.say(ANN, "hi");
    let me: User = result(&server, "getMe", json!({})).await;
    assert!(me.is_bot);
    let chat: ChatFullInfo = result(&server, "getChat", json!({"chat_id": ANN})).await;
    assert_eq!(chat.first_name.as_deref(), Some("Ann"));
    let info: WebhookInfo = result(&server, "getWebhookInfo", json!({})).await;
    assert_eq!((info.url.as_str(), info.pending_update_count), ("", 1));

    let rich = json!({"chat_id": ANN, "rich_message": {"markdown": "# a\n\nb\n\n```\nc\n```"}});
    let rich: Message = result(&server, "sendRichMessage", rich).await;
    assert_eq!(rich.rich_message.unwrap().blocks.len(), 3);

    let commands = json!({"commands": [{"command": "stop", "description": "Stops"}]});
    assert!(result::<bool>(&server, "setMyCommands", commands).await);
    let commands: Vec<BotCommand> = result(&server, "getMyCommands", json!({})).await;
    assert_eq!(commands[0].command, "stop");

    let photo = server
        .message(ANN, ANN)
        .file(TelegramFile::Photo, "a.jpg", b"pixels");
    let photo = photo.send();
    assert_eq!(server.file_content(ANN, photo).unwrap(), b"pixels");
    let updates: Vec<Update> = result(&server, "getUpdates", json!({"offset": -1})).await;
    let UpdateContent::Message(message) = &updates[0].content else {
        panic!("{updates:?}");
    };
    let largest = message.photo.as_ref().unwrap().last().unwrap();
    let file = json!({"file_id": largest.file_id});
    let file: File = result(&server, "getFile", file).await;
    assert_eq!(file.file_size, Some(6));
}

#[tokio::test]
async fn every_refusal_can_be_read() {
    let server = telegram();
    server.say(ANN, "hi");
    server.migrate_group(GROUP);
    let refusals = [
        ("sendMessage", json!({"chat_id": GROUP, "text": "x"}), 400),
        ("sendMessage", json!({"chat_id": BOB, "text": "x"}), 403),
        ("sendMessage", json!({"chat_id": 77, "text": "x"}), 400),
        ("noSuchMethod", json!({}), 404),
    ];
    for (method, parameters, status) in refusals {
        let reply = call(&server, method, parameters).await;
        let error: ErrorResponse = read(&reply);
        assert_eq!(error.error_code, status, "{reply}");
    }
    let reply = call(
        &server,
        "sendMessage",
        json!({"chat_id": GROUP, "text": "x"}),
    )
    .await;
    let error: ErrorResponse = read(&reply);
    assert!(error.parameters.unwrap().migrate_to_chat_id.is_some());
}
