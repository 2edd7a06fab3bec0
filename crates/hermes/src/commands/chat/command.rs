//! Commands within a conversation: the table of all of them, and the way from what was typed to what is done.

use hermes_agent::{
    conversation::Conversation,
    message::{Content, Part},
};
use tokio_util::sync::CancellationToken;

use super::{prompt::is_name as is_prompt, slash::Slash, start};
use crate::{
    answers::Answers,
    chat::{floor::Floor, screen::Screen},
    context::Context,
    failure::Failure,
};

mod attach;
mod call;
mod help;
mod home;
mod prompt;
mod reload;
mod servers;
mod session;
mod skill;
mod state;
mod transcript;

pub(super) use reload::apply as apply_settings;
pub(super) use session::recall;
pub(super) use state::by_state;

pub(super) struct Command {
    /// How it is called.
    pub(super) name: &'static str,
    /// How else.
    pub(super) aliases: &'static [&'static str],
    /// What follows it, as help shows it.
    pub(super) arguments: &'static str,
    /// What it does, in one line.
    pub(super) about: &'static str,
    /// What it requires.
    pub(super) needs: Needs,
    verb: Verb,
}

/// What a command requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    Model,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
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
    verb: Verb,
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
) -> Command {
    let needs = match verb {
        Verb::Retry | Verb::Background | Verb::Compress => Needs::Model,
        _ => Needs::Nothing,
    };
    let aliases: &[&str] = match verb {
        Verb::New => &["reset"],
        Verb::Reload => &["reload_mcp"],
        Verb::Quit => &["exit"],
        _ => &[],
    };
    Command {
        name,
        aliases,
        arguments,
        about,
        needs,
        verb,
    }
}

/// All of them, in the order of `/help`.
pub(super) static COMMANDS: [Command; 29] = [
    command(Verb::Help, "help", "", "show these commands"),
    command(Verb::New, "new", "[TITLE]", "start a new session"),
    command(Verb::Sessions, "sessions", "", "list earlier sessions"),
    command(
        Verb::Resume,
        "resume",
        "[SESSION]",
        "resume a session: its id, the start of its id, or its title",
    ),
    command(
        Verb::Title,
        "title",
        "[TEXT]",
        "show the session's title, or set it",
    ),
    command(Verb::History, "history", "[N]", "show the last N messages"),
    command(Verb::Undo, "undo", "[N]", "take back the last N turns"),
    command(
        Verb::Retry,
        "retry",
        "",
        "take back the last turn and run it again",
    ),
    command(
        Verb::Save,
        "save",
        "[FILE]",
        "write the conversation to a file",
    ),
    command(
        Verb::Compress,
        "compress",
        "",
        "summarize the conversation so far, to free context",
    ),
    command(
        Verb::Model,
        "model",
        "[NAME] [--provider P] [--global]",
        "show the model, or switch to another",
    ),
    command(
        Verb::Tools,
        "tools",
        "[enable|disable NAME]",
        "list all tools, or turn a toolset or server on or off",
    ),
    command(
        Verb::Call,
        "call",
        "SERVER.TOOL [JSON or key=value …]",
        "call a tool yourself; no model is needed",
    ),
    command(
        Verb::Mcp,
        "mcp",
        "[login|enable|disable NAME]",
        "show the MCP servers, log in, or switch one on or off",
    ),
    command(
        Verb::Reload,
        "reload-mcp",
        "",
        "read the configuration again and restart what changed",
    ),
    command(
        Verb::Skills,
        "skills",
        "",
        "list skills; `/NAME` uses one",
    ),
    command(
        Verb::Cron,
        "cron",
        "[pause|resume|run JOB]",
        "list the scheduled jobs, or control one",
    ),
    command(
        Verb::Image,
        "image",
        "PATH",
        "show an image to the model with the next message",
    ),
    command(
        Verb::Paste,
        "paste",
        "",
        "attach an image or text from the clipboard to the next message",
    ),
    command(
        Verb::Copy,
        "copy",
        "",
        "copy the last answer to the clipboard",
    ),
    command(
        Verb::Background,
        "background",
        "TEXT",
        "work on TEXT in a session of its own and show the answer later",
    ),
    command(
        Verb::Stop,
        "stop",
        "",
        "stop the turn that runs; at the prompt, what runs in the background",
    ),
    command(
        Verb::Status,
        "status",
        "",
        "show session, model, tokens and servers",
    ),
    command(Verb::Usage, "usage", "", "show tokens and cost by model"),
    command(Verb::Whoami, "whoami", "", "show who and where you are"),
    command(
        Verb::Config,
        "config",
        "",
        "show where the configuration is and what is in effect",
    ),
    command(
        Verb::Verbose,
        "verbose",
        "",
        "switch showing arguments and results of tools on or off",
    ),
    command(Verb::Clear, "clear", "", "clear the screen"),
    command(Verb::Quit, "quit", "", "leave"),
];

/// The command of that name.
pub(super) fn find(name: &str) -> Option<&'static Command> {
    COMMANDS
        .iter()
        .find(|command| command.name == name || command.aliases.contains(&name))
}

