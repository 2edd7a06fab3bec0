//! A bot account on Discord: events over the gateway's WebSocket, everything else by the REST API.
//!
//! Heartbeats, resuming and close codes are twilight's. What it receives is stored as it came, with the names of its
//! channel, and read later: nothing unknown in an event can lose it.

mod attachments;
mod connection_end;
mod cursor;
mod decode;
mod history;
mod interactions;
mod places;
mod post;
mod rate_limits;
mod receive;
mod relay;
mod rest;
mod voice;

use std::{path::Path, time::Duration};

use futures::future::BoxFuture;
use hermes_agent::policy::PolicyHandle;
use hermes_config::{PlatformSettings, Secret, sync::RwLock};
use hermes_store::mirror::Channel;
use reqwest::Method;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use url::Url;

use self::{
    places::ChannelCache,
    post::channel_of,
    rest::{DiscordFailure, DiscordRest, RestBody},
};
use super::{
    Account, Attachment, ChatAddress, ChatMark, ClientLimits, CommandSpec, FatalError,
    InboundEvent, LivePreview, OutboundMessage, PlatformClient, PlatformHealth, PostError, Posted,
    RawUpdate, UpdateIntake,
};
use crate::send::{SendError, is_loopback};

/// The most characters of a message.
const MESSAGE_CHARS: usize = 2000;
/// Five messages or edits in five seconds are allowed in a channel; where it is less, the bucket decides.
const EDIT_INTERVAL: Duration = Duration::from_secs(1);
/// The typing sign is seen for ten seconds.
const TYPING_INTERVAL: Duration = Duration::from_secs(8);
/// Files in one message.
const ALBUM: usize = 10;
/// Health is expected this often until Discord has told its own interval.
pub const DISCORD_HEARTBEAT: Duration = Duration::from_millis(41_250);

const ENDPOINT_WARNING: &str = "interactions_endpoint";

/// A bot account on Discord.
pub struct DiscordClient {
    account: Account,
    token: Secret<String>,
    /// Whether the HTTP client has a way of its own: a proxy, or names that are not resolved.
    has_own_way: bool,
    rest: DiscordRest,
    timing: DiscordTiming,
    identity: RwLock<Option<DiscordIdentity>>,
    places: ChannelCache,
}

/// Who the bot is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct DiscordIdentity {
    bot: String,
    application: String,
}

impl DiscordClient {
    /// The client of an account. Nothing is sent yet.
    pub fn new(account: Account, settings: &PlatformSettings) -> Result<Self, SendError> {
        Self::with_policy(account, settings, &PolicyHandle::default())
    }

    /// The same for a home with an operator.
    pub fn with_policy(
        account: Account,
        settings: &PlatformSettings,
        policy: &PolicyHandle,
    ) -> Result<Self, SendError> {
        Self::with_timing(account, settings, policy, DiscordTiming::default())
    }

    pub fn with_timing(
        account: Account,
        settings: &PlatformSettings,
        policy: &PolicyHandle,
        timing: DiscordTiming,
    ) -> Result<Self, SendError> {
        let rest = DiscordRest::new(settings, policy, timing.request)?;
        let has_proxy = settings.proxy.is_some() || settings.proxies.has_any();
        let token = settings.token.clone();
        Ok(Self {
            token: token.ok_or_else(|| SendError::NotConfigured {
                platform: account.label(),
            })?,
            account,
            has_own_way: has_proxy || policy.policy().egress().is_public_only(),
            rest,
            timing,
            identity: RwLock::new(None),
            places: ChannelCache::default(),
        })
    }

    fn identity(&self) -> DiscordIdentity {
        self.identity.read().clone().unwrap_or_default()
    }

    /// Who the bot is, asked once.
    async fn fetch_identity(&self) -> Result<DiscordIdentity, DiscordFailure> {
        let known = self.identity.read().clone();
        if let Some(known) = known {
            return Ok(known);
        }
        let me = self.rest.get("/users/@me").await?;
        let bot = me["id"].as_str().unwrap_or_default().to_owned();
        // A bot has the number of its application, except for some from before 2016.
        let application = self.rest.get("/applications/@me").await.unwrap_or_default();
        let application = application["id"].as_str().unwrap_or(&bot).to_owned();
        let identity = DiscordIdentity { bot, application };
        *self.identity.write() = Some(identity.clone());
        Ok(identity)
    }

    /// Who the bot is, and whether the portal has settings that get in the way.
    async fn learn_identity(&self, health: &PlatformHealth) -> Result<(), DiscordFailure> {
        self.fetch_identity().await?;
        let application = self.rest.get("/applications/@me").await;
        let application = match application {
            Ok(application) => application,
            Err(DiscordFailure::BadToken) => return Err(DiscordFailure::BadToken),
            Err(failure) => {
                tracing::info!(platform = %self.account, %failure, "failed to fetch the Discord application");
                return Ok(());
            }
        };
        let endpoint = application["interactions_endpoint_url"].as_str();
        if endpoint.is_none_or(str::is_empty) {
            health.clear_warning(ENDPOINT_WARNING);
            return Ok(());
        }
        let message = "an `Interactions Endpoint URL` is set in the portal: buttons and slash commands go there and never arrive here; empty it at https://discord.com/developers/applications, your application, General Information";
        if health.record_warning(ENDPOINT_WARNING, message) {
            tracing::warn!(platform = %self.account, "{message}");
        }
        Ok(())
    }

