//! What is sent: messages, edits, buttons, files, and growing answers.

use std::{path::PathBuf, time::Duration};

use futures::future::BoxFuture;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutboundMessage {
    /// Markdown, as models write it. The client renders it for its platform.
    pub text: String,
    pub format: TextFormat,
    /// Rows of buttons.
    pub buttons: Vec<Vec<Button>>,
    /// The message to reply to.
    pub reply_to: Option<String>,
    /// One file, or several as an album. With files the text is their caption.
    pub files: Vec<OutboundFile>,
    /// The same for the same message: a platform that knows it posts it once (Discord's nonce, 25 characters), or tells
    /// whether it was posted (Slack's metadata).
    pub nonce: Option<String>,
    /// Whether it arrives without a sound.
    pub is_silent: bool,
}

impl OutboundMessage {
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextFormat {
    #[default]
    Markdown,
    /// As it is: the platform refused the markup, or it is not ours.
    Plain,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Button {
    pub label: String,
    /// What comes back when it is pressed, 64 bytes at most; or an address to open.
    pub data: String,
    pub is_link: bool,
}

impl Button {
    /// Stops the answer that grows above it: the command `/stop`.
    pub fn stop() -> Self {
        Self {
            label: "Stop".into(),
            data: "cmd:stop:".into(),
            is_link: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboundFile {
    pub path: PathBuf,
    pub kind: super::AttachmentKind,
    /// The name that its receiver sees.
    pub name: String,
}

/// The platform's reply to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    pub message_id: String,
    /// The thread it went to, if it is not the one asked for: a missing topic falls back to the chat.
    pub warning: Option<String>,
}

/// Why a request to the platform failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PostError {
    /// It accepts nothing for so long. Waited for in full.
    #[error("rate limited for {} s", wait.as_secs_f32())]
    RateLimited { wait: Duration },
    /// There was no connection, or a server failed: later it may work.
    #[error("{reason}")]
    Temporary { reason: String },
    /// The markup was refused: the same message as plain text may work.
    #[error("the markup was refused: {reason}")]
    Markup { reason: String },
    /// The chat has another id from now on.
    #[error("the chat has the id {new_id} now")]
    Migrated { new_id: String },
    /// The platform does not know this method. The client remembers it.
    #[error("the platform does not support this")]
    Unsupported,
    /// The token is not valid any more.
    #[error("{reason}")]
    BadToken { reason: String },
    /// The platform does not wait for this any more.
    #[error("the platform does not wait for this any more")]
    TooLate,
    /// It will not work: the chat is gone, the bot was blocked, the message is invalid.
    #[error("{reason}")]
    Refused { reason: String },
}

impl PostError {
    /// Whether the same request may work later.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::Temporary { .. })
    }
}

/// What a platform's messages may be.
#[derive(Debug, Clone, Copy)]
pub struct ClientLimits {
    pub message: usize,
    pub caption: usize,
    /// How the platform counts, after rendering.
    pub measure: fn(&str) -> usize,
    /// The least time between two edits in a chat, for direct chats and for groups.
    pub edit_interval: (Duration, Duration),
    /// How often the typing sign has to be repeated.
    pub typing_interval: Duration,
    /// The most files in one message.
    pub album: usize,
}

/// A command that the platform shows to people who type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    pub name: &'static str,
    pub description: &'static str,
    /// What its argument is called; `None` if it takes none.
    pub argument: Option<&'static str>,
}

/// The state of a step that a growing answer shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    InProgress,
    Complete,
    Failed,
}

/// The platform's own way to show an answer while it grows.
///
/// The gateway calls one method at a time. Clients join what comes too fast for their platform.
pub trait LivePreview: Send + Sync {
    /// The message that it is, where people keep seeing it if the gateway dies.
    fn message_id(&self) -> Option<&str> {
        None
    }

    /// Shows the answer so far, from its beginning.
    fn update<'a>(&'a mut self, text: &'a str) -> BoxFuture<'a, Result<(), PostError>>;

    /// Shows a step, such as a tool call.
    fn update_task<'a>(
        &'a mut self,
        id: &'a str,
        title: &'a str,
        state: TaskState,
    ) -> BoxFuture<'a, Result<(), PostError>>;

    /// Turns the preview into the message. Returns the message, or `None` if the preview vanishes and the gateway has to
    /// post the message itself. A text that is longer than a message is cut by the gateway before: this gets the first part.
    fn finish<'a>(
        &'a mut self,
        message: &'a OutboundMessage,
    ) -> BoxFuture<'a, Result<Option<Posted>, PostError>>;

    /// Removes the preview.
    fn discard(&mut self) -> BoxFuture<'_, ()>;
}
