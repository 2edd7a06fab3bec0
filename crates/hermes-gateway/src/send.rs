//! Sends a message to a chat of a platform, once, without a running gateway.
//!
//! A [`MessageSender`] resolves the chat, splits the message to the platform's limits, posts the parts, and adds what it
//! sent to the conversation of that chat. Each platform is a small file of plain requests: a client library for each
//! would be more code than it saves.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use hermes_agent::policy::PolicyHandle;
use hermes_config::{
    GatewaySettings, Home, Platform, PlatformSettings, Redactor, Settings, sync::Mutex,
};
use reqwest::Client;
use serde::Serialize;

use crate::{conversations::ConversationIndex, platforms::Account};

mod account_check;
mod chunk;
mod delivery;
mod discord;
mod error;
mod http;
mod markdown;
mod media;
mod mirror;
mod multipart;
mod slack;
mod target;
mod telegram;

use self::{
    delivery::{DeliveredMessage, MessagePiece},
    discord::DiscordChannel,
    http::PlatformApi,
    mirror::MirroredMessage,
    slack::SlackChannel,
    target::Destination,
    telegram::TelegramChannel,
};

pub use self::{
    account_check::{
        AccountCheck, AccountProblem, CheckedAccount, DISCORD_PERMISSIONS, SLACK_SCOPES,
        discord_invite_url, missing_app_token, webhook_unreachable_fix,
    },
    error::{PlatformFailure, SendError},
    media::MediaPolicy,
};
pub use target::SendTarget;

// What the clients of the live gateway share with sending once.
pub(crate) use self::{
    chunk::{LengthLimit, part_number, split_text},
    http::{ReachableAddresses, build_client, is_loopback, root_cause},
    markdown::{Dialect, render_markdown},
    media::{ExtractedMedia, MediaGate, MediaKind, check_file, extract_media, join_albums},
    multipart::encode_file_name,
    telegram::count_utf16,
};

/// Whom a message notifies by what its text says, where the platform lets the sender choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum MentionScope {
    #[default]
    Everybody,
    /// Single people: neither roles nor `@everyone`.
    People,
}

const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Whether a target can be resolved: its platform has a token, and its chat is known. Nothing is sent.
pub fn check_target(home: &Home, gateway: &GatewaySettings, target: &str) -> Result<(), SendError> {
    target::resolve_target(home, gateway, target).map(drop)
}

/// The bot and the chat that a target means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedTarget {
    pub(crate) platform: Platform,
    /// Empty for the first account.
    pub(crate) account: String,
    pub(crate) chat_id: String,
    pub(crate) thread_id: Option<String>,
}

/// Finds the chat of a target.
pub(crate) fn resolve_target(
    home: &Home,
    gateway: &GatewaySettings,
    target: &str,
) -> Result<ResolvedTarget, SendError> {
    let found = target::resolve_target(home, gateway, target)?;
    Ok(ResolvedTarget {
        platform: found.platform,
        account: found.account,
        chat_id: found.chat.id,
        thread_id: found.chat.thread,
    })
}

/// Adds a message that was sent to the conversation of its chat. Returns whether there is one.
pub(crate) async fn mirror_message(
    home: &Home,
    gateway: &GatewaySettings,
    target: &str,
    text: &str,
    message_id: &str,
) -> bool {
    let Ok(found) = target::resolve_target(home, gateway, target) else {
        return false;
    };
    let label = found.label();
    let mut chats = vec![found.chat.id.as_str()];
    if found.platform == Platform::Discord {
        // A Discord thread is a channel.
        chats.extend(found.chat.thread.as_deref());
    }
    let sending = MirroredMessage {
        platform: &label,
        chats,
        thread: found.chat.thread.as_deref(),
        text,
        message_id,
    };
    mirror::append_to_session(home, &sending).await
}

/// Sends messages for a home. Connections are opened on demand; clones share them.
#[derive(Debug, Clone)]
pub struct MessageSender {
    inner: Arc<SenderInner>,
    timeout: Duration,
    mirrors: bool,
    mentions: MentionScope,
    policy: PolicyHandle,
}

#[derive(Debug)]
struct SenderInner {
    home: Home,
    user: Option<PathBuf>,
    gateway: GatewaySettings,
    redactor: Redactor,
    /// By bot account, because each may have an address of its own.
    clients: Mutex<HashMap<String, Client>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SentMessage {
    success: bool,
    pub platform: &'static str,
    pub chat_id: String,
    /// The platform's id of the last part.
    pub message_id: String,
    /// The thread or topic in the chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Problems that did not prevent sending.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The default chat, if none was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Whether it was added to the conversation of that chat.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mirrored: bool,
}

impl MessageSender {
    /// A sender with the settings of a home.
    pub fn new(home: &Home, settings: &Settings) -> Self {
        let user = settings.variables.get("HOME").map(PathBuf::from);
        Self {
            inner: Arc::new(SenderInner {
                home: home.clone(),
                user: user.or_else(std::env::home_dir),
                gateway: settings.gateway.clone(),
                redactor: Redactor::new(settings.gateway.secrets()),
                clients: Mutex::default(),
            }),
            timeout: REPLY_TIMEOUT,
            mirrors: true,
            mentions: MentionScope::default(),
            policy: PolicyHandle::default(),
        }
    }

    /// Reaches what the operator's policy allows.
    #[must_use]
    pub fn with_policy(mut self, policy: &PolicyHandle) -> Self {
        self.policy = policy.clone();
        self
    }

