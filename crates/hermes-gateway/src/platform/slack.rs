//! Slack: updates over Socket Mode, everything else by the Web API.

mod api;
mod blocks;
mod decode;
mod files;
mod history;
mod identity;
mod manifest;
mod names;
mod post;
mod receive;
mod session;
mod socket;
mod stream;
mod text;
mod typing;
mod updates;

use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use hermes_agent::policy::PolicyHandle;
use hermes_config::{
    PlatformSettings, Secret,
    sync::{Mutex, RwLock},
};
use hermes_store::mirror::Channel;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::{
    api::SlackApi, identity::SlackIdentity, names::SlackNameCache, typing::SlackWorkingThreads,
};
use super::{
    Account, Attachment, ChatAddress, ChatMark, ClientLimits, CommandSpec, FatalError,
    InboundEvent, LivePreview, OutboundMessage, PlatformClient, PlatformHealth, PostError, Posted,
    RawUpdate, UpdateIntake,
};
use crate::send::SendError;

pub use manifest::{SLACK_EVENTS, slack_manifest};

/// The most characters in a message. New ones take 40,000; but streams refuse more than about 12,000, and so does the edit that
/// makes a preview the answer.
const MESSAGE_CHARS: usize = 11_000;
/// Edits count as requests of Slack's third tier: 50 a minute.
const EDIT_INTERVAL: Duration = Duration::from_millis(1_300);
/// Files that are shared in one message.
const ALBUM: usize = 10;

/// How long things of Slack take at most.
#[derive(Debug, Clone, Copy)]
pub struct SlackTimeouts {
    /// A request to the Web API.
    pub request: Duration,
    /// Opening a socket, from the first request to the handshake.
    pub connect: Duration,
    pub ping_interval: Duration,
    /// A socket that nothing is heard from for so long is dead.
    pub silence: Duration,
    /// The pause after a first failure to connect. It is doubled up to the longest.
    pub first_pause: Duration,
    pub longest_pause: Duration,
    /// A socket that Slack wants to close is read for so long.
    pub leaving: Duration,
    /// The time between two pieces of a stream.
    pub stream_interval: Duration,
}

impl Default for SlackTimeouts {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(30),
            connect: Duration::from_secs(30),
            ping_interval: Duration::from_secs(10),
            silence: Duration::from_secs(30),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_mins(1),
            leaving: Duration::from_secs(30),
            stream_interval: Duration::from_millis(750),
        }
    }
}

/// A Slack app in one workspace.
#[derive(Clone)]
pub struct SlackClient {
    core: Arc<SlackCore>,
}

/// What the client and its streams share.
struct SlackCore {
    account: Account,
    api: SlackApi,
    app_token: Option<Secret<String>>,
    timeouts: SlackTimeouts,
    identity: RwLock<Option<SlackIdentity>>,
    names: SlackNameCache,
    /// Channels of users that were written to by their id.
    direct_channels: Mutex<HashMap<String, String>>,
    working: SlackWorkingThreads,
}

impl SlackClient {
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
        Self::with_timeouts(account, settings, policy, SlackTimeouts::default())
    }

    pub fn with_timeouts(
        account: Account,
        settings: &PlatformSettings,
        policy: &PolicyHandle,
        timeouts: SlackTimeouts,
    ) -> Result<Self, SendError> {
        Ok(Self {
            core: Arc::new(SlackCore {
                account,
                api: SlackApi::new(settings, policy, timeouts.request)?,
                app_token: settings.app_token.clone(),
                timeouts,
                identity: RwLock::new(None),
                names: SlackNameCache::default(),
                direct_channels: Mutex::default(),
                working: SlackWorkingThreads::default(),
            }),
        })
    }
}

impl PlatformClient for SlackClient {
    fn account(&self) -> &Account {
        &self.core.account
    }

    fn platform_time(&self) -> f64 {
        self.core.api.clock.now()
    }

    fn limits(&self) -> ClientLimits {
        ClientLimits {
            message: MESSAGE_CHARS,
            caption: MESSAGE_CHARS,
            measure: blocks::count_markdown,
            edit_interval: (EDIT_INTERVAL, EDIT_INTERVAL),
            typing_interval: typing::TYPING_INTERVAL,
            album: ALBUM,
        }
    }

    fn receive<'a>(
        &'a self,
        intake: &'a dyn UpdateIntake,
        health: &'a PlatformHealth,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<(), FatalError>> {
        Box::pin(self.core.receive_updates(intake, health, stop))
    }

    fn decode(&self, payload: &Value) -> Option<InboundEvent> {
        self.core.decode_update(payload)
    }

    fn post<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message: &'a OutboundMessage,
    ) -> BoxFuture<'a, Result<Posted, PostError>> {
        Box::pin(self.core.post_message(chat, message))
    }

    fn find_posted<'a>(
        &'a self,
        chat: &'a ChatAddress,
        nonce: &'a str,
        since: f64,
    ) -> BoxFuture<'a, Result<Option<String>, PostError>> {
        Box::pin(self.core.find_posted(chat, nonce, since))
    }

    fn edit<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message_id: &'a str,
        message: &'a OutboundMessage,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(self.core.edit_message(chat, message_id, message))
    }

    fn delete<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message_id: &'a str,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(self.core.delete_message(chat, message_id))
    }

    fn show_typing<'a>(&'a self, chat: &'a ChatAddress) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(self.core.show_working(chat))
    }

    fn open_preview<'a>(
        &'a self,
        chat: &'a ChatAddress,
        reply_to: Option<&'a InboundEvent>,
    ) -> BoxFuture<'a, Result<Option<Box<dyn LivePreview>>, PostError>> {
        Box::pin(stream::open_stream(&self.core, chat, reply_to))
    }

    /// The envelope was acknowledged when it was stored, so only the notice is left.
    fn acknowledge<'a>(
        &'a self,
        event: &'a InboundEvent,
        notice: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async move {
            match notice {
                Some(notice) => self.core.send_notice(event, notice).await,
                None => Ok(()),
            }
        })
    }

    fn react<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message_id: &'a str,
        reaction: &'a str,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(self.core.add_reaction(chat, message_id, reaction))
    }

    fn download<'a>(
        &'a self,
        attachment: &'a Attachment,
        file: &'a Path,
        max_bytes: u64,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(self.core.download_file(attachment, file, max_bytes))
    }

    /// Slack's commands are in the manifest of the app: [`slack_manifest`].
    fn register_commands<'a>(
        &'a self,
        _commands: &'a [CommandSpec],
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async { Ok(()) })
    }

    fn list_channels(&self) -> BoxFuture<'_, Result<Vec<Channel>, PostError>> {
        Box::pin(self.core.find_channels())
    }

    /// A thread begins with the first reply to a message; nothing has to be created.
    fn open_thread<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message_id: &'a str,
        _name: &'a str,
    ) -> BoxFuture<'a, Result<Option<ChatAddress>, PostError>> {
        Box::pin(async move {
            Ok(Some(ChatAddress {
                thread_id: Some(message_id.to_owned()),
                ..chat.clone()
            }))
        })
    }

    fn find_missed_chats<'a>(
        &'a self,
        known: &'a [ChatMark],
    ) -> BoxFuture<'a, Result<Vec<ChatMark>, PostError>> {
        Box::pin(self.core.find_active_chats(known))
    }

    fn fetch_missed<'a>(
        &'a self,
        chat: &'a ChatAddress,
        after_message: &'a str,
    ) -> BoxFuture<'a, Result<Vec<RawUpdate>, PostError>> {
        Box::pin(self.core.find_missed(chat, after_message))
    }
}
