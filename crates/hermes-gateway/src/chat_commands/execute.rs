//! Doing what a command says.

use super::{
    approvals,
    context::{
        ChatCommandContext, CommandError, ModelRequest, ModelScope, QueueOutcome, StopOutcome,
    },
    help,
    parse::{CommandRequest, nearest_name},
    reload,
    table::CommandName,
    texts,
};
use crate::platform::Button;

/// What is said in the chat. Nothing if the text is empty: the answer of a turn follows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandReply {
    /// Markdown.
    pub text: String,
    pub buttons: Vec<Vec<Button>>,
}

impl CommandReply {
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            buttons: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

/// A button that is a command: `/help 2`.
pub(super) fn command_button(label: &str, command: &str, arguments: &str) -> Button {
    Button {
        label: label.to_owned(),
        data: format!("cmd:{command}:{arguments}"),
        is_link: false,
    }
}

/// Does what a command says. What goes wrong is told in the reply.
pub async fn execute(request: &CommandRequest, context: &dyn ChatCommandContext) -> CommandReply {
    let arguments = request.arguments.as_str();
    let reply = match request.name {
        CommandName::Approve => approvals::approve(arguments, context).await,
        CommandName::Deny => approvals::deny(arguments, context).await,
        CommandName::ReloadMcp => reload::run(arguments, context).await,
        CommandName::Help => help::help(arguments, context),
        CommandName::Commands => help::commands(arguments, context).await,
        name => run(name, arguments, context).await.map(CommandReply::text),
    };
    reply.unwrap_or_else(|error| CommandReply::text(error.to_string()))
}

/// A command that is not in the table: a skill, or a hint in one line.
pub async fn execute_unknown(
    name: &str,
    arguments: &str,
    context: &dyn ChatCommandContext,
) -> CommandReply {
    let names = [name.to_owned(), name.replace('_', "-")];
    for name in &names {
        match context.use_skill(name, arguments).await {
            Ok(true) => return CommandReply::default(),
            Ok(false) => {}
            Err(error) => return CommandReply::text(error.to_string()),
        }
    }
    let skills = context.skills().await.unwrap_or_default();
    let skills: Vec<String> = skills.into_iter().map(|skill| skill.name).collect();
    CommandReply::text(match nearest_name(name, &skills) {
        Some(near) => format!("There is no command `/{name}`. Did you mean `/{near}`?"),
        None => format!("There is no command `/{name}`. `/help` lists them."),
    })
}

async fn run(
    name: CommandName,
    arguments: &str,
    context: &dyn ChatCommandContext,
) -> Result<String, CommandError> {
    Ok(match name {
        CommandName::New => {
            let title = Some(arguments).filter(|title| !title.is_empty());
            let id = context.new_session(title).await?;
            match title {
                Some(title) => format!("This is a new conversation, \"{title}\" (`{id}`)."),
                None => format!("This is a new conversation (`{id}`)."),
            }
        }
        CommandName::Stop => stop(arguments, context).await?,
        CommandName::Status => texts::status(&context.status().await?),
        CommandName::Model => model(arguments, context).await?,
        CommandName::Sessions => texts::session_list(&context.list_sessions().await?),
        CommandName::Resume => resume(arguments, context).await?,
        CommandName::Undo => undo(arguments, context).await?,
        CommandName::Retry => {
            context.retry().await?;
            String::new()
        }
        CommandName::Title => title(arguments, context).await?,
        CommandName::Usage => match context.usage().await? {
            Some(usage) => texts::usage(&usage),
            None => "Nothing has been used yet.".to_owned(),
        },
        CommandName::Whoami => texts::whoami(context.caller()),
        CommandName::SetHome => {
            context.set_home().await?;
            let caller = context.caller();
            let platform = caller.account.label();
            format!("This chat is the home channel of {platform} now.")
        }
        CommandName::Compress => {
            let outcome = context.compress().await?;
            format!(
                "The conversation has {} messages now instead of {}.",
                outcome.messages_after, outcome.messages_before
            )
        }
        CommandName::Queue => queue(arguments, context).await?,
        CommandName::Background => {
            if arguments.is_empty() {
                return Err(usage_of(CommandName::Background));
            }
            let name = context.run_in_background(arguments).await?;
            format!(
                "Working on it in the background. The answer comes here; `/stop {name}` ends it."
            )
        }
        CommandName::Version => format!("hermes {}", env!("CARGO_PKG_VERSION")),
        CommandName::ReloadSkills => match context.reload_skills().await? {
            0 => "There is no skill.".to_owned(),
            1 => "There is one skill.".to_owned(),
            count => format!("There are {count} skills."),
        },
        CommandName::Mcp => texts::server_list(&context.mcp_servers().await?),
        CommandName::Skills => texts::skill_list(&context.skills().await?),
        CommandName::Approve
        | CommandName::Deny
        | CommandName::ReloadMcp
        | CommandName::Help
        | CommandName::Commands => String::new(),
    })
}

/// How a command is used, where it was used wrongly.
pub(super) fn usage_of(name: CommandName) -> CommandError {
    let command = name.row();
    CommandError::new(format!("Use it as `{}`.", command.usage_line()))
}

/// Stops the turn; with a name, something in the background; with `all`, everything.
async fn stop(arguments: &str, context: &dyn ChatCommandContext) -> Result<String, CommandError> {
    match arguments {
        "" => {
            let mut text = describe_stop(context.stop_turn().await?);
            let background = context.background().await?;
            if !background.is_empty() {
                text = format!(
                    "{text} In the background: {}; `/stop NAME` or `/stop all` ends it.",
                    texts::background_list(&background)
                );
            }
            Ok(text)
        }
        "all" => {
            let text = describe_stop(context.stop_turn().await?);
            let ended = context.stop_background(None).await?;
            Ok(match ended.as_slice() {
                [] => text,
                ended => format!("{text} Ended: {}.", texts::background_list(ended)),
            })
        }
        name => {
            let ended = context.stop_background(Some(name)).await?;
            if !ended.is_empty() {
                return Ok(format!("Ended: {}.", texts::background_list(&ended)));
            }
            let background = context.background().await?;
            let known = match background.as_slice() {
                [] => "nothing goes on there".to_owned(),
                known => texts::background_list(known),
            };
            Err(CommandError::new(format!(
                "Nothing in the background is called `{name}`: {known}."
            )))
        }
    }
}

fn describe_stop(outcome: StopOutcome) -> String {
    match outcome {
        StopOutcome {
            was_running: false,
            dropped: 0,
        } => "Nothing is running.".to_owned(),
        StopOutcome { dropped: 0, .. } => "Stopped.".to_owned(),
        StopOutcome { dropped, .. } => format!(
            "Stopped; {} that waited {} dropped.",
            texts::pluralize(dropped, "message"),
            if dropped == 1 { "was" } else { "were" }
        ),
    }
}

/// Shows the model, or chooses one.
async fn model(arguments: &str, context: &dyn ChatCommandContext) -> Result<String, CommandError> {
    let Some(request) = parse_model(arguments)? else {
        return Ok(match context.model().await? {
            Some(facts) => format!("{} ({})", facts.model, facts.provider),
            None => "No model is chosen yet; it is searched with the first message.".to_owned(),
        });
    };
    if request.scope == ModelScope::Global && !context.caller().is_admin {
        return Err(CommandError::new(
            "Only an administrator may choose the model for all conversations.",
        ));
    }
    let facts = context.set_model(&request).await?;
    let scope = match facts.scope {
        ModelScope::Session => "in this conversation",
        ModelScope::Global => "from now on",
    };
    Ok(format!(
        "{} ({}) is used {scope}.",
        facts.model, facts.provider
    ))
}

/// `name --provider p --global`; nothing if no name is given.
fn parse_model(arguments: &str) -> Result<Option<ModelRequest>, CommandError> {
    let mut request = ModelRequest {
        model: String::new(),
        provider: None,
        scope: ModelScope::Session,
    };
    let mut words = arguments.split_whitespace();
    while let Some(word) = words.next() {
        // Phones turn two hyphens into a dash.
        match word.replace('—', "--").as_str() {
            "--provider" => match words.next() {
                Some(provider) => request.provider = Some(provider.to_owned()),
                None => return Err(usage_of(CommandName::Model)),
            },
            "--global" => request.scope = ModelScope::Global,
            "--session" => request.scope = ModelScope::Session,
            word if word.starts_with("--") || !request.model.is_empty() => {
                return Err(usage_of(CommandName::Model));
            }
            word => word.clone_into(&mut request.model),
        }
    }
    if request.model.is_empty() && request.provider.is_some() {
        return Err(usage_of(CommandName::Model));
    }
    Ok((!request.model.is_empty()).then_some(request))
}

async fn resume(arguments: &str, context: &dyn ChatCommandContext) -> Result<String, CommandError> {
    if arguments.is_empty() {
        return Ok(texts::session_list(&context.list_sessions().await?));
    }
    let session = context.switch_session(arguments.trim_matches('"')).await?;
    Ok(format!(
        "This is {} again, with {}.",
        texts::session_name(&session),
        texts::pluralize(session.messages, "message")
    ))
}

/// The most turns that one command takes back.
const MAX_UNDO: u32 = 50;

async fn undo(arguments: &str, context: &dyn ChatCommandContext) -> Result<String, CommandError> {
    let turns = match arguments {
        "" => 1,
        number => number
            .parse()
            .ok()
            .filter(|turns| (1..=MAX_UNDO).contains(turns))
            .ok_or_else(|| CommandError::new("Use it as `/undo` or `/undo 2`."))?,
    };
    let outcome = context.undo(turns).await?;
    Ok(match outcome.turns {
        0 => "There is nothing to take back.".to_owned(),
        1 => format!("Took back: \"{}\"", texts::first_line(&outcome.text, 80)),
        turns => format!(
            "Took back {turns} turns, from \"{}\" on.",
            texts::first_line(&outcome.text, 80)
        ),
    })
}

async fn title(arguments: &str, context: &dyn ChatCommandContext) -> Result<String, CommandError> {
    if arguments.is_empty() {
        return Ok(match context.title().await? {
            Some(title) => format!("The conversation is called \"{title}\"."),
            None => "The conversation has no title; `/title TEXT` gives it one.".to_owned(),
        });
    }
    let title = context.set_title(arguments).await?;
    Ok(format!("The conversation is called \"{title}\" now."))
}

async fn queue(arguments: &str, context: &dyn ChatCommandContext) -> Result<String, CommandError> {
    if arguments.is_empty() {
        return Err(usage_of(CommandName::Queue));
    }
    Ok(match context.queue(arguments).await? {
        QueueOutcome::Started => String::new(),
        QueueOutcome::Queued { place } => format!("Queued, place {place}."),
    })
}