    /// Overrides the timeout of 30 s.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Does not add what it sends to conversations.
    #[must_use]
    pub fn without_mirror(mut self) -> Self {
        self.mirrors = false;
        self
    }

    /// Notifies no whole groups of people: for texts that a model wrote.
    #[must_use]
    pub fn without_broadcasts(mut self) -> Self {
        self.mentions = MentionScope::People;
        self
    }

    /// Sends a message to `platform` or `platform:chat`.
    pub async fn send(
        &self,
        target: &str,
        message: &str,
        media: MediaPolicy,
    ) -> Result<SentMessage, SendError> {
        self.send_with_files(target, message, media, &[]).await
    }

    /// Sends a message with files.
    pub fn send_with_files<'a>(
        &'a self,
        target: &'a str,
        message: &'a str,
        media: MediaPolicy,
        files: &'a [String],
    ) -> BoxFuture<'a, Result<SentMessage, SendError>> {
        Box::pin(async move {
            let destination =
                target::resolve_target(&self.inner.home, &self.inner.gateway, target)?;
            let mut extracted = match media {
                MediaPolicy::Literal => ExtractedMedia::literal(message),
                MediaPolicy::Upload => media::extract_media(message),
            };
            extracted.paths.extend_from_slice(files);
            let (files, mut warnings) = extracted.read_files(&self.media_gate()).await;
            let mut stored = extracted.text.trim().to_owned();
            for file in &files {
                stored.push_str(if stored.is_empty() {
                    "MEDIA:"
                } else {
                    "\nMEDIA:"
                });
                stored.push_str(&file.path.to_string_lossy());
            }
            let limits = match destination.platform {
                Platform::Telegram => telegram::LIMITS,
                Platform::Discord => discord::LIMITS,
                Platform::Slack => slack::LIMITS,
            };
            let pieces = delivery::split_message(&extracted.text, files, &limits);
            if pieces.is_empty() {
                return Err(SendError::NothingToSend { warnings });
            }
            let delivered = self.deliver(&destination, &pieces).await?;
            warnings.extend(delivered.warnings);
            let platform = destination.platform.name();
            let chat = delivered.chat;
            let mut chats = vec![chat.id.as_str()];
            chats.extend(delivered.receipt.chat_id.as_deref());
            // A Discord thread is a channel.
            chats.extend(
                chat.thread
                    .as_deref()
                    .filter(|_| destination.platform == Platform::Discord),
            );
            let label = destination.label();
            let sending = MirroredMessage {
                platform: &label,
                chats,
                thread: chat.thread.as_deref(),
                text: &stored,
                message_id: &delivered.receipt.message_id,
            };
            let mirrored =
                self.mirrors && mirror::append_to_session(&self.inner.home, &sending).await;
            Ok(SentMessage {
                success: true,
                platform,
                note: destination
                    .is_home
                    .then(|| format!("Sent to {label} home channel (chat_id: {})", chat.id)),
                chat_id: chat.id,
                thread_id: chat.thread,
                message_id: delivered.receipt.message_id,
                warnings,
                mirrored,
            })
        })
    }

    /// The known chats of one platform or of all: from the channel directory, else from conversations.
    pub fn list_targets<'a>(
        &'a self,
        conversations: &'a ConversationIndex,
        platform: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<SendTarget>, SendError>> {
        Box::pin(async move {
            Ok(
                crate::send::target::known_targets(&self.inner.home, conversations, platform)
                    .await?,
            )
        })
    }

    async fn deliver(
        &self,
        destination: &Destination,
        pieces: &[MessagePiece],
    ) -> Result<DeliveredMessage, SendError> {
        let platform = destination.platform;
        let account = self.inner.gateway.account(platform, &destination.account);
        let account = account.and_then(|settings| Some((settings, settings.token.as_ref()?)));
        let Some((settings, token)) = account else {
            return Err(SendError::NotConfigured {
                platform: destination.label(),
            });
        };
        let api = PlatformApi {
            settings,
            addresses: ReachableAddresses::new(settings, &self.policy),
            token,
            client: &self.client_of(destination, settings)?,
            timeout: self.timeout,
            redactor: &self.inner.redactor,
        };
        let chat = destination.chat.clone();
        let opening = |failure| (failure, 0);
        let delivered = match platform {
            Platform::Telegram => {
                delivery::post_pieces(TelegramChannel::new(&api, chat), pieces).await
            }
            Platform::Discord => match DiscordChannel::open(&api, chat, self.mentions).await {
                Ok(discord) => delivery::post_pieces(discord, pieces).await,
                Err(failure) => Err(opening(failure)),
            },
            Platform::Slack => match SlackChannel::open(&api, chat).await {
                Ok(slack) => delivery::post_pieces(slack, pieces).await,
                Err(failure) => Err(opening(failure)),
            },
        };
        delivered.map_err(|(failure, sent_chunks)| SendError::Failed {
            account: Account {
                platform,
                name: destination.account.clone(),
            },
            failure,
            sent_chunks,
        })
    }

    fn client_of(
        &self,
        destination: &Destination,
        settings: &PlatformSettings,
    ) -> Result<Client, SendError> {
        let mut clients = self.inner.clients.lock();
        if let Some(client) = clients.get(&destination.label()) {
            return Ok(client.clone());
        }
        let policy = self.policy.policy();
        let client = http::build_client(destination.platform, settings, policy.egress())?;
        clients.insert(destination.label(), client.clone());
        Ok(client)
    }

    fn media_gate(&self) -> MediaGate {
        let inner = &self.inner;
        MediaGate::new(&inner.home, inner.user.clone(), &inner.gateway.media_dirs)
    }
}
