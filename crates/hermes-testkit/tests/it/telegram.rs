//! Telegram, as a bot sees it, and as programs that others wrote see it.

mod api;
mod real_servers;
mod types;

use hermes_testkit::platform::TelegramServer;
use serde_json::Value;

const TOKEN: &str = "123456:AAF-very-secret-token";
const ANN: i64 = 1001;
const BOB: i64 = 1002;
const GROUP: i64 = -500;
const FORUM: i64 = -100_700;

/// Telegram with two people and two groups.
fn telegram() -> TelegramServer {
    let server = TelegramServer::start(TOKEN);
    server.add_user(ANN, "Ann");
    server.add_user(BOB, "Bob");
    server.add_group(GROUP, "Team");
    server.add_forum(FORUM, "Forum");
    server
}

/// Calls a method; returns the whole reply.
async fn call(server: &TelegramServer, method: &str, parameters: Value) -> Value {
    let url = format!("{}/bot{TOKEN}/{method}", server.base_url());
    let request = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = request
        .post(url)
        .header("content-type", "application/json")
        .body(parameters.to_string());
    let bytes = request.send().await.unwrap().bytes().await.unwrap();
    serde_json::from_slice(&bytes).unwrap()
}
