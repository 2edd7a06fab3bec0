//! Updates by webhook.

use std::net::SocketAddr;

use hermes_config::WebhookSettings;
use hermes_gateway::platform::ConnectionState;
use hermes_testkit::{ReservedPort, eventually, wait_until};

use super::*;

fn webhook_at(url: &str, port: u16) -> WebhookSettings {
    WebhookSettings {
        url: url.into(),
        secret: Secret::new("s3cret_of_the_hook".into()),
        host: "127.0.0.1".into(),
        port,
    }
}

/// A client with a webhook, and where it listens.
fn with_webhook(server: &TelegramServer) -> (ReceivingClient, SocketAddr, ReservedPort) {
    let port = ReservedPort::reserve().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
    let mut settings = settings(server);
    settings.webhook = Some(webhook_at(
        "https://bot.example/telegram/hook",
        port.number(),
    ));
    let bot = ReceivingClient::start(client_with(&settings));
    (bot, address, port)
}

#[tokio::test]
async fn updates_are_stored_before_they_are_confirmed() {
    let server = telegram();
    let (bot, address, _port) = with_webhook(&server);
    bot.wait_connected().await;
    server.say(ANN, "one");
    server.say(ANN, "two");
    bot.intake.fail(1);
    assert_eq!(server.deliver_to_webhook(address).await, [500]);
    assert_eq!(server.waiting_updates().len(), 2);
    assert_eq!(server.deliver_to_webhook(address).await, [200, 200]);
    assert_eq!(bot.texts(), ["one", "two"]);
    assert_eq!(server.calls("getUpdates"), 0);
    bot.end().await.unwrap();
    assert!(wait_until(LIMIT, || std::net::TcpStream::connect(address).is_err()));
}

#[tokio::test]
async fn whoever_does_not_know_the_secret_is_refused() {
    let server = telegram();
    let (bot, address, _port) = with_webhook(&server);
    bot.wait_connected().await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{address}/telegram/hook");
    let body = r#"{"update_id": 1, "message": {"message_id": 1}}"#;
    for secret in [None, Some(""), Some("wrong"), Some("s3cret_of_the_hoo")] {
        let mut request = client.post(&url).body(body);
        if let Some(secret) = secret {
            request = request.header("x-telegram-bot-api-secret-token", secret);
        }
        assert_eq!(request.send().await.unwrap().status(), 401, "{secret:?}");
    }
    let elsewhere = client.post(format!("http://{address}/")).body(body);
    assert_eq!(elsewhere.send().await.unwrap().status(), 404);
    assert_eq!(bot.intake.updates(), []);
    // What is not an update is confirmed, so that it does not come again for ever.
    for body in ["", "null", "{", r#"{"x": 1}"#] {
        let request = client.post(&url).body(body);
        let request = request.header("x-telegram-bot-api-secret-token", "s3cret_of_the_hook");
        assert_eq!(request.send().await.unwrap().status(), 200, "{body}");
    }
    assert_eq!(bot.intake.updates(), []);
    // Half of a surrogate pair is not text, and costs no more than itself.
    let body = r#"{"update_id": 7, "message": {"message_id": 1, "text": "a\ud83db"}}"#;
    let request = client.post(&url).body(body);
    let request = request.header("x-telegram-bot-api-secret-token", "s3cret_of_the_hook");
    assert_eq!(request.send().await.unwrap().status(), 200);
    let stored = bot.intake.updates().remove(0);
    assert_eq!(stored.payload["message"]["text"], "a\u{fffd}b");
}

/// The code of the state in which nothing is received, if it is one.
fn lost_code(bot: &ReceivingClient) -> Option<&'static str> {
    match bot.health.state() {
        ConnectionState::Reconnecting { code, .. } => Some(code),
        _ => None,
    }
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_and_used_once_it_is_free() {
    let server = telegram();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut settings = settings(&server);
    settings.webhook = Some(webhook_at("https://bot.example/hook", port));
    let bot = ReceivingClient::start(client_with(&settings));
    assert!(eventually(LIMIT, || lost_code(&bot) == Some("webhook_port_in_use")).await);
    let ConnectionState::Reconnecting { message, .. } = bot.health.state() else {
        panic!("{:?}", bot.health.state());
    };
    assert!(message.contains(&port.to_string()), "{message}");
    assert!(message.contains("TELEGRAM_WEBHOOK_PORT"), "{message}");
    drop(taken);
    bot.wait_connected().await;
}

#[tokio::test]
async fn an_address_that_telegram_cannot_reach_is_told_until_it_can() {
    let server = telegram();
    let (bot, address, _port) = with_webhook(&server);
    bot.wait_connected().await;
    server.say(ANN, "one");
    // Telegram calls where nobody listens.
    let nowhere = ReservedPort::reserve().unwrap();
    let nowhere = SocketAddr::from(([127, 0, 0, 1], nowhere.number()));
    assert_eq!(server.deliver_to_webhook(nowhere).await, [0]);
    assert!(eventually(LIMIT, || lost_code(&bot) == Some("webhook_unreachable")).await);
    let ConnectionState::Reconnecting { message, .. } = bot.health.state() else {
        panic!("{:?}", bot.health.state());
    };
    assert!(
        message.contains("bot.example: Connection refused"),
        "{message}"
    );
    // It is set once: setting it again would not help.
    assert_eq!(server.calls("setWebhook"), 1);
    assert_eq!(server.deliver_to_webhook(address).await, [200]);
    bot.wait_connected().await;
    let checks = server.calls("getWebhookInfo");
    assert!(eventually(LIMIT, || server.calls("getWebhookInfo") > checks + 1).await);
    assert_eq!(bot.health.state(), ConnectionState::Connected);
}

#[tokio::test]
async fn an_address_that_is_refused_is_named() {
    let server = telegram();
    let free = ReservedPort::reserve().unwrap();
    let cases = [
        ("http://bot.example/{hook}", "HTTPS"),
        ("nowhere", "not a URL"),
    ];
    for (url, reason) in cases {
        let mut settings = settings(&server);
        settings.webhook = Some(webhook_at(url, free.number()));
        let mut bot = ReceivingClient::start(client_with(&settings));
        let error = bot.failure().await;
        assert_eq!(error.code, "webhook_invalid");
        assert!(error.message.contains(reason), "{error}");
    }
}
