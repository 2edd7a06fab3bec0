//! `hermes mcp …`.

use crate::{cli::McpCommand, context::Context, failure::Failure};

mod add;
mod cached_servers;
mod call;
mod catalog;
mod configure;
mod demo;
mod doctor;
mod enable;
mod filters;
mod get;
mod import;
mod install;
mod list;
mod login;
mod logout;
mod offer;
mod pins;
mod presets;
mod probe;
mod ps;
mod reauth;
mod reload;
mod remove;
mod resources;
mod running_process;
mod save;
mod secrets;
mod serve;
mod server_files;
mod signature;
mod status;
mod test;
mod tools;

pub(super) use crate::commands::mcp::{
    cached_servers::cached_tools,
    running_process::{RoutedRequest, request_running_process as ask_running},
};
pub(super) use call::{insert_pairs, parse_tool_name, request_failure};
pub(super) use doctor::summarize_checks;
pub(super) use list::tone;
pub(super) use save::reload_running;
pub(super) use status::count_ready_servers;

pub(super) fn run(context: &Context, command: Option<McpCommand>) -> Result<(), Failure> {
    let Some(command) = command else {
        return status::overview(context);
    };
    match command {
        McpCommand::Add(args) => add::run(context, &args),
        McpCommand::List => list::run(context),
        McpCommand::Remove(args) => remove::run(context, &args),
        McpCommand::Test(args) => test::run(context, &args),
        McpCommand::Login(args) => login::run(context, &args),
        McpCommand::Logout(args) => logout::run(context, &args),
        McpCommand::Reauth(args) => reauth::run(context, &args),
        McpCommand::Call(args) => call::run(context, &args),
        McpCommand::Tools(args) => tools::run(context, &args),
        McpCommand::Configure(args) => configure::run(context, &args),
        McpCommand::Enable(args) => enable::run(context, &args, enable::EnableState::On),
        McpCommand::Disable(args) => enable::run(context, &args, enable::EnableState::Off),
        McpCommand::Import(args) => import::run(context, &args),
        McpCommand::Presets => {
            presets::run(context);
            Ok(())
        }
        McpCommand::Catalog(args) => {
            catalog::run(context, &args);
            Ok(())
        }
        McpCommand::Install(args) => install::run(context, &args),
        McpCommand::Ps(args) => ps::run(context, &args),
        McpCommand::Doctor(args) => doctor::run(context, &args),
        McpCommand::Status(args) => status::run(context, &args),
        McpCommand::Get(args) => get::run(context, &args),
        McpCommand::Resources(args) => resources::resources(context, &args),
        McpCommand::Prompts(args) => resources::prompts(context, &args),
        McpCommand::Reload(args) => reload::run(context, &args),
        McpCommand::Demo => demo::run(context),
        McpCommand::Serve(args) => serve::run(context, &args),
    }
}
