//! Updates by long poll.

use std::sync::Arc;

use hermes_gateway::platform::{ConnectionState, InboundKind};
use hermes_testkit::{
    eventually,
    platform::{PlatformFault, TelegramFile},
};
use serde_json::json;

use super::*;

#[tokio::test]
async fn messages_are_stored_before_they_are_confirmed() {
    let server = telegram();
    server.say(ANN, "before the start");
    let bot = ReceivingClient::start(client(&server));
    bot.wait_connected().await;
    server.say(ANN, "after it");
    bot.wait_updates(2).await;
    assert_eq!(bot.texts(), ["before the start", "after it"]);
    // The next poll confirms them.
    assert!(eventually(LIMIT, || server.waiting_updates().is_empty()).await);
    let last = bot.intake.updates()[1].event_id.parse::<i64>().unwrap();
    assert_eq!(bot.intake.last_cursor().unwrap()["offset"], last + 1);
    assert_eq!(server.calls("deleteWebhook"), 1);
    assert!(bot.health.last_ok_at().is_some());
    let health = Arc::clone(&bot.health);
    bot.end().await.unwrap();
    assert_eq!(health.state(), ConnectionState::Stopped);
}

#[tokio::test]
async fn what_cannot_be_stored_is_not_confirmed() {
    let server = telegram();
    let bot = ReceivingClient::start(client(&server));
    bot.wait_connected().await;
    bot.intake.fail(2);
    server.say(ANN, "hi");
    assert!(eventually(LIMIT, || bot.intake.calls() >= 1).await);
    assert_eq!(server.waiting_updates().len(), 1);
    bot.wait_updates(1).await;
    assert_eq!(bot.intake.calls(), 3);
    bot.wait_connected().await;
}

#[tokio::test]
async fn a_restart_continues_behind_what_is_stored() {
    let server = telegram();
    let first = ReceivingClient::start(client(&server));
    server.say(ANN, "one");
    first.wait_updates(1).await;
    let intake = Arc::clone(&first.intake);
    first.end().await.unwrap();
    server.say(ANN, "two");
    let second = ReceivingClient::start_with(client(&server), intake);
    second.wait_updates(2).await;
    assert_eq!(second.texts(), ["one", "two"]);
}

#[tokio::test]
async fn an_old_position_is_not_used() {
    let server = telegram();
    // As if Telegram had begun with smaller numbers after a quiet week.
    let old = json!({"offset": 999_999_999, "stored_at": 1_600_000_000});
    server.say(ANN, "hi");
    let intake = Arc::new(MemoryIntake::with_cursor(old));
    let bot = ReceivingClient::start_with(client(&server), intake);
    bot.wait_updates(1).await;
    assert_eq!(bot.texts(), ["hi"]);
}

#[tokio::test]
async fn the_same_update_twice_and_out_of_order_is_kept_once() {
    let server = telegram();
    let bot = ReceivingClient::start(client(&server));
    bot.wait_connected().await;
    let update = |id: i64, text: &str| {
        json!({"update_id": id, "message": {
            "message_id": id, "date": 1, "text": text, "chat": {"id": ANN, "type": "private"},
            "from": {"id": ANN, "is_bot": false, "first_name": "Ann"},
        }})
    };
    server.deliver(update(900_000_002, "second"));
    bot.wait_updates(1).await;
    server.deliver(update(900_000_003, "third"));
    server.deliver(update(900_000_003, "third"));
    bot.wait_updates(2).await;
    assert_eq!(bot.texts(), ["second", "third"]);
}

#[tokio::test]
async fn unknown_members_and_types_lose_nothing() {
    let server = telegram();
    server.deliver(json!({"brand_new_update": {"x": [1, {"y": null}]}}));
    let odd = server.message(ANN, ANN).text("hi");
    odd.with_member("brand_new_member", json!({"deep": [{}]}))
        .with_member("photo", json!("not a list"))
        .send();
    server.deliver(json!({"message": {"message_id": "no number"}}));
    server.say(ANN, "after");
    let bot = ReceivingClient::start(client(&server));
    bot.wait_updates(4).await;
    assert_eq!(bot.texts(), ["hi", "after"]);
}

#[tokio::test]
async fn a_wrong_token_is_final_and_named() {
    let server = telegram();
    let mut settings = settings(&server);
    for (token, name, variable) in [
        ("123456:wrong", "", "`TELEGRAM_BOT_TOKEN`"),
        ("nonsense", "work", "`TELEGRAM_BOT_TOKEN_WORK`"),
    ] {
        settings.token = Some(Secret::new(token.to_owned()));
        let account = Account {
            platform: Platform::Telegram,
            name: name.into(),
        };
        let client = TelegramClient::new(account, &settings).unwrap();
        let mut bot = ReceivingClient::start(client);
        let error = bot.failure().await;
        assert_eq!(error.code, "bad_token");
        assert!(error.message.contains(variable), "{error}");
        assert!(!error.message.contains(token), "{error}");
        assert!(matches!(
            bot.health.state(),
            ConnectionState::Fatal {
                code: "bad_token",
                ..
            }
        ));
    }
}

#[tokio::test]
async fn a_token_that_is_revoked_ends_receiving() {
    let server = telegram();
    let mut bot = ReceivingClient::start(client(&server));
    bot.wait_connected().await;
    let revoked = json!({"ok": false, "error_code": 401, "description": "Unauthorized"});
    server.fail("getUpdates", PlatformFault::Status(401, revoked));
    server.say(ANN, "the poll that is open returns with this");
    assert_eq!(bot.failure().await.code, "bad_token");
}

