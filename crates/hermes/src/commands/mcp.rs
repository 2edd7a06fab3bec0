//! `hermes mcp …`.

use crate::{cli::McpCommand, context::Context, failure::Failure};

mod config;
mod inspect;
mod login;
mod requests;
mod serve;

pub(super) use crate::commands::mcp::{
    config::save::reload_running,
    inspect::{
        cached_servers::cached_tools, doctor::summarize_checks, list::tone,
        status::count_ready_servers,
    },
    requests::{
        call::{insert_pairs, parse_tool_name, request_failure},
        running_process::{RoutedRequest, request_running_process as ask_running},
    },
};

pub(super) fn run(context: &Context, command: Option<McpCommand>) -> Result<(), Failure> {
    let Some(command) = command else {
        return inspect::status::overview(context);
    };
    match command {
        McpCommand::Add(args) => config::add::run(context, &args),
        McpCommand::List => inspect::list::run(context),
        McpCommand::Remove(args) => config::remove::run(context, &args),
        McpCommand::Test(args) => inspect::test::run(context, &args),
        McpCommand::Login(args) => login::run(context, &args),
        McpCommand::Logout(args) => login::run_logout(context, &args),
        McpCommand::Reauth(args) => login::run_reauth(context, &args),
        McpCommand::Call(args) => requests::call::run(context, &args),
        McpCommand::Tools(args) => requests::tools::run(context, &args),
        McpCommand::Configure(args) => config::configure::run(context, &args),
        McpCommand::Enable(args) => config::set_enabled(context, &args, config::EnableState::On),
        McpCommand::Disable(args) => config::set_enabled(context, &args, config::EnableState::Off),
        McpCommand::Import(args) => config::import::run(context, &args),
        McpCommand::Presets => {
            config::catalog::run_presets(context);
            Ok(())
        }
        McpCommand::Catalog(args) => {
            config::catalog::run(context, &args);
            Ok(())
        }
        McpCommand::Install(args) => config::install::run(context, &args),
        McpCommand::Ps(args) => inspect::ps::run(context, &args),
        McpCommand::Doctor(args) => inspect::doctor::run(context, &args),
        McpCommand::Status(args) => inspect::status::run(context, &args),
        McpCommand::Get(args) => inspect::get::run(context, &args),
        McpCommand::Resources(args) => requests::resources::resources(context, &args),
        McpCommand::Prompts(args) => requests::resources::prompts(context, &args),
        McpCommand::Reload(args) => config::reload::run(context, &args),
        McpCommand::Demo => serve::run_demo(context),
        McpCommand::Serve(args) => serve::run(context, &args),
    }
}
