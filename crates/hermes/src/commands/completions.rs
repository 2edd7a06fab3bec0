//! `hermes completions SHELL`, and what the shell asks for while a line is typed.

use std::{ffi::OsStr, io};

use clap::{Arg, Command, CommandFactory};
use clap_complete::{
    ArgValueCompleter, CompletionCandidate, Shell,
    env::{CompleteEnv, Shells},
};

use crate::{Cli, context::Context, failure::Failure};

mod names;

/// The variable by which the shell's function says that it wants to know what may follow.
const VARIABLE: &str = "HERMES_COMPLETE";

/// Prints the function that has the shell ask.
pub(super) fn run(context: &Context, shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let shell = shells.completer(&shell.to_string());
    let written = match shell {
        Some(shell) => {
            shell.write_registration(VARIABLE, "hermes", "hermes", "hermes", &mut script)
        }
        None => Err(io::Error::other("no script for this shell")),
    };
    written?;
    context.output.raw(&String::from_utf8_lossy(&script));
    Ok(())
}

/// Answers a shell that asks what may follow; `false` if none does. No server is ever started for it.
pub(crate) fn complete_line() -> bool {
    if std::env::var_os(VARIABLE).is_none() {
        return false;
    }
    let arguments = std::env::args_os();
    let directory = std::env::current_dir().ok();
    let environment = CompleteEnv::with_factory(command).var(VARIABLE);
    let answered = environment.try_complete(arguments, directory.as_deref());
    // Messages would disturb a shell that completes a line.
    answered.unwrap_or(true)
}

/// All commands, with what completes the values of their arguments.
fn command() -> Command {
    let mut command = Cli::command();
    // Arguments that are described later are described now.
    command.build();
    with_completers(command, &[])
}

fn with_completers(command: Command, path: &[&str]) -> Command {
    let command = command.mut_args(|argument| with_completer(argument, path));
    let names = command
        .get_subcommands()
        .map(|verb| verb.get_name().to_owned());
    let names: Vec<String> = names.filter(|name| name != "help").collect();
    names.iter().fold(command, |command, name| {
        let path = [path, &[name.as_str()]].concat();
        command.mut_subcommand(name.clone(), |verb| with_completers(verb, &path))
    })
}

type NameCompleter = fn(&str) -> Vec<CompletionCandidate>;

fn with_completer(argument: Arg, path: &[&str]) -> Arg {
    match completer(path, argument.get_id().as_str()) {
        Some(names) => argument.add(ArgValueCompleter::new(move |typed: &OsStr| {
            typed.to_str().map(names).unwrap_or_default()
        })),
        None => argument,
    }
}

/// What completes an argument, by its command and its name there.
fn completer(path: &[&str], argument: &str) -> Option<NameCompleter> {
    Some(match (path, argument) {
        (_, "profile") => names::profiles,
        (["mcp", "call"], "target") => names::tools,
        (["mcp", "tools"], "name") => names::servers_and_tools,
        (["mcp", "add"], "preset") => names::presets,
        (["mcp", "add" | "install" | "import"], "name") => return None,
        (["mcp", "install"], "id") => names::catalog,
        (
            [
                "mcp",
                "test" | "get" | "resources" | "prompts" | "reload" | "status",
            ],
            "name",
        ) => names::servers,
        (["mcp", _], "name" | "kill") => names::configured_servers,
        (["sessions", _], "id") | ([] | ["chat"], "resume" | "continued") => names::sessions,
        (["cron", _], "job" | "context_from") => names::jobs,
        (["skills", _], "name") => names::skills,
        (["pairing", "approve"], "platform") => names::bot_accounts,
        (["pairing", "revoke"], "platform") => names::paired_accounts,
        (["pairing", "revoke"], "user") => names::paired_users,
        (_, "tenant") => names::tenants,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many values of arguments have a completer below a command.
    fn count(command: &Command) -> usize {
        let own = command
            .get_arguments()
            .filter(|argument| argument.get::<ArgValueCompleter>().is_some());
        own.count() + command.get_subcommands().map(count).sum::<usize>()
    }

    #[test]
    fn names_are_completed_where_they_are_expected() {
        let command = command();
        for verb in [
            "call",
            "tools",
            "test",
            "get",
            "resources",
            "prompts",
            "remove",
            "enable",
            "status",
        ] {
            let mcp = command.find_subcommand("mcp").unwrap();
            let subcommand = mcp.find_subcommand(verb).unwrap();
            // The profile is one, too.
            assert!(count(subcommand) >= 2, "mcp {verb}");
        }
        for (group, verb) in [
            ("sessions", "show"),
            ("cron", "run"),
            ("skills", "view"),
            ("pairing", "revoke"),
            ("tenant", "get"),
        ] {
            let group = command.find_subcommand(group).unwrap();
            assert!(count(group.find_subcommand(verb).unwrap()) >= 2, "{verb}");
        }
    }
}
