//! What commands need of the running gateway, for the conversation of one chat.

use std::io;

use futures::future::BoxFuture;
use hermes_agent::approval::Decision;
use hermes_config::{Home, remove_variable, write_variable};
use hermes_mcp::{ReloadReport, ServerStatus};
use hermes_store::{ModelUsage, SessionUsage};

use crate::platform::{Account, ChatAddress, Sender};

/// Why a command could not do what it says, as a sentence for the chat.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CommandError(pub String);

impl CommandError {
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Who sent the command, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandCaller {
    pub account: Account,
    pub chat: ChatAddress,
    pub sender: Sender,
    /// Whether every command may be used: [`crate::access::is_admin`].
    pub is_admin: bool,
    /// Why the sender may use the bot: [`crate::access::AccessGrant::reason`].
    pub access_reason: &'static str,
}

/// What stopping did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StopOutcome {
    pub was_running: bool,
    /// Messages that waited for their turn and were dropped.
    pub dropped: usize,
}

/// Something that goes on in the background of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundLine {
    /// `bg1`, or the id of a command that the agent left running.
    pub name: String,
    /// What it works on, or its command line.
    pub subject: String,
}

/// A request that waits for a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingApproval {
    pub id: String,
    /// What would be done, redacted.
    pub subject: String,
    pub can_allow_always: bool,
    /// Whether it is a form, which a yes alone does not fill in.
    pub needs_answers: bool,
}

#[derive(Debug, Clone, Default)]
pub struct StatusFacts {
    pub session_id: Option<String>,
    pub title: Option<String>,
    pub messages: usize,
    pub model: Option<ModelFacts>,
    pub usage: SessionUsage,
    pub servers: Vec<ServerStatus>,
    pub platforms: Vec<PlatformLine>,
    /// Whether a turn is under way, and how many messages wait.
    pub is_busy: bool,
    pub queued: usize,
    pub waiting_approvals: usize,
    pub background: Vec<BackgroundLine>,
}

