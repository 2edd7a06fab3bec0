//! The contract between the gateway and a messaging platform.
//!
//! A [`PlatformClient`] is one bot account on one platform. It receives raw updates, hands each to an [`UpdateIntake`],
//! which stores it, and only then acknowledges it to the platform. Later the stored update is decoded into an
//! [`InboundEvent`], which says the same for every platform. What the gateway answers goes back through the client's
//! sending methods, one request each: chunks, retries and order are the outbox's.

mod address;
mod backoff;
mod clock;
pub mod discord;
mod event;
mod health;
mod outbound;
pub mod slack;
pub mod telegram;
mod wire_json;

use std::{path::Path, sync::Arc};

use futures::future::BoxFuture;
use hermes_store::mirror::Channel;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use self::{
    address::{Account, ChatAddress, ChatKind, ChatMark},
    event::{
        Attachment, AttachmentKind, ButtonPress, CommandCall, InboundEvent, InboundKind,
        InboundMessage, QuotedMessage, Sender,
    },
    health::{AnnouncedEnd, AnnouncedEnds, ConnectionState, PlatformHealth},
    outbound::{
        Button, ClientLimits, CommandSpec, LivePreview, OutboundFile, OutboundMessage, PostError,
        Posted, TaskState, TextFormat,
    },
};
pub(crate) use self::{backoff::ReconnectBackoff, clock::steady_time};

/// Messages that are fetched of one chat after an outage, at most. Of more, the newest count.
pub const MAX_MISSED_MESSAGES: usize = 500;

/// An update as the platform sent it.
#[derive(Debug, Clone, PartialEq)]
pub struct RawUpdate {
    /// The same for the same update, however often it is delivered.
    pub event_id: String,
    pub payload: Value,
}

/// Where updates go before they are acknowledged.
pub trait UpdateIntake: Send + Sync {
    /// Stores updates and the position behind them in one transaction. Updates that are known are skipped. After an error
    /// nothing is stored, and nothing may be acknowledged.
    fn store(
        &self,
        updates: Vec<RawUpdate>,
        cursor: Option<Value>,
    ) -> BoxFuture<'_, Result<(), IntakeError>>;

    /// The position that was stored last.
    fn cursor(&self) -> BoxFuture<'_, Result<Option<Value>, IntakeError>>;
}

#[derive(Debug, thiserror::Error)]
#[error("the update could not be stored: {0}")]
pub struct IntakeError(pub String);

/// Why a client stopped receiving for good. It is started again when the configuration changes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FatalError {
    /// A word for programs: `bad_token`, `missing_intent`, `missing_scope`.
    pub code: &'static str,
    /// The cause and the fix, for people.
    pub message: String,
}

/// One bot account on one platform.
pub trait PlatformClient: Send + Sync + 'static {
    fn account(&self) -> &Account;

    fn limits(&self) -> ClientLimits;

    /// The bot's name in commands such as `/stop@name`, without `@`, where commands name one and it is known.
    fn bot_name(&self) -> Option<String> {
        None
    }

    /// The time by the platform's clock, in seconds since 1970: [`InboundEvent::sent_at`] is by the same one.
    fn platform_time(&self) -> f64 {
        hermes_store::epoch_seconds()
    }

    /// Receives updates until `stop` is cancelled, reconnecting by itself for as long as that may help.
    fn receive<'a>(
        &'a self,
        intake: &'a dyn UpdateIntake,
        health: &'a PlatformHealth,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<(), FatalError>>;

    /// What an update says; `None` if it is of no interest. Never fails: unknown members are ignored.
    fn decode(&self, payload: &Value) -> Option<InboundEvent>;

    /// Posts one message that is within the limits.
    fn post<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message: &'a OutboundMessage,
    ) -> BoxFuture<'a, Result<Posted, PostError>>;

    /// The message that was posted with this nonce after that time, in seconds since 1970. `None` if there is none, or if
    /// the platform cannot be asked.
    fn find_posted<'a>(
        &'a self,
        _chat: &'a ChatAddress,
        _nonce: &'a str,
        _since: f64,
    ) -> BoxFuture<'a, Result<Option<String>, PostError>> {
        Box::pin(async { Ok(None) })
    }

    /// Replaces the text and buttons of a message.
    fn edit<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message_id: &'a str,
        message: &'a OutboundMessage,
    ) -> BoxFuture<'a, Result<(), PostError>>;

    fn delete<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message_id: &'a str,
    ) -> BoxFuture<'a, Result<(), PostError>>;

    /// Shows the typing sign, which the platform removes after some seconds.
    fn show_typing<'a>(&'a self, chat: &'a ChatAddress) -> BoxFuture<'a, Result<(), PostError>>;

    /// Opens the platform's own way to show a growing answer. `None` if it has none for this chat: then the gateway edits.
    fn open_preview<'a>(
        &'a self,
        chat: &'a ChatAddress,
        reply_to: Option<&'a InboundEvent>,
    ) -> BoxFuture<'a, Result<Option<Box<dyn LivePreview>>, PostError>>;

    /// Confirms a pressed button or a command of the platform's own, with a short notice to whoever pressed it. One that is
    /// too old for that is [`PostError::TooLate`], where the platform tells.
    fn acknowledge<'a>(
        &'a self,
        event: &'a InboundEvent,
        notice: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), PostError>>;

    /// Adds a reaction to a received message.
    fn react<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message_id: &'a str,
        reaction: &'a str,
    ) -> BoxFuture<'a, Result<(), PostError>>;

    /// Writes an attachment to a file. Stops with an error when it is larger than `max_bytes`.
    fn download<'a>(
        &'a self,
        attachment: &'a Attachment,
        file: &'a Path,
        max_bytes: u64,
    ) -> BoxFuture<'a, Result<(), PostError>>;

    /// Registers the slash commands with the platform.
    fn register_commands<'a>(
        &'a self,
        commands: &'a [CommandSpec],
    ) -> BoxFuture<'a, Result<(), PostError>>;

    /// The channels that the platform can list. Those it cannot list are known from conversations.
    fn list_channels(&self) -> BoxFuture<'_, Result<Vec<Channel>, PostError>>;

    /// Creates a thread on a message, where the platform and the settings want answers in threads of their own.
    fn open_thread<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message_id: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<ChatAddress>, PostError>>;

    /// Further chats beside these in which something may have been said after these messages: the channels around
    /// threads, and threads in which somebody wrote. Empty where the platform delivers by itself what was missed.
    fn find_missed_chats<'a>(
        &'a self,
        _known: &'a [ChatMark],
    ) -> BoxFuture<'a, Result<Vec<ChatMark>, PostError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Updates of a chat after this message, oldest first, [`MAX_MISSED_MESSAGES`] at most: what was said while there
    /// was no connection.
    fn fetch_missed<'a>(
        &'a self,
        _chat: &'a ChatAddress,
        _after_message: &'a str,
    ) -> BoxFuture<'a, Result<Vec<RawUpdate>, PostError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// Clients are shared by everything that sends.
pub type SharedClient = Arc<dyn PlatformClient>;
