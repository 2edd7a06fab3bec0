//! The command line of hermes: arguments, output and exit codes. What the commands do is in the other crates.

pub mod catalog;
mod cli;
mod commands;
mod context;
mod crash;
pub mod embedded_hub;
mod failure;
pub mod import;
mod logging;
mod output;
mod private_routes;
mod question;
mod server_requests;
mod service_manager;
mod telemetry;

use std::{ffi::OsString, io::Write, mem::ManuallyDrop, process::ExitCode};

use clap::{CommandFactory, FromArgMatches};
use cli::UnknownCommand;

pub use cli::{Cli, original};

/// The argument that turns the program into the guard of local servers' processes.
pub const GUARD_ARGUMENT: &str = "__guard";

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    // Programs ask for it to see whether we are here: no reason to learn all commands first.
    if wants_only_version() {
        let version = concat!("hermes ", env!("CARGO_PKG_VERSION"), "\n");
        let _ = std::io::stdout().write_all(version.as_bytes());
        return ExitCode::SUCCESS;
    }
    if commands::answer_shell() {
        return ExitCode::SUCCESS;
    }
    // Whatever is started from here on must not be able to look for keys in this process.
    #[cfg(unix)]
    hermes_mcp::process::forbid_inspection();
    crash::install_hook();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let mut outcome = parse_arguments(&arguments);
    let mut unknown = None;
    if let Err(error) = &outcome {
        match cli::interpret_unknown(error, &arguments) {
            Some(UnknownCommand::Question(asked)) => outcome = parse_arguments(&asked),
            Some(UnknownCommand::Nothing(failure)) => unknown = Some(failure),
            None => {}
        }
    }
    let cli = match outcome {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are not failures and go to stdout; clap knows which is which.
            if !error.use_stderr() {
                let _ = error.print();
                return ExitCode::SUCCESS;
            }
            if let Some(failure) = unknown {
                let is_json = arguments.iter().any(|argument| argument == "--json");
                output::Output::new(is_json).failure(&failure);
                return ExitCode::from(failure.exit_code());
            }
            let failure = failure::Failure::usage(error.to_string());
            let is_given = |word: &str| std::env::args_os().any(|argument| argument == word);
            // What starts a server on stdout takes it for what that says.
            let is_server = is_given("serve") && !is_given("--install");
            if is_given("--json") && !is_server {
                output::Output::new(true).failure(&failure);
            } else {
                let _ = error.print();
            }
            return ExitCode::from(failure.exit_code());
        }
    };
    let output = output::Output::new(cli.wants_json());
    let outcome = context::Context::new(&cli, output).and_then(|context| {
        crash::set_home(&context.home);
        commands::run(&context, cli.into_command()?)
    });
    telemetry::stop();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// The description of the arguments is left to the end of the process: taking it apart would take longer.
fn parse_arguments(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let mut command = ManuallyDrop::new(Cli::command());
    let mut matches = command.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

fn wants_only_version() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    arguments.next().is_none() && first.is_some_and(|word| word == "--version" || word == "-V")
}
