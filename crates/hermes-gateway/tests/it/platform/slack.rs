//! A Slack app in one workspace.

mod events;
mod lookup;
mod post;
mod receive;
mod stream;

use std::{sync::Arc, time::Duration};

use hermes_config::{Platform, PlatformSettings, Secret};
use hermes_gateway::platform::{
    Account, ChatAddress, ChatKind, ConnectionState, FatalError, InboundEvent, InboundKind,
    InboundMessage, PlatformClient, PlatformHealth,
    slack::{SlackClient, SlackTimeouts},
};
use hermes_testkit::{
    eventually,
    platform::{SlackPost, SlackServer},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::MemoryIntake;

const BOT_TOKEN: &str = "xoxb-very-secret-token";
const APP_TOKEN: &str = "xapp-very-secret-token";
const ADA: &str = "U0ADA0001";
const BOB: &str = "U0BOB0001";
const GENERAL: &str = "C0GENERAL";
const LIMIT: Duration = Duration::from_secs(30);

/// A workspace with two people and a channel.
fn workspace() -> SlackServer {
    let server = SlackServer::start(BOT_TOKEN, APP_TOKEN);
    server.add_user(ADA, "Ada");
    server.add_user(BOB, "Bob");
    server.add_channel(GENERAL, "general");
    server
}

fn settings(server: &SlackServer) -> PlatformSettings {
    let mut settings = PlatformSettings::default_of(Platform::Slack);
    settings.token = Some(Secret::new(BOT_TOKEN.to_owned()));
    settings.app_token = Some(Secret::new(APP_TOKEN.to_owned()));
    settings.base_url = server.base_url();
    settings
}

/// As in earnest, with short pauses.
fn timeouts() -> SlackTimeouts {
    SlackTimeouts {
        first_pause: Duration::from_millis(20),
        longest_pause: Duration::from_millis(200),
        stream_interval: Duration::ZERO,
        ..SlackTimeouts::default()
    }
}

fn client(server: &SlackServer) -> SlackClient {
    client_with(&settings(server), timeouts())
}

fn client_with(settings: &PlatformSettings, timeouts: SlackTimeouts) -> SlackClient {
    let account = Account::first(Platform::Slack);
    SlackClient::with_timeouts(account, settings, timeouts).unwrap()
}

fn channel(thread: Option<&str>) -> ChatAddress {
    ChatAddress {
        thread_id: thread.map(str::to_owned),
        ..ChatAddress::new(GENERAL, ChatKind::Group)
    }
}

fn direct(server: &SlackServer, user: &str) -> ChatAddress {
    ChatAddress::new(server.direct_channel(user), ChatKind::Dm)
}

/// A client that receives until it is dropped.
struct SlackReceiver {
    client: SlackClient,
    intake: Arc<MemoryIntake>,
    health: Arc<PlatformHealth>,
    stop: CancellationToken,
    task: JoinSet<Result<(), FatalError>>,
}

impl SlackReceiver {
    fn start(client: SlackClient) -> Self {
        let intake = Arc::<MemoryIntake>::default();
        let health = Arc::new(PlatformHealth::new(Duration::from_secs(30)));
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        let (own, stored, state, stopped) = (
            client.clone(),
            Arc::clone(&intake),
            Arc::clone(&health),
            stop.clone(),
        );
        task.spawn(async move { own.receive(&*stored, &state, stopped).await });
        Self {
            client,
            intake,
            health,
            stop,
            task,
        }
    }

    /// Starts one for the workspace and waits until it is connected.
    async fn connect(server: &SlackServer) -> Self {
        let receiver = Self::start(client(server));
        receiver.wait_connected().await;
        receiver
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

    /// Why it ended.
    async fn ended(mut self) -> Result<(), FatalError> {
        let ended = tokio::time::timeout(LIMIT, self.task.join_next()).await;
        ended.unwrap().unwrap().unwrap()
    }
}

fn says(user: &str, channel: &str, text: &str) -> SlackPost {
    SlackPost::new(user, channel, text)
}
