//! Commands within a conversation: the table of all of them, and the way from what was typed to what is done.

use hermes_agent::{
    conversation::Conversation,
    message::{Content, Part},
};
use tokio_util::sync::CancellationToken;

use super::start;
use crate::{
    commands::chat::{prompts::queue::PromptQueue, screen::Screen},
    context::Context,
    failure::Failure,
    server_requests::ServerRequests,
};

mod attach;
mod help;
mod home;
mod prompt;
mod reload;
mod servers;
mod session;
mod state;
pub(crate) mod tools;
mod transcript;

pub(super) use prompt::is_prompt_name;
pub(super) use reload::apply_settings;
pub(super) use session::describe_resumed;
pub(super) use state::by_state;

pub(super) struct ChatCommand {
    /// How it is called.
    pub(super) name: &'static str,
    /// How else.
    pub(super) aliases: &'static [&'static str],
    /// What follows it, as help shows it.
    pub(super) arguments: &'static str,
    /// What it does, in one line.
    pub(super) about: &'static str,
    /// What it requires.
    pub(super) needs: CommandNeeds,
    verb: ChatVerb,
}

/// What a command requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandNeeds {
    Nothing,
    Model,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChatVerb {
    Help,
    New,
    Stop,
    Status,
    Model,
    Sessions,
    Resume,
    Undo,
    Retry,
    Title,
    Usage,
    Whoami,
    Tools,
    Call,
    Mcp,
    Reload,
    Skills,
    Cron,
    History,
    Save,
    Copy,
    Paste,
    Image,
    Background,
    Verbose,
    Compress,
    Clear,
    Config,
    Quit,
}

const fn command(
    verb: ChatVerb,
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
) -> ChatCommand {
    let needs = match verb {
        ChatVerb::Retry | ChatVerb::Background | ChatVerb::Compress => CommandNeeds::Model,
        _ => CommandNeeds::Nothing,
    };
    let aliases: &[&str] = match verb {
        ChatVerb::New => &["reset"],
        ChatVerb::Reload => &["reload_mcp"],
        ChatVerb::Quit => &["exit"],
        _ => &[],
    };
    ChatCommand {
        name,
        aliases,
        arguments,
        about,
        needs,
        verb,
    }
}

/// All of them, in the order of `/help`.
pub(super) static COMMANDS: [ChatCommand; 29] = [
    command(ChatVerb::Help, "help", "", "show these commands"),
    command(ChatVerb::New, "new", "[TITLE]", "start a new session"),
    command(ChatVerb::Sessions, "sessions", "", "list earlier sessions"),
    command(
        ChatVerb::Resume,
        "resume",
        "[SESSION]",
        "resume a session: its id, the start of its id, or its title",
    ),
    command(
        ChatVerb::Title,
        "title",
        "[TEXT]",
        "show the session's title, or set it",
    ),
    command(
        ChatVerb::History,
        "history",
        "[N]",
        "show the last N messages",
    ),
    command(ChatVerb::Undo, "undo", "[N]", "take back the last N turns"),
    command(
        ChatVerb::Retry,
        "retry",
        "",
        "take back the last turn and run it again",
    ),
    command(
        ChatVerb::Save,
        "save",
        "[FILE]",
        "write the conversation to a file",
    ),
    command(
        ChatVerb::Compress,
        "compress",
        "",
        "summarize the conversation so far, to free context",
    ),
    command(
        ChatVerb::Model,
        "model",
        "[NAME] [--provider P] [--global]",
        "show the model, or switch to another",
    ),
    command(
        ChatVerb::Tools,
        "tools",
        "[enable|disable NAME]",
        "list all tools, or turn a toolset or server on or off",
    ),
    command(
        ChatVerb::Call,
        "call",
        "SERVER.TOOL [JSON or key=value …]",
        "call a tool yourself; no model is needed",
    ),
    command(
        ChatVerb::Mcp,
        "mcp",
        "[login|enable|disable NAME]",
        "show the MCP servers, log in, or switch one on or off",
    ),
    command(
        ChatVerb::Reload,
        "reload-mcp",
        "",
        "read the configuration again and restart what changed",
    ),
    command(
        ChatVerb::Skills,
        "skills",
        "",
        "list skills; `/NAME` uses one",
    ),
    command(
        ChatVerb::Cron,
        "cron",
        "[pause|resume|run JOB]",
        "list the scheduled jobs, or control one",
    ),
    command(
        ChatVerb::Image,
        "image",
        "PATH",
        "show an image to the model with the next message",
    ),
    command(
        ChatVerb::Paste,
        "paste",
        "",
        "attach an image or text from the clipboard to the next message",
    ),
    command(
        ChatVerb::Copy,
        "copy",
        "",
        "copy the last answer to the clipboard",
    ),
    command(
        ChatVerb::Background,
        "background",
        "TEXT",
        "work on TEXT in a session of its own and show the answer later",
    ),
    command(
        ChatVerb::Stop,
        "stop",
        "",
        "stop the turn that runs; at the prompt, what runs in the background",
    ),
    command(
        ChatVerb::Status,
        "status",
        "",
        "show session, model, tokens and servers",
    ),
    command(
        ChatVerb::Usage,
        "usage",
        "",
        "show tokens and cost by model",
    ),
    command(ChatVerb::Whoami, "whoami", "", "show who and where you are"),
    command(
        ChatVerb::Config,
        "config",
        "",
        "show where the configuration is and what is in effect",
    ),
    command(
        ChatVerb::Verbose,
        "verbose",
        "",
        "switch showing arguments and results of tools on or off",
    ),
    command(ChatVerb::Clear, "clear", "", "clear the screen"),
    command(ChatVerb::Quit, "quit", "", "leave"),
];