/// What commands of a chat work with.
pub(super) struct Room<'a> {
    pub(super) context: &'a Context,
    pub(super) conversation: &'a mut Conversation,
    pub(super) screen: &'a Screen,
    pub(super) floor: &'a Floor,
    pub(super) answers: &'a Answers,
    pub(super) desk: &'a mut Desk,
    /// Ends what takes its time.
    pub(super) cancel: CancellationToken,
}

/// Attachments and notes for the next message, and the last answer.
#[derive(Default)]
pub(super) struct Desk {
    pub(super) parts: Vec<Part>,
    /// Told to the model before the user's words.
    pub(super) notes: Vec<String>,
    pub(super) last_answer: String,
}

impl Desk {
    /// The next message: this text with all attachments and notes.
    pub(super) fn message(&mut self, text: &str) -> Content {
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
pub(super) struct Done {
    /// To be printed.
    pub(super) text: String,
    pub(super) next: Next,
}

/// What happens after a command.
#[derive(Debug)]
pub(super) enum Next {
    /// The next line is waited for.
    Stay,
    /// The conversation ends.
    Leave,
    /// This is said.
    Say(Content),
    /// The last turn is run again.
    Retry,
    /// This is worked on beside the conversation.
    Background(String),
    /// What runs in the background ends.
    StopBackground,
}

impl Done {
    fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            next: Next::Stay,
        }
    }

    fn next(next: Next) -> Self {
        Self {
            text: String::new(),
            next,
        }
    }
}

/// Runs what was typed.
pub(super) async fn run(room: &mut Room<'_>, slash: Slash<'_>) -> Result<Done, Failure> {
    let Some(command) = find(slash.name) else {
        return other(room, slash).await;
    };
    if command.needs == Needs::Model {
        let found = room.conversation.find_model().await;
        found.map_err(|error| start::failure(&error))?;
    }
    let rest = slash.rest;
    match command.verb {
        Verb::Help => Ok(Done::text(help::text(room))),
        Verb::New => session::new(room, rest).await,
        Verb::Sessions => session::list(room).await,
        Verb::Resume => session::resume(room, rest).await,
        Verb::Title => session::title(room, rest).await,
        Verb::Undo => session::undo(room, rest).await,
        Verb::Retry => Ok(Done::next(Next::Retry)),
        Verb::Compress => session::compress(room).await,
        Verb::History => transcript::history(room, rest),
        Verb::Save => transcript::save(room, rest),
        Verb::Model => state::model(room, rest).await,
        Verb::Status => state::status(room).await,
        Verb::Usage => state::usage(room).await,
        Verb::Whoami => Ok(state::whoami(room)),
        Verb::Config => Ok(state::config(room)),
        Verb::Tools => super::tools::run(room.conversation, rest).map(Done::text),
        Verb::Call => call::run(room, rest).await,
        Verb::Mcp => servers::run(room, rest).await,
        Verb::Reload => reload::run(room).await,
        Verb::Skills => home::skills(room),
        Verb::Cron => home::cron(room, rest),
        Verb::Image => attach::image(room, rest),
        Verb::Paste => attach::paste(room).await,
        Verb::Copy => attach::copy(room),
        Verb::Background if rest.is_empty() => {
            Err(Failure::usage("`/background` needs a task").hint("`/background sum up the README`"))
        }
        Verb::Background => Ok(Done::next(Next::Background(rest.to_owned()))),
        Verb::Stop => Ok(Done::next(Next::StopBackground)),
        Verb::Verbose => Ok(state::verbose(room)),
        Verb::Clear => {
            room.screen.clear();
            Ok(Done::text(""))
        }
        Verb::Quit => Ok(Done::next(Next::Leave)),
    }
}

/// A prompt of a server, a skill, or nothing that is known.
async fn other(room: &mut Room<'_>, slash: Slash<'_>) -> Result<Done, Failure> {
    if is_prompt(slash.name) {
        return Box::pin(prompt::run(room, slash)).await;
    }
    let skills = room.conversation.agent().skills();
    if let Ok(view) = skills.view(slash.name) {
        return Ok(Done::next(Next::Say(skill::message(
            room.desk, &view, slash.rest,
        ))));
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
        assert!(COMMANDS.iter().all(|command| find(command.name).is_some()));
    }

    #[test]
    fn other_names_mean_the_same() {
        for (alias, name) in [
            ("exit", "quit"),
            ("reset", "new"),
            ("reload_mcp", "reload-mcp"),
        ] {
            assert_eq!(find(alias).unwrap().name, name);
        }
        assert!(find("nonsense").is_none());
    }

    #[test]
    fn what_lies_ready_goes_with_the_next_message_only() {
        let mut desk = Desk {
            notes: vec!["[a note]".into()],
            ..Desk::default()
        };
        assert_eq!(desk.message("hello").text(), "[a note]\n\nhello");
        assert_eq!(desk.message("again").text(), "again");
        desk.parts.push(Part::from_image_url("data:x"));
        assert!(matches!(desk.message("look"), Content::Parts(parts) if parts.len() == 2));
    }
}
