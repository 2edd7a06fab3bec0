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
mod config;
mod cron;
mod doctor;
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
mod setup;
mod share;
mod skills;
mod state;
mod tenant;
mod token;
mod up;
mod version;

pub(crate) use completions::answer as answer_shell;

/// Runs a command.
pub(crate) fn run(context: &Context, command: Command) -> Result<(), Failure> {
    // `up`, `chat` and `gateway` may stay and have a log file, `mcp serve` tells its client; the others are over soon.
    let is_serve = |args: &McpArgs| matches!(args.command, Some(McpCommand::Serve(_)));
    match &command {
        Command::Up(_) | Command::Chat(_) | Command::Gateway(_) => {}
        Command::Hub(hub) if matches!(*hub.command, HubCommand::Serve(_)) => {}
        Command::Mcp(args) if is_serve(args) => {}
        _ => logging::to_stderr_if_asked()?,
    }
    match command {
        Command::Chat(args) => chat::run(context, &args),
        Command::Up(args) => up::run(context, &args),
        Command::Setup(args) => setup::run(context, &args),
        Command::Doctor(args) => doctor::run(context, &args),
        Command::Status => doctor::status(context),
        Command::Config(args) => config::run(context, args.into_inner().command),
        Command::Gateway(args) => gateway::run(context, args.into_inner()),
        Command::Mcp(args) => mcp::run(context, args.into_inner().command),
        Command::Model(args) => model::run(context, &args),
        Command::Sessions(args) => sessions::run(context, args.into_inner().command),
        Command::Send(args) => send::run(context, &args),
        Command::Channels(args) => channels::run(context, &args.command),
        Command::Cron(args) => cron::run(context, args.into_inner().command),
        Command::Skills(args) => skills::run(context, args.into_inner().command),
        Command::Secret(args) => secret::run(context, args.into_inner().command),
        Command::Hub(args) => hub::run(context, *args.into_inner().command),
        Command::Tenant(args) => tenant::run(context, args.into_inner()),
        Command::Share(args) => share::run(context, args.into_inner()),
        Command::Group(args) => group::run(context, args.into_inner()),
        Command::Policy(args) => policy::run(context, args.into_inner()),
        Command::Specialization(args) => policy::specialization(context, args.into_inner()),
        Command::Token(args) => token::run(context, args.into_inner()),
        Command::Logs(args) => logs::run(context, &args),
        Command::Version => {
            version::run(context);
            Ok(())
        }
        Command::Completions { shell } => completions::run(context, shell),
    }
}
