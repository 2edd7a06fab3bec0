//! A first word that is not a command: a question, a command mistyped, or one of Hermes Agent (Python).

use std::ffi::OsString;

use clap::{
    Command, CommandFactory,
    error::{ContextKind, ContextValue, ErrorKind},
};
use hermes_config::nearest;

use super::{
    Cli,
    original::{CommandSupport, find_original},
};
use crate::failure::Failure;

/// What was meant by arguments that clap does not take.
pub(crate) enum UnknownCommand {
    /// The same arguments with the question as one.
    Question(Vec<OsString>),
    /// Nothing that is here.
    Nothing(Failure),
}

/// Interprets a first word that is not a command. None if something else is wrong.
pub(crate) fn interpret_unknown(
    error: &clap::Error,
    arguments: &[OsString],
) -> Option<UnknownCommand> {
    if error.kind() != ErrorKind::InvalidSubcommand || is_below_command(arguments) {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let position = arguments
        .iter()
        .skip(1)
        .position(|given| given == word.as_str())?
        + 1;
    if is_question(word) {
        let mut arguments_of_question = arguments.to_vec();
        arguments_of_question.insert(position, "-q".into());
        return Some(UnknownCommand::Question(arguments_of_question));
    }
    let rest = arguments.get(position + 1..).unwrap_or_default();
    let rest: Vec<_> = rest.iter().map(|word| word.to_string_lossy()).collect();
    Some(UnknownCommand::Nothing(unknown_command_failure(
        word, &rest,
    )))
}

/// Whether a word can only be something to say: no command has a space, a question mark or a letter beyond ASCII.
fn is_question(word: &str) -> bool {
    word.trim().contains(char::is_whitespace) || word.contains('?') || !word.is_ascii()
}

/// Whether it is the verb of a command that is not known.
fn is_below_command(arguments: &[OsString]) -> bool {
    let lenient = Cli::command().ignore_errors(true);
    let matches = lenient.try_get_matches_from(arguments);
    matches.is_ok_and(|matches| matches.subcommand_name().is_some())
}

fn unknown_command_failure(word: &str, rest: &[impl AsRef<str>]) -> Failure {
    if let Some(original) = find_original(word) {
        let message = match original.support {
            CommandSupport::NotPlanned => {
                format!("`hermes {word}` of Hermes Agent is not in this program, and not planned")
            }
            CommandSupport::OtherName => {
                format!("`hermes {word}` of Hermes Agent has another name in this program")
            }
            _ => format!("`hermes {word}` of Hermes Agent is not in this program yet"),
        };
        return Failure::usage(message).hint(format!("nearest: {}", original.replacement));
    }
    let mut failure = Failure::usage(format!("there is no command `{word}`"));
    let command = Cli::command();
    let names = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(Command::get_name)
        .chain(["help"]);
    if let Some(near) = nearest(word, names.map(str::to_owned)) {
        failure = failure.hint(format!("did you mean `hermes {near}`?"));
    }
    if rest.iter().any(|word| !word.as_ref().starts_with('-')) {
        let words: Vec<&str> = rest.iter().map(AsRef::as_ref).collect();
        return failure.hint(format!(
            "to ask something, put it in quotes: hermes \"{word} {}\"",
            words.join(" ")
        ));
    }
    if !failure.hints.is_empty() {
        return failure;
    }
    failure.hint(format!(
        "`hermes --help` lists the commands; `hermes -q {word}` asks it"
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::failure::FailureKind;

    fn given(words: &[&str]) -> (Option<UnknownCommand>, Vec<OsString>) {
        let arguments: Vec<OsString> = ["hermes"].iter().chain(words).map(Into::into).collect();
        let error = Cli::try_parse_from(&arguments).unwrap_err();
        (interpret_unknown(&error, &arguments), arguments)
    }

    #[test]
    fn a_first_word_that_can_be_no_command_is_a_question() {
        for words in [
            &["what time is it"][..],
            &["why?"],
            &["今天天气怎么样"],
            &["-m", "gpt-5", "what time is it"],
            &["/call time.now {}", "--json", "-Q"],
        ] {
            let (Some(UnknownCommand::Question(arguments)), given) = given(words) else {
                panic!("{words:?}");
            };
            assert_eq!(arguments.len(), given.len() + 1);
            let cli = Cli::try_parse_from(arguments).unwrap();
            let command = cli.into_command().unwrap();
            let super::super::CliCommand::Chat(chat) = command else {
                panic!("{words:?}");
            };
            assert!(words.contains(&chat.query.as_deref().unwrap()));
        }
    }

    #[test]
    fn other_words_are_commands_mistyped_or_of_the_original() {
        for (words, message, hint) in [
            (
                &["chta"][..],
                "no command `chta`",
                "did you mean `hermes chat`?",
            ),
            (&["sesions", "list"], "no command", "`hermes sessions`"),
            (&["hello"], "no command `hello`", "`hermes -q hello`"),
            (
                &["what", "time", "is", "it"],
                "no command",
                "hermes \"what time is it\"",
            ),
            (
                &["kanban", "list"],
                "not in this program yet",
                "nearest: `hermes tenant`",
            ),
            (&["pets"], "not planned", "nearest"),
            (
                &["completion", "bash"],
                "has another name in this program",
                "`hermes completions SHELL`",
            ),
        ] {
            let (Some(UnknownCommand::Nothing(failure)), _) = given(words) else {
                panic!("{words:?}");
            };
            assert_eq!(failure.kind, FailureKind::Usage);
            assert!(failure.message.contains(message), "{}", failure.message);
            assert!(
                failure.hints.iter().any(|given| given.contains(hint)),
                "{:?}",
                failure.hints
            );
        }
    }

    #[test]
    fn what_is_wrong_below_a_command_is_left_to_it() {
        for words in [&["mcp", "lits"][..], &["cron", "what is this"], &["--nope"]] {
            assert!(given(words).0.is_none(), "{words:?}");
        }
    }
}
