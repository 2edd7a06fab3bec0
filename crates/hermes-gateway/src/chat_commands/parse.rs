//! From the text of a message, a command of the platform or a button to a command.

use hermes_config::{Platform, nearest};

use super::table::{COMMANDS, CommandName, find_command};
use crate::platform::CommandCall;

/// A command and what was typed behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRequest {
    pub name: CommandName,
    pub arguments: String,
}

/// What a message that begins like a command is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypedCommand {
    Known(CommandRequest),
    /// No command of the table. It may be a skill.
    Unknown {
        name: String,
        arguments: String,
    },
    /// `/cmd@another_bot`.
    ForAnotherBot,
}

/// Reads a message; `None` if it is not a command. `bot_name` is the bot's name without `@`, if it is known.
pub fn parse_command(
    text: &str,
    platform: Platform,
    bot_name: Option<&str>,
) -> Option<TypedCommand> {
    let text = text.trim();
    let sign = text.chars().next()?;
    let is_exclaimed = sign == '!' && platform == Platform::Slack;
    if sign != '/' && !is_exclaimed {
        return None;
    }
    let rest = &text[1..];
    let (word, arguments) = match rest.split_once(char::is_whitespace) {
        Some((word, arguments)) => (word, arguments.trim()),
        None => (rest, ""),
    };
    let (word, addressee) = match word.split_once('@') {
        Some((word, addressee)) if platform == Platform::Telegram => (word, Some(addressee)),
        _ => (word, None),
    };
    // A path is not a command.
    let is_name = word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
    if !is_name {
        return None;
    }
    if let (Some(addressee), Some(bot_name)) = (addressee, bot_name)
        && !addressee.eq_ignore_ascii_case(bot_name)
    {
        return Some(TypedCommand::ForAnotherBot);
    }
    match request_for(word, arguments) {
        Some(request) => Some(TypedCommand::Known(request)),
        // "!important" is an exclamation.
        None if is_exclaimed => None,
        None => Some(TypedCommand::Unknown {
            name: word.to_owned(),
            arguments: arguments.to_owned(),
        }),
    }
}

/// A command by its name, as platforms that parse commands give it.
pub fn request_for(name: &str, arguments: &str) -> Option<CommandRequest> {
    Some(CommandRequest {
        name: find_command(name)?,
        arguments: arguments.trim().to_owned(),
    })
}

impl TypedCommand {
    /// A command that the platform parsed.
    pub fn from_call(call: &CommandCall) -> Self {
        let name = call.name.trim_start_matches('/');
        match request_for(name, &call.arguments) {
            Some(request) => Self::Known(request),
            None => Self::Unknown {
                name: name.to_owned(),
                arguments: call.arguments.trim().to_owned(),
            },
        }
    }
}

/// The command of a button that a reply of a command has: `cmd:help:2` is `/help 2`.
pub fn parse_button(data: &str) -> Option<CommandRequest> {
    let (name, arguments) = data.strip_prefix("cmd:")?.split_once(':')?;
    request_for(name, arguments)
}

/// The name that was probably meant, among commands and skills.
pub(super) fn nearest_name(typed: &str, skills: &[String]) -> Option<String> {
    let typed = typed.replace('_', "-");
    let names = COMMANDS.iter().map(|command| command.word.to_owned());
    nearest(&typed, names.chain(skills.iter().cloned()))
}