/// The command of that name.
pub(super) fn find_command(name: &str) -> Option<&'static ChatCommand> {
    COMMANDS
        .iter()
        .find(|command| command.name == name || command.aliases.contains(&name))
}

/// What commands of a chat work with.
pub(super) struct ChatContext<'a> {
    pub(super) context: &'a Context,
    pub(super) conversation: &'a mut Conversation,
    pub(super) screen: &'a Screen,
    pub(super) prompts: &'a PromptQueue,
    pub(super) server_requests: &'a ServerRequests,
    pub(super) pending: &'a mut PendingMessage,
    /// Ends what takes its time.
    pub(super) cancel: CancellationToken,
}

/// Attachments and notes for the next message, and the last answer.
#[derive(Default)]
pub(super) struct PendingMessage {
    pub(super) parts: Vec<Part>,
    /// Told to the model before the user's words.
    pub(super) notes: Vec<String>,
    pub(super) last_answer: String,
}

impl PendingMessage {
    /// The next message: this text with all attachments and notes.
    pub(super) fn take_message(&mut self, text: &str) -> Content {
        let mut lines = std::mem::take(&mut self.notes);
        lines.push(text.to_owned());
        let text = lines.join("\n\n");
        if self.parts.is_empty() {
            return text.into();
        }
        let mut parts = vec![Part::from_text(text)];
        parts.append(&mut self.parts);
        parts.into()
    }
}

/// The result of a command.
#[derive(Debug)]
pub(super) struct CommandOutcome {
    /// To be printed.
    pub(super) text: String,
    pub(super) next: NextStep,
}

/// What happens after a command.
#[derive(Debug)]
pub(super) enum NextStep {
    /// The next line is waited for.
    Continue,
    /// The conversation ends.
    Quit,
    /// This is said.
    SendMessage(Content),
    /// The last turn is run again.
    Retry,
    /// This is worked on beside the conversation.
    Background(String),
    /// What runs in the background ends.
    StopBackground,
}

impl CommandOutcome {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            next: NextStep::Continue,
        }
    }

    fn next(next: NextStep) -> Self {
        Self {
            text: String::new(),
            next,
        }
    }
}

