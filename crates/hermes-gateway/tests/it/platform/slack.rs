//! A Slack app in one workspace.

mod events;
mod lookup;
mod post;
mod receive;
mod stream;

use std::time::Duration;

use hermes_agent::policy::PolicyHandle;
use hermes_config::{Platform, PlatformSettings, Secret};
use hermes_gateway::platform::{
    Account, ChatAddress, ChatKind, ConnectionState, FatalError, InboundEvent, InboundKind,
    PlatformClient,
    slack::{SlackClient, SlackTimeouts},
};
use hermes_testkit::{
    eventually,
    platform::{SlackPost, SlackServer},
};

use super::{LIMIT, ReceivingClient};

const BOT_TOKEN: &str = "xoxb-very-secret-token";
const APP_TOKEN: &str = "xapp-very-secret-token";
const ADA: &str = "U0ADA0001";
const BOB: &str = "U0BOB0001";
const GENERAL: &str = "C0GENERAL";

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
    SlackClient::with_timeouts(account, settings, &PolicyHandle::default(), timeouts).unwrap()
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

type SlackReceiver = ReceivingClient<SlackClient>;

impl SlackReceiver {
    /// Starts one for the workspace and waits until it is connected.
    async fn connect(server: &SlackServer) -> Self {
        let receiver = Self::start(client(server));
        receiver.wait_connected().await;
        receiver
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
