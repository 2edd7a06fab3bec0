//! A bot account on Telegram.

mod files;
mod post;
mod preview;
mod receive;
mod webhook;

use std::time::Duration;

use hermes_config::{Platform, PlatformSettings, Secret};
use hermes_gateway::platform::{
    Account, ChatAddress, ChatKind,
    telegram::{TelegramClient, TelegramTiming},
};
use hermes_testkit::platform::TelegramServer;

use super::{LIMIT, MemoryIntake};

type ReceivingClient = super::ReceivingClient<TelegramClient>;

const TOKEN: &str = "123456:AAF-very-secret-token";
const ANN: i64 = 1001;
const BOB: i64 = 1002;
const GROUP: i64 = -500;
const FORUM: i64 = -100_700;

/// Telegram with two people, a group and a forum.
fn telegram() -> TelegramServer {
    let server = TelegramServer::start(TOKEN);
    server.add_user(ANN, "Ann");
    server.add_user(BOB, "Bob");
    server.add_group(GROUP, "Team");
    server.add_forum(FORUM, "Forum");
    server
}

fn settings(server: &TelegramServer) -> PlatformSettings {
    let mut settings = PlatformSettings::default_of(Platform::Telegram);
    settings.token = Some(Secret::new(TOKEN.to_owned()));
    settings.base_url = server.base_url();
    settings
}

fn client(server: &TelegramServer) -> TelegramClient {
    client_with(&settings(server))
}

fn client_with(settings: &PlatformSettings) -> TelegramClient {
    let account = Account::first(Platform::Telegram);
    let timing = TelegramTiming {
        poll: Duration::from_secs(5),
        poll_grace: Duration::from_secs(2),
        first_pause: Duration::from_millis(20),
        max_pause: Duration::from_millis(200),
        conflict_pause: Duration::from_millis(300),
        webhook_check: Duration::from_millis(300),
        draft_repeat: Duration::from_millis(500),
    };
    TelegramClient::new(account, settings)
        .unwrap()
        .with_timing(timing)
}

fn private(user: i64) -> ChatAddress {
    ChatAddress::new(user.to_string(), ChatKind::Dm)
}

fn topic(chat: i64, topic: i64) -> ChatAddress {
    let mut address = ChatAddress::new(chat.to_string(), ChatKind::Forum);
    address.thread_id = Some(topic.to_string());
    address
}
