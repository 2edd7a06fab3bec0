//! One module per command. Each takes its arguments and ends well or with a `Failure`.

use crate::{
    cli::{CliCommand, HubCommand, McpArgs, McpCommand},
    context::Context,
    failure::Failure,
    logging,
};

mod chat;
mod completions;
mod config;
mod cron;
mod doctor;
mod gateway;
mod hub;
mod logs;
mod mcp;
mod model;
mod pairing;
mod secret;
mod send;
mod sessions;
mod setup;
mod skills;
mod state;
mod up;
mod version;

pub(crate) use completions::complete_line as answer_shell;

/// Runs a command.
pub(crate) fn run(context: &Context, command: CliCommand) -> Result<(), Failure> {
    // `up`, `chat` and `gateway` may stay and have a log file, `mcp serve` tells its client; the others are over soon.
    let is_serve = |args: &McpArgs| matches!(args.command, Some(McpCommand::Serve(_)));
    match &command {
        CliCommand::Up(_) | CliCommand::Chat(_) | CliCommand::Gateway(_) => {}
        CliCommand::Hub(hub) if matches!(*hub.command, HubCommand::Serve(_)) => {}
        CliCommand::Mcp(args) if is_serve(args) => {}
        _ => logging::log_to_stderr_if_requested()?,
    }
    match command {
        CliCommand::Chat(args) => chat::run(context, &args),
        CliCommand::Up(args) => up::run(context, &args),
        CliCommand::Setup(args) => setup::run(context, &args),
        CliCommand::Doctor(args) => doctor::run(context, &args),
        CliCommand::Status => doctor::status(context),
        CliCommand::Config(args) => config::run(context, args.into_inner().command),
        CliCommand::Gateway(args) => gateway::run(context, args.into_inner()),
        CliCommand::Mcp(args) => mcp::run(context, args.into_inner().command),
        CliCommand::Model(args) => model::run(context, &args),
        CliCommand::Sessions(args) => sessions::run(context, args.into_inner().command),
        CliCommand::Send(args) => send::run(context, &args),
        CliCommand::Channels(args) => send::run_channels(context, &args.command),
        CliCommand::Pairing(args) => pairing::run(context, &args.command),
        CliCommand::Cron(args) => cron::run(context, args.into_inner().command),
        CliCommand::Skills(args) => skills::run(context, args.into_inner().command),
        CliCommand::Secret(args) => secret::run(context, args.into_inner().command),
        CliCommand::Hub(args) => hub::run(context, *args.into_inner().command),
        CliCommand::Tenant(args) => hub::tenant::run(context, args.into_inner()),
        CliCommand::Share(args) => hub::share::run(context, args.into_inner()),
        CliCommand::SkillLibrary(args) => hub::skill_library::run(context, args.into_inner()),
        CliCommand::Group(args) => hub::group::run(context, args.into_inner()),
        CliCommand::Policy(args) => hub::policy::run(context, args.into_inner()),
        CliCommand::Specialization(args) => {
            hub::policy::run_specialization(context, args.into_inner())
        }
        CliCommand::Token(args) => hub::token::run(context, args.into_inner()),
        CliCommand::Logs(args) => logs::run(context, &args),
        CliCommand::Version => {
            version::run(context);
            Ok(())
        }
        CliCommand::Completions { shell } => completions::run(context, shell),
    }
}
