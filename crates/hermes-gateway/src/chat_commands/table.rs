//! The commands as data: names, arguments, descriptions.

use std::time::Duration;

use hermes_config::Platform;

use crate::platform::CommandSpec;

/// What a command does, whatever it is typed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommandName {
    New,
    Stop,
    Approve,
    Deny,
    Status,
    Help,
    ReloadMcp,
    Model,
    Sessions,
    Resume,
    Undo,
    Retry,
    Title,
    Usage,
    Whoami,
    SetHome,
    Compress,
    Queue,
    Background,
    Commands,
    Version,
    ReloadSkills,
    Mcp,
    Skills,
}

/// Whether a command changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEffect {
    /// It only shows something.
    Shows,
    /// It does something, and must not do it late.
    Acts,
}

#[derive(Debug, Clone, Copy)]
pub struct ChatCommand {
    pub name: CommandName,
    /// As people type it: `reload-mcp`.
    pub word: &'static str,
    /// The same for platforms whose names have no hyphen.
    pub underscored: &'static str,
    pub aliases: &'static [&'static str],
    /// What its argument is called, in one word, where the platform asks for it.
    pub argument: Option<&'static str>,
    /// How its arguments are typed.
    pub usage: &'static str,
    pub description: &'static str,
    pub effect: CommandEffect,
}

/// A command that is one word without a hyphen.
const fn row(
    name: CommandName,
    word: &'static str,
    effect: CommandEffect,
    description: &'static str,
) -> ChatCommand {
    ChatCommand {
        name,
        word,
        underscored: word,
        aliases: &[],
        argument: None,
        usage: "",
        description,
        effect,
    }
}

/// The same with an argument.
const fn row_with(
    name: CommandName,
    word: &'static str,
    argument: &'static str,
    usage: &'static str,
    effect: CommandEffect,
    description: &'static str,
) -> ChatCommand {
    ChatCommand {
        argument: Some(argument),
        usage,
        ..row(name, word, effect, description)
    }
}

use CommandEffect::{Acts, Shows};

/// In the order in which help lists them.
pub(super) const COMMANDS: [ChatCommand; 24] = [
    ChatCommand {
        aliases: &["reset"],
        ..row_with(
            CommandName::New,
            "new",
            "title",
            "[title]",
            Acts,
            "Begin a new conversation",
        )
    },
    row_with(
        CommandName::Stop,
        "stop",
        "name",
        "[NAME|all]",
        Acts,
        "Stop the answer and its tool calls; or work in the background, by its name",
    ),
    row_with(
        CommandName::Approve,
        "approve",
        "choice",
        "[all] [session|always]",
        Acts,
        "Allow what waits for approval, or all of it; for the session or always",
    ),
    row_with(
        CommandName::Deny,
        "deny",
        "reason",
        "[all] [reason]",
        Acts,
        "Refuse what waits for approval, or all of it; the reason goes to the agent",
    ),
    row(
        CommandName::Status,
        "status",
        Shows,
        "Show session, model, tokens, servers and platforms",
    ),
    ChatCommand {
        aliases: &["start"],
        ..row_with(
            CommandName::Help,
            "help",
            "page",
            "[page]",
            Shows,
            "List the commands",
        )
    },
    row_with(
        CommandName::Model,
        "model",
        "name",
        "[name] [--provider p] [--global|--session]",
        Acts,
        "Show the model, or use another one",
    ),
    row(
        CommandName::Sessions,
        "sessions",
        Shows,
        "List earlier conversations of this chat",
    ),
    row_with(
        CommandName::Resume,
        "resume",
        "session",
        "[id or title]",
        Acts,
        "Go back to an earlier conversation",
    ),
    row_with(
        CommandName::Undo,
        "undo",
        "turns",
        "[n]",
        Acts,
        "Take back the last turns",
    ),
    row(
        CommandName::Retry,
        "retry",
        Acts,
        "Take back the last answer and try again",
    ),
    row_with(
        CommandName::Title,
        "title",
        "text",
        "[text]",
        Acts,
        "Show the title of the conversation, or set it",
    ),
    row(CommandName::Usage, "usage", Shows, "Show tokens and cost"),
    row(
        CommandName::Whoami,
        "whoami",
        Shows,
        "Show your ids and what you may do",
    ),
    row(
        CommandName::SetHome,
        "sethome",
        Acts,
        "Make this chat the home channel",
    ),
    row(
        CommandName::Compress,
        "compress",
        Acts,
        "Summarize the conversation to free context",
    ),
    row_with(
        CommandName::Queue,
        "queue",
        "text",
        "TEXT",
        Acts,
        "Answer this after the current turn",
    ),
    row_with(
        CommandName::Background,
        "background",
        "text",
        "TEXT",
        Acts,
        "Work on this in a conversation of its own",
    ),
    row(CommandName::Mcp, "mcp", Shows, "Show the MCP servers"),
    ChatCommand {
        underscored: "reload_mcp",
        aliases: &["reloadmcp"],
        ..row_with(
            CommandName::ReloadMcp,
            "reload-mcp",
            "choice",
            "[once|always|cancel]",
            Acts,
            "Read the configuration again and restart MCP servers that changed",
        )
    },
    row(
        CommandName::Skills,
        "skills",
        Shows,
        "List skills; /name uses one",
    ),
    ChatCommand {
        underscored: "reload_skills",
        aliases: &["reloadskills"],
        ..row(
            CommandName::ReloadSkills,
            "reload-skills",
            Acts,
            "Look for skills again",
        )
    },
    row_with(
        CommandName::Commands,
        "commands",
        "page",
        "[page]",
        Shows,
        "List all commands and skills",
    ),
    row(CommandName::Version, "version", Shows, "Show the version"),
];

