//! A bot account on Telegram.

mod files;
mod post;
mod preview;
mod receive;
mod webhook;

use std::{sync::Arc, time::Duration};

use hermes_config::{Platform, PlatformSettings, Secret};
use hermes_gateway::platform::{
    Account, ChatAddress, ChatKind, ConnectionState, FatalError, InboundEvent, InboundKind,
    InboundMessage, PlatformClient, PlatformHealth,
    telegram::{TelegramClient, TelegramTiming},
};
use hermes_testkit::{eventually, platform::TelegramServer};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::MemoryIntake;

const TOKEN: &str = "123456:AAF-very-secret-token";
const ANN: i64 = 1001;
const BOB: i64 = 1002;
const GROUP: i64 = -500;
const FORUM: i64 = -100_700;
const LIMIT: Duration = Duration::from_secs(20);

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

/// A client that receives until it is dropped.
struct ReceivingClient {
    client: Arc<TelegramClient>,
    intake: Arc<MemoryIntake>,
    health: Arc<PlatformHealth>,
    stop: CancellationToken,
    task: JoinSet<Result<(), FatalError>>,
}

impl ReceivingClient {
    fn start(client: TelegramClient) -> Self {
        Self::start_with(client, Arc::default())
    }

    fn start_with(client: TelegramClient, intake: Arc<MemoryIntake>) -> Self {
        let client = Arc::new(client);
        let health = Arc::new(PlatformHealth::new(Duration::from_secs(30)));
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        let (own, kept, state, stopped) = (
            Arc::clone(&client),
            Arc::clone(&intake),
            Arc::clone(&health),
            stop.clone(),
        );
        task.spawn(async move { own.receive(&*kept, &state, stopped).await });
        Self {
            client,
            intake,
            health,
            stop,
            task,
        }
    }

    async fn wait_connected(&self) {
        let is_connected = || self.health.state() == ConnectionState::Connected;
        assert!(
            eventually(LIMIT, is_connected).await,
            "{:?}",
            self.health.state()
        );
    }

    /// Waits until so many updates are stored.
    async fn wait_updates(&self, count: usize) {
        assert!(
            eventually(LIMIT, || self.intake.updates().len() >= count).await,
            "{:?}",
            self.intake.updates()
        );
    }

    fn events(&self) -> Vec<InboundEvent> {
        let updates = self.intake.updates();
        let decoded = updates
            .iter()
            .filter_map(|update| self.client.decode(&update.payload));
        decoded.collect()
    }

    fn messages(&self) -> Vec<InboundMessage> {
        let events = self.events().into_iter();
        let messages = events.filter_map(|event| match event.kind {
            InboundKind::Message(message) => Some(*message),
            _ => None,
        });
        messages.collect()
    }

    fn texts(&self) -> Vec<String> {
        let messages = self.messages().into_iter();
        messages.map(|message| message.text).collect()
    }

    async fn end(mut self) -> Result<(), FatalError> {
        self.stop.cancel();
        self.task.join_next().await.unwrap().unwrap()
    }

    /// Waits until it gives up by itself.
    async fn failure(&mut self) -> FatalError {
        let ended = tokio::time::timeout(LIMIT, self.task.join_next()).await;
        ended.unwrap().unwrap().unwrap().unwrap_err()
    }
}
