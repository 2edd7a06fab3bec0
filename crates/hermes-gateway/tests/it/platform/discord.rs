//! A bot on Discord.

mod events;
mod post;
mod receive;
mod voice;

use std::{sync::Arc, time::Duration};

use hermes_agent::policy::PolicyHandle;
use hermes_config::{Platform, PlatformSettings, Secret};
use hermes_gateway::platform::{
    Account, ChatAddress, ChatKind, ConnectionState, FatalError, InboundEvent, InboundKind,
    InboundMessage,
    discord::{DiscordClient, DiscordTiming},
};
use hermes_testkit::platform::DiscordServer;

use super::{LIMIT, MemoryIntake, ReceivingClient};

const TOKEN: &str = "OTAwMA.G1.very-secret";

/// A guild with a channel and somebody in it.
struct DiscordFixture {
    server: DiscordServer,
    guild: String,
    channel: String,
    ada: String,
}

impl DiscordFixture {
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
    DiscordClient::with_timing(account, settings, &PolicyHandle::default(), timing).unwrap()
}

type DiscordReceiver = ReceivingClient<DiscordClient>;

impl DiscordReceiver {
    /// Starts one and waits until it is connected.
    async fn connect(fixture: &DiscordFixture) -> Self {
        Self::connect_with(fixture, Arc::default()).await
    }

    async fn connect_with(fixture: &DiscordFixture, intake: Arc<MemoryIntake>) -> Self {
        let receiver = Self::start_with(fixture.client(), intake);
        receiver.wait_connected().await;
        receiver
    }

    /// The only event.
    async fn event(&self) -> InboundEvent {
        self.wait_updates(1).await;
        let mut events = self.events();
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    /// Ends as a gateway does that is stopped.
    async fn finish(self) -> Arc<MemoryIntake> {
        let (intake, health) = (self.intake.clone(), self.health.clone());
        assert_eq!(self.end().await, Ok(()));
        assert_eq!(health.state(), ConnectionState::Stopped);
        intake
    }

    /// How it ended by itself.
    async fn fatal(mut self) -> FatalError {
        let error = self.failure().await;
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