impl ChatCommand {
    /// `/undo [n]`.
    pub(super) fn usage_line(&self) -> String {
        format!("/{} {}", self.word, self.usage)
            .trim_end()
            .to_owned()
    }
}

impl CommandName {
    /// Its row. Every name has one: a test compares them.
    pub fn row(self) -> &'static ChatCommand {
        COMMANDS
            .iter()
            .find(|command| command.name == self)
            .unwrap_or(&COMMANDS[0])
    }

    /// As people type it, without the slash. Rights are given by this word.
    pub fn word(self) -> &'static str {
        self.row().word
    }

    /// Whether it does something, and must not do it late or twice.
    pub fn acts(self) -> bool {
        self.row().effect == CommandEffect::Acts
    }
}

/// The command of that name or alias, in any case, with hyphens or underscores.
pub fn find_command(typed: &str) -> Option<CommandName> {
    let typed = typed.to_ascii_lowercase().replace('_', "-");
    let is_meant = |command: &&ChatCommand| {
        command.word == typed || command.aliases.iter().any(|alias| *alias == typed)
    };
    Some(COMMANDS.iter().find(is_meant)?.name)
}

/// The commands as they are registered with a platform.
pub fn command_specs(platform: Platform) -> Vec<CommandSpec> {
    let spec = |command: &ChatCommand| CommandSpec {
        name: match platform {
            // Telegram's names have no hyphen.
            Platform::Telegram => command.underscored,
            Platform::Discord | Platform::Slack => command.word,
        },
        description: command.description,
        argument: command.argument,
    };
    COMMANDS.iter().map(spec).collect()
}

/// A command that was sent longer ago does nothing.
const MAX_AGE: Duration = Duration::from_mins(1);

/// Whether a command comes too late to do anything: after an outage it would stop or approve something else than was meant.
/// Times are in seconds since 1970.
pub fn is_stale(name: CommandName, sent_at: Option<f64>, now: f64) -> bool {
    let is_old = sent_at.is_some_and(|sent_at| now - sent_at > MAX_AGE.as_secs_f64());
    is_old && name.acts()
}