    /// What the first event of a session says.
    fn learn_ready(&self, ready: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        if let (Some(bot), Some(application)) = (
            text(&ready["user"]["id"]),
            text(&ready["application"]["id"]),
        ) {
            *self.identity.write() = Some(DiscordIdentity { bot, application });
        }
    }

    /// Whether a WebSocket goes the way of other requests. Twilight knows no proxies, and resolves every name.
    fn relays_socket(&self, address: &str) -> bool {
        let url = Url::parse(address).ok();
        self.has_own_way && url.is_some_and(|url| !is_loopback(&url))
    }

    /// Whether the token may be sent over a WebSocket at this address.
    fn check_socket_address(&self, address: &str) -> Result<(), String> {
        let url = Url::parse(address).map_err(|error| format!("it is not a URL ({error})"))?;
        let web = match url.scheme() {
            "wss" => "https",
            "ws" => "http",
            _ => return Err("it is neither wss nor ws".into()),
        };
        // A path or query of its own would not fit what twilight adds.
        if !matches!(url.path(), "" | "/") || url.query().is_some() {
            return Err("it has a path".into());
        }
        let scheme_end = address.find(':').unwrap_or_default();
        let web_address = format!("{web}{}", &address[scheme_end..]);
        self.rest.check_address(&web_address).map(drop)
    }
}

fn count_chars(text: &str) -> usize {
    text.chars().count()
}

impl PlatformClient for DiscordClient {
    fn account(&self) -> &Account {
        &self.account
    }

    fn platform_time(&self) -> f64 {
        self.rest.clock.now()
    }

    fn limits(&self) -> ClientLimits {
        ClientLimits {
            message: MESSAGE_CHARS,
            caption: MESSAGE_CHARS,
            measure: count_chars,
            edit_interval: (EDIT_INTERVAL, EDIT_INTERVAL),
            typing_interval: TYPING_INTERVAL,
            album: ALBUM,
        }
    }

    fn receive<'a>(
        &'a self,
        intake: &'a dyn UpdateIntake,
        health: &'a PlatformHealth,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<(), FatalError>> {
        Box::pin(receive::receive(self, intake, health, stop))
    }

    fn decode(&self, payload: &Value) -> Option<InboundEvent> {
        decode::decode_update(payload)
    }

    fn post<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message: &'a OutboundMessage,
    ) -> BoxFuture<'a, Result<Posted, PostError>> {
        Box::pin(self.post_message(chat, message))
    }

    fn edit<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message_id: &'a str,
        message: &'a OutboundMessage,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(self.edit_message(chat, message_id, message))
    }

    fn delete<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message_id: &'a str,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(self.delete_message(chat, message_id))
    }

    fn show_typing<'a>(&'a self, chat: &'a ChatAddress) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async move {
            let path = format!("/channels/{}/typing", channel_of(chat));
            let body = RestBody::Nothing;
            self.rest.call(Method::POST, &path, body).await?;
            Ok(())
        })
    }

    fn open_preview<'a>(
        &'a self,
        _chat: &'a ChatAddress,
        _reply_to: Option<&'a InboundEvent>,
    ) -> BoxFuture<'a, Result<Option<Box<dyn LivePreview>>, PostError>> {
        // Discord has none: answers grow by edits.
        Box::pin(async { Ok(None) })
    }

    fn acknowledge<'a>(
        &'a self,
        event: &'a InboundEvent,
        notice: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(self.acknowledge_interaction(event, notice))
    }

    fn react<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message_id: &'a str,
        reaction: &'a str,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(self.add_reaction(chat, message_id, reaction))
    }

    fn download<'a>(
        &'a self,
        attachment: &'a Attachment,
        file: &'a Path,
        max_bytes: u64,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(attachments::download(
            &self.rest, attachment, file, max_bytes,
        ))
    }

    fn register_commands<'a>(
        &'a self,
        commands: &'a [CommandSpec],
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(self.put_commands(commands))
    }

    fn list_channels(&self) -> BoxFuture<'_, Result<Vec<Channel>, PostError>> {
        Box::pin(self.fetch_channels())
    }

    fn open_thread<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message_id: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<ChatAddress>, PostError>> {
        Box::pin(self.create_thread(chat, message_id, name))
    }

    fn find_missed_chats<'a>(
        &'a self,
        known: &'a [ChatMark],
    ) -> BoxFuture<'a, Result<Vec<ChatMark>, PostError>> {
        Box::pin(self.find_active_chats(known))
    }

    fn fetch_missed<'a>(
        &'a self,
        chat: &'a ChatAddress,
        after_message: &'a str,
    ) -> BoxFuture<'a, Result<Vec<RawUpdate>, PostError>> {
        Box::pin(self.fetch_after(chat, after_message))
    }
}

/// How long things take on the gateway.
#[derive(Debug, Clone, Copy)]
pub struct DiscordTiming {
    /// A request to the REST API.
    pub request: Duration,
    /// From the first byte to a session that works.
    pub session: Duration,
    /// The pause after a first failure to connect. It is doubled up to the longest.
    pub first_pause: Duration,
    pub longest_pause: Duration,
    /// Between a session that Discord refused and the next one; Discord wants 1 to 5 s.
    pub invalid_session_pause: Duration,
    /// Saying goodbye.
    pub closing: Duration,
}

impl Default for DiscordTiming {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(30),
            session: Duration::from_mins(1),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_mins(1),
            invalid_session_pause: Duration::from_millis(1_500),
            closing: Duration::from_secs(3),
        }
    }
}