/// One account in `/status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformLine {
    /// `telegram`, `telegram@work`.
    pub account: String,
    /// `connected`, `reconnecting`, `deaf` and so on.
    pub state: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFacts {
    pub model: String,
    pub provider: String,
    /// Where it was chosen.
    pub scope: ModelScope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ModelScope {
    #[default]
    Session,
    Global,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRequest {
    pub model: String,
    pub provider: Option<String>,
    pub scope: ModelScope,
}

/// One conversation in `/sessions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLine {
    pub id: String,
    pub title: Option<String>,
    /// The beginning of its first message, where it has no title.
    pub preview: Option<String>,
    pub messages: usize,
    /// When something was said last, for people.
    pub last_active: String,
    pub is_current: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoOutcome {
    /// Turns that were taken back.
    pub turns: u32,
    /// What the user had said first in them.
    pub text: String,
}

#[derive(Debug, Clone, Default)]
pub struct UsageFacts {
    pub total: SessionUsage,
    pub models: Vec<ModelUsage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressOutcome {
    pub messages_before: usize,
    pub messages_after: usize,
}

/// Where a message that waits stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueOutcome {
    /// Nothing else runs: it is answered now.
    Started,
    /// It is stored. The next one has place 1.
    Queued { place: usize },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillLine {
    pub name: String,
    pub description: String,
}

/// What an operation of the gateway returns.
pub type CommandFuture<'a, T> = BoxFuture<'a, Result<T, CommandError>>;

/// The conversation of one chat in the running gateway.
pub trait ChatCommandContext: Send + Sync {
    fn caller(&self) -> &CommandCaller;

    /// Whether the caller may use a command, by its word: [`crate::access::may_use_command`].
    fn may_use(&self, command: &str) -> bool;

    /// Ends the session and begins another one under the same key. Returns its id.
    fn new_session<'a>(&'a self, title: Option<&'a str>) -> CommandFuture<'a, String>;

    /// Interrupts the turn with its tool and MCP calls.
    fn stop_turn(&self) -> CommandFuture<'_, StopOutcome>;

    /// What waits for a decision in this session, the oldest first.
    fn waiting_approvals(&self) -> CommandFuture<'_, Vec<WaitingApproval>>;

    /// Decides. False if it did not wait any more.
    fn decide<'a>(&'a self, approval_id: &'a str, decision: Decision) -> CommandFuture<'a, bool>;

    fn status(&self) -> CommandFuture<'_, StatusFacts>;

    fn model(&self) -> CommandFuture<'_, Option<ModelFacts>>;

    fn set_model<'a>(&'a self, request: &'a ModelRequest) -> CommandFuture<'a, ModelFacts>;

    /// Earlier sessions of this chat, the newest first, with the current one.
    fn list_sessions(&self) -> CommandFuture<'_, Vec<SessionLine>>;

    /// Makes another session the one of this chat: by its id, the beginning of its id, or its title.
    fn switch_session<'a>(&'a self, session: &'a str) -> CommandFuture<'a, SessionLine>;

    fn undo(&self, turns: u32) -> CommandFuture<'_, UndoOutcome>;

    /// Takes back the last turn and runs it again. The answer comes as every answer does.
    fn retry(&self) -> CommandFuture<'_, ()>;

    fn title(&self) -> CommandFuture<'_, Option<String>>;

    /// Returns the title as it was stored.
    fn set_title<'a>(&'a self, title: &'a str) -> CommandFuture<'a, String>;

    fn usage(&self) -> CommandFuture<'_, Option<UsageFacts>>;

    /// Makes this chat the home channel: [`super::write_home_channel`], and the running settings.
    fn set_home(&self) -> CommandFuture<'_, ()>;

    /// What a reload would do, and whether it has to be confirmed (`approvals.mcp_reload_confirm`).
    fn plan_mcp_reload(&self) -> CommandFuture<'_, (ReloadReport, bool)>;

    /// Reloads. `is_remembered` writes `approvals.mcp_reload_confirm: false` first. The model is told by the context.
    fn reload_mcp(&self, is_remembered: bool) -> CommandFuture<'_, ReloadReport>;

    fn mcp_servers(&self) -> CommandFuture<'_, Vec<ServerStatus>>;

    fn compress(&self) -> CommandFuture<'_, CompressOutcome>;

    /// Answers this after what is under way.
    fn queue<'a>(&'a self, text: &'a str) -> CommandFuture<'a, QueueOutcome>;

    /// Works on this in a session of its own. The answer comes to this chat. Returns the name under which it can be
    /// ended.
    fn run_in_background<'a>(&'a self, text: &'a str) -> CommandFuture<'a, String>;

    /// What goes on in the background of this chat.
    fn background(&self) -> CommandFuture<'_, Vec<BackgroundLine>>;

    /// Ends one thing in the background, or everything there. Returns what was ended.
    fn stop_background<'a>(
        &'a self,
        name: Option<&'a str>,
    ) -> CommandFuture<'a, Vec<BackgroundLine>>;

    fn skills(&self) -> CommandFuture<'_, Vec<SkillLine>>;

    /// Looks for skills again. Returns how many there are.
    fn reload_skills(&self) -> CommandFuture<'_, usize>;

    /// Runs a turn with a skill. False if there is no such skill.
    fn use_skill<'a>(&'a self, name: &'a str, text: &'a str) -> CommandFuture<'a, bool>;
}

/// Makes a chat the home channel of an account. Other lines of `.env` stay as they are.
pub fn write_home_channel(home: &Home, account: &Account, chat: &ChatAddress) -> io::Result<()> {
    write_variable(home, &account.variable("HOME_CHANNEL"), &chat.id)?;
    // A name or topic of the former one would be wrong.
    for (what, value) in [
        ("HOME_CHANNEL_NAME", chat.name.as_deref()),
        ("HOME_CHANNEL_THREAD_ID", chat.thread_id.as_deref()),
    ] {
        match value {
            Some(value) => write_variable(home, &account.variable(what), value)?,
            None => remove_variable(home, &account.variable(what))?,
        }
    }
    Ok(())
}
