//! What was received, in the same form for every platform.

use super::ChatAddress;

#[derive(Debug, Clone, PartialEq)]
pub struct InboundEvent {
    pub chat: ChatAddress,
    /// Who did it. `None` for messages of channels, which nobody signs.
    pub sender: Option<Sender>,
    /// When, by the platform's clock, in seconds since 1970.
    pub sent_at: Option<f64>,
    pub kind: InboundKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum InboundKind {
    Message(Box<InboundMessage>),
    ButtonPress(ButtonPress),
    /// A slash command that the platform parsed: Discord's application commands, Slack's slash commands.
    Command(CommandCall),
    /// The platform's own sign to stop the answer.
    StopPressed,
    /// The chat has another id from now on (Telegram's groups that become supergroups).
    ChatMigrated {
        new_id: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sender {
    pub id: String,
    /// The name for people.
    pub name: Option<String>,
    pub is_bot: bool,
    /// Discord's roles.
    pub roles: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct InboundMessage {
    /// The platform's id of the message.
    pub id: String,
    /// The text without the mention of the bot.
    pub text: String,
    pub attachments: Vec<Attachment>,
    /// The message that this one replies to.
    pub quoted: Option<QuotedMessage>,
    /// Whether the bot is mentioned by name.
    pub mentions_bot: bool,
    /// Messages with the same id here are one album.
    pub album_id: Option<String>,
    /// Who wrote it first, if it was forwarded.
    pub forwarded_from: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotedMessage {
    pub id: String,
    pub text: String,
    pub is_from_bot: bool,
    pub author: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    pub kind: AttachmentKind,
    /// What the client needs to download it.
    pub reference: String,
    /// The name that its sender gave it. Not a path.
    pub name: Option<String>,
    pub mime_type: Option<String>,
    pub size: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachmentKind {
    Image,
    Video,
    /// A file with sound, such as music.
    Audio,
    /// Something spoken.
    Voice,
    Document,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ButtonPress {
    /// What the button carries: [`super::Button::data`].
    pub data: String,
    /// The message that the button belongs to.
    pub message_id: Option<String>,
    /// What the client needs to acknowledge it.
    pub token: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandCall {
    /// Without the slash.
    pub name: String,
    pub arguments: String,
    /// What the client needs to acknowledge it.
    pub token: String,
}
