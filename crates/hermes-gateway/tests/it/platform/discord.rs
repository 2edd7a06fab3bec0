//! A bot on Discord.

mod events;
mod post;
mod receive;

use std::{sync::Arc, time::Duration};

use hermes_config::{Platform, PlatformSettings, Secret};
use hermes_gateway::platform::{
    Account, ChatAddress, ChatKind, ConnectionState, FatalError, InboundEvent, InboundKind,
    InboundMessage, PlatformClient, PlatformHealth,
    discord::{DiscordClient, DiscordTiming},
};
use hermes_testkit::{eventually, platform::DiscordServer};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::MemoryIntake;

const TOKEN: &str = "OTAwMA.G1.very-secret";
const LIMIT: Duration = Duration::from_secs(30);

/// A guild with a channel and somebody in it.
struct DiscordPlace {
    server: DiscordServer,
    guild: String,
    channel: String,
    ada: String,
}

impl DiscordPlace {
    fn new() -> Self {
        let server = DiscordServer::start(TOKEN);
        let guild = server.add_guild("Team");
        let channel = server.add_channel(&guild, "general");
        let ada = server.add_user("ada");
        Self {
            server,
            guild,
            channel,
            ada,
        }
    }

    fn settings(&self) -> PlatformSettings {
        let mut settings = PlatformSettings::default_of(Platform::Discord);
        settings.token = Some(Secret::new(TOKEN.to_owned()));
        settings.base_url = self.server.base_url();
        settings
    }

    fn client(&self) -> DiscordClient {
        client_with(&self.settings())
    }

    /// The channel, of which only the number is known.
    fn chat(&self) -> ChatAddress {
        ChatAddress::new(&self.channel, ChatKind::Group)
    }

    fn say(&self, text: &str) -> String {
        self.server.say(&self.channel, &self.ada, text)
    }
}

fn client_with(settings: &PlatformSettings) -> DiscordClient {
    // As in earnest, with short pauses.
    let timing = DiscordTiming {
        first_pause: Duration::from_millis(20),
        longest_pause: Duration::from_millis(200),
        invalid_session_pause: Duration::from_millis(20),
        ..DiscordTiming::default()
    };
    let account = Account::first(Platform::Discord);
    DiscordClient::with_timing(account, settings, timing).unwrap()
}

/// A client that receives until it is dropped.
struct DiscordReceiver {
    client: Arc<DiscordClient>,
    intake: Arc<MemoryIntake>,
    health: Arc<PlatformHealth>,
    stop: CancellationToken,
    task: JoinSet<Result<(), FatalError>>,
}

impl DiscordReceiver {
    fn start(client: DiscordClient, intake: Arc<MemoryIntake>) -> Self {
        let client = Arc::new(client);
        let health = Arc::new(PlatformHealth::new(Duration::from_secs(30)));
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        let (own, stored, state, stopped) = (
            Arc::clone(&client),
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

    /// Starts one and waits until it is connected.
    async fn connect(place: &DiscordPlace) -> Self {
        Self::connect_with(place, Arc::default()).await
    }

    async fn connect_with(place: &DiscordPlace, intake: Arc<MemoryIntake>) -> Self {
        let receiver = Self::start(place.client(), intake);
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
            "{:?} {:?}",
            self.health.state(),
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

    /// The only event.
    async fn event(&self) -> InboundEvent {
        self.wait_updates(1).await;
        let mut events = self.events();
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    /// The texts of what was received.
    fn texts(&self) -> Vec<String> {
        let events = self.events();
        events
            .iter()
            .map(|event| message_of(event).text.clone())
            .collect()
    }

    /// Ends as a gateway does that is stopped.
    async fn finish(mut self) -> Arc<MemoryIntake> {
        self.stop.cancel();
        let ended = self.task.join_next().await.unwrap().unwrap();
        assert_eq!(ended, Ok(()));
        assert_eq!(self.health.state(), ConnectionState::Stopped);
        self.intake
    }

    /// How it ended by itself.
    async fn fatal(mut self) -> FatalError {
        let ended = tokio::time::timeout(LIMIT, self.task.join_next()).await;
        let error = ended.unwrap().unwrap().unwrap().unwrap_err();
        let (code, message) = (error.code, error.message.clone());
        assert_eq!(
            self.health.state(),
            ConnectionState::Fatal { code, message }
        );
        assert!(!error.message.contains("very-secret"));
        error
    }
}

fn message_of(event: &InboundEvent) -> &InboundMessage {
    match &event.kind {
        InboundKind::Message(message) => message,
        other => panic!("not a message: {other:?}"),
    }
}