#[tokio::test]
async fn an_outage_is_waited_out_and_nothing_is_lost() {
    let mut server = telegram();
    let bot = ReceivingClient::start(client(&server));
    bot.wait_connected().await;
    server.go_offline();
    let is_lost = || {
        matches!(
            bot.health.state(),
            ConnectionState::Reconnecting {
                code: "unreachable",
                ..
            }
        )
    };
    assert!(eventually(LIMIT, is_lost).await);
    assert!(bot.health.lost_since().is_some());
    server.say(ANN, "meanwhile");
    server.come_back();
    bot.wait_updates(1).await;
    bot.wait_connected().await;
    assert_eq!(bot.texts(), ["meanwhile"]);
}

#[tokio::test]
async fn a_failing_or_silent_server_is_asked_again() {
    let server = telegram();
    server.fail("getMe", PlatformFault::status(502));
    server.fail("getUpdates", PlatformFault::LimitedByBody(1));
    server.fail("getUpdates", PlatformFault::Silence);
    server.say(ANN, "hi");
    let bot = ReceivingClient::start(client(&server));
    bot.wait_updates(1).await;
    assert_eq!(server.calls("getMe"), 2);
    // The first was limited, the second timed out.
    assert!(server.calls("getUpdates") >= 3);
}

#[tokio::test]
async fn a_second_poller_is_said_and_waited_for() {
    let server = telegram();
    let bot = ReceivingClient::start(client(&server));
    bot.wait_connected().await;
    let conflict = json!({
        "ok": false, "error_code": 409,
        "description": "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
    });
    for _ in 0..3 {
        server.fail("getUpdates", PlatformFault::Status(409, conflict.clone()));
    }
    server.say(ANN, "ends the poll");
    let is_said = || match bot.health.state() {
        ConnectionState::Reconnecting { code, message } => {
            code == "conflict" && message.contains("another program")
        }
        _ => false,
    };
    assert!(eventually(LIMIT, is_said).await);
    bot.wait_connected().await;
    bot.wait_updates(1).await;
    assert_eq!(bot.texts(), ["ends the poll"]);
}

#[tokio::test]
async fn two_clients_on_one_token_disturb_each_other_and_keep_each_message() {
    let server = telegram();
    let first = ReceivingClient::start(client(&server));
    first.wait_connected().await;
    let second = ReceivingClient::start_with(client(&server), Arc::clone(&first.intake));
    let is_conflict = |bot: &ReceivingClient| {
        matches!(
            bot.health.state(),
            ConnectionState::Reconnecting {
                code: "conflict",
                ..
            }
        )
    };
    assert!(eventually(LIMIT, || is_conflict(&first) || is_conflict(&second)).await);
    server.say(ANN, "hi");
    first.wait_updates(1).await;
    assert_eq!(first.texts(), ["hi"]);
}

#[tokio::test]
async fn a_webhook_of_another_program_is_removed() {
    let server = telegram();
    let bot = ReceivingClient::start(client(&server));
    bot.wait_connected().await;
    let hook = format!("{}/bot{TOKEN}/setWebhook", server.base_url());
    let body = json!({"url": "https://elsewhere.example/"}).to_string();
    post_json(&hook, body).await;
    server.say(ANN, "hi");
    bot.wait_updates(1).await;
    assert_eq!(server.calls("deleteWebhook"), 2);
}

#[tokio::test]
async fn everything_that_people_do_is_understood() {
    let server = telegram();
    let bot = ReceivingClient::start(client(&server));
    bot.wait_connected().await;
    let name = server.bot_username();
    let deploys = server.add_topic(FORUM, "Deploys");
    server
        .message(FORUM, ANN)
        .topic(deploys)
        .text(&format!("@{name} ship it"))
        .send();
    server.message(FORUM, BOB).text("general").send();
    let own_topic = server.add_topic(ANN, "Notes");
    server
        .message(ANN, ANN)
        .topic(own_topic)
        .text("note")
        .send();
    for picture in ["one", "two"] {
        let photo = server.message(ANN, ANN).album("9").text(picture);
        photo.file(TelegramFile::Photo, "a.jpg", b"x").send();
    }
    server.migrate_group(GROUP);
    bot.wait_updates(7).await;
    let events = bot.events();
    let place = |index: usize| {
        let chat = &events[index].chat;
        (chat.kind, chat.thread_id.clone().unwrap_or_default())
    };
    assert_eq!(place(0), (ChatKind::Forum, deploys.to_string()));
    assert_eq!(place(1), (ChatKind::Forum, "1".into()));
    assert_eq!(place(2), (ChatKind::Dm, own_topic.to_string()));
    let messages = bot.messages();
    assert!(messages[0].mentions_bot);
    assert_eq!(messages[0].text, "ship it");
    assert_eq!(messages[3].album_id, messages[4].album_id);
    assert_eq!(messages[4].attachments.len(), 1);
    assert!(matches!(events[5].kind, InboundKind::ChatMigrated { .. }));
    assert_eq!(events.len(), 6);
    assert_eq!(bot.client.has_privacy_mode(), Some(false));
}

async fn post_json(url: &str, body: String) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.post(url).header("content-type", "application/json");
    assert!(
        request
            .body(body)
            .send()
            .await
            .unwrap()
            .status()
            .is_success()
    );
}