/// Runs what was typed.
pub(super) async fn run_command(
    chat: &mut ChatContext<'_>,
    slash: SlashCommand<'_>,
) -> Result<CommandOutcome, Failure> {
    let Some(command) = find_command(slash.name) else {
        return run_prompt_or_skill(chat, slash).await;
    };
    if command.needs == CommandNeeds::Model {
        let selection = chat.conversation.find_model().await;
        selection.map_err(|error| start::conversation_failure(&error))?;
    }
    let rest = slash.rest;
    match command.verb {
        ChatVerb::Help => Ok(CommandOutcome::text(help::help_text(chat))),
        ChatVerb::New => session::new(chat, rest).await,
        ChatVerb::Sessions => session::list(chat).await,
        ChatVerb::Resume => session::resume(chat, rest).await,
        ChatVerb::Title => session::title(chat, rest).await,
        ChatVerb::Undo => session::undo(chat, rest).await,
        ChatVerb::Retry => Ok(CommandOutcome::next(NextStep::Retry)),
        ChatVerb::Compress => session::compress(chat).await,
        ChatVerb::History => transcript::history(chat, rest),
        ChatVerb::Save => transcript::save(chat, rest),
        ChatVerb::Model => state::model(chat, rest).await,
        ChatVerb::Status => state::status(chat).await,
        ChatVerb::Usage => state::usage(chat).await,
        ChatVerb::Whoami => Ok(state::whoami(chat)),
        ChatVerb::Config => Ok(state::config(chat)),
        ChatVerb::Tools => tools::run(chat.conversation, rest).map(CommandOutcome::text),
        ChatVerb::Call => crate::commands::chat::call::call_and_show(chat, rest).await,
        ChatVerb::Mcp => servers::run(chat, rest).await,
        ChatVerb::Reload => reload::run(chat).await,
        ChatVerb::Skills => home::skills(chat),
        ChatVerb::Cron => home::cron(chat, rest),
        ChatVerb::Image => attach::image(chat, rest),
        ChatVerb::Paste => attach::paste_clipboard(chat).await,
        ChatVerb::Copy => attach::copy_answer(chat),
        ChatVerb::Background if rest.is_empty() => {
            Err(Failure::usage("`/background` needs a task")
                .hint("`/background sum up the README`"))
        }
        ChatVerb::Background => Ok(CommandOutcome::next(NextStep::Background(rest.to_owned()))),
        ChatVerb::Stop => Ok(CommandOutcome::next(NextStep::StopBackground)),
        ChatVerb::Verbose => Ok(state::verbose(chat)),
        ChatVerb::Clear => {
            chat.screen.clear();
            Ok(CommandOutcome::text(""))
        }
        ChatVerb::Quit => Ok(CommandOutcome::next(NextStep::Quit)),
    }
}

/// A prompt of a server, a skill, or nothing that is known.
async fn run_prompt_or_skill(
    chat: &mut ChatContext<'_>,
    slash: SlashCommand<'_>,
) -> Result<CommandOutcome, Failure> {
    if is_prompt_name(slash.name) {
        return Box::pin(prompt::run(chat, slash)).await;
    }
    let skills = chat.conversation.agent().skills();
    if let Ok(view) = skills.view(slash.name) {
        return Ok(CommandOutcome::next(NextStep::SendMessage(
            prompt::skill_message(chat.pending, &view, slash.rest),
        )));
    }
    let names = COMMANDS.iter().map(|command| command.name.to_owned());
    let skills = skills.list().into_iter().map(|skill| skill.name);
    let failure = Failure::usage(format!("there is no command `/{}`", slash.name));
    Err(
        match hermes_config::nearest(slash.name, names.chain(skills)) {
            Some(name) => failure.hint(format!("did you mean `/{name}`?")),
            None => failure.hint("`/help` lists what there is"),
        },
    )
}

/// A command that was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlashCommand<'a> {
    /// The word after the stroke.
    pub(crate) name: &'a str,
    /// What follows it.
    pub(crate) rest: &'a str,
}

impl<'a> SlashCommand<'a> {
    /// Reads a line. `None` if it is something to say: a path such as `/etc/hosts` is not a command.
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim().strip_prefix('/')?;
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (!name.is_empty() && name.chars().all(is_name)).then_some(Self {
            name,
            rest: rest.trim(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_once() {
        let mut names: Vec<&str> = COMMANDS
            .iter()
            .flat_map(|command| command.aliases.iter().chain([&command.name]))
            .copied()
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(
            COMMANDS
                .iter()
                .all(|command| find_command(command.name).is_some())
        );
    }

    #[test]
    fn other_names_mean_the_same() {
        for (alias, name) in [
            ("exit", "quit"),
            ("reset", "new"),
            ("reload_mcp", "reload-mcp"),
        ] {
            assert_eq!(find_command(alias).unwrap().name, name);
        }
        assert!(find_command("nonsense").is_none());
    }

    #[test]
    fn what_lies_ready_goes_with_the_next_message_only() {
        let mut pending = PendingMessage {
            notes: vec!["[a note]".into()],
            ..PendingMessage::default()
        };
        assert_eq!(pending.take_message("hello").text(), "[a note]\n\nhello");
        assert_eq!(pending.take_message("again").text(), "again");
        pending.parts.push(Part::from_image_url("data:x"));
        assert!(matches!(pending.take_message("look"), Content::Parts(parts) if parts.len() == 2));
    }

    #[test]
    fn commands_are_told_from_things_to_say() {
        let read = |line| SlashCommand::parse(line).map(|slash| (slash.name, slash.rest));
        assert_eq!(read("/tools"), Some(("tools", "")));
        assert_eq!(
            read("  /call a.b {\"x\": 1} "),
            Some(("call", "a.b {\"x\": 1}"))
        );
        assert_eq!(read("/reload-mcp now"), Some(("reload-mcp", "now")));
        for text in ["hello", "/etc/hosts is odd", "/", "// no", "a /b"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
