//! One module per command. Each takes its arguments and ends well or with a `Failure`.

use crate::{
    cli::{Command, HubCommand, McpArgs, McpCommand},
    context::Context,
    failure::Failure,
    logging,
};

mod channels;
mod chat;
mod completions;
mod cron;
mod gateway;
mod group;
mod hub;
mod logs;
mod mcp;
mod model;
mod policy;
mod secret;
mod send;
mod sessions;
mod share;
mod skills;
mod state;
mod tenant;
mod token;
mod up;

/// Runs a command.
pub(crate) fn run(context: &Context, command: Command) -> Result<(), Failure> {
    // `up`, `chat` and `gateway` may stay and have a log file, `mcp serve` tells its client; the others are over soon.
    let is_serve = |args: &McpArgs| matches!(args.command, Some(McpCommand::Serve(_)));
    match &command {
        Command::Up(_) | Command::Chat(_) | Command::Gateway(_) => {}
        Command::Hub { command } if matches!(**command, HubCommand::Serve(_)) => {}
        Command::Mcp(args) if is_serve(args) => {}
        _ => logging::to_stderr_if_asked()?,
    }
    match command {
        Command::Chat(args) => chat::run(context, &args),
        Command::Up(args) => up::run(context, &args),
        Command::Gateway(args) => gateway::run(context, args),
        Command::Mcp(args) => mcp::run(context, args.command),
        Command::Model(args) => model::run(context, &args),
        Command::Sessions { command } => sessions::run(context, command),
        Command::Send(args) => send::run(context, &args),
        Command::Channels { command } => channels::run(context, &command),
        Command::Cron { command } => cron::run(context, command),
        Command::Skills { command } => skills::run(context, command),
        Command::Secret { command } => secret::run(context, command),
        Command::Hub { command } => hub::run(context, *command),
        Command::Tenant(args) => tenant::run(context, args),
        Command::Share(args) => share::run(context, args),
        Command::Group(args) => group::run(context, args),
        Command::Policy(args) => policy::run(context, args),
        Command::Specialization(args) => policy::specialization(context, args),
        Command::Token(args) => token::run(context, args),
        Command::Logs(args) => logs::run(context, &args),
        Command::Completions { shell } => {
            completions::run(context, shell);
            Ok(())
        }
    }
}
