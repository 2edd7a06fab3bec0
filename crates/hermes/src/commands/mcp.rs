//! `hermes mcp …`.

use crate::{cli::McpCommand, context::Context, failure::Failure};

mod add;
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
mod leftovers;
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
mod remembered;
mod remove;
mod resources;
mod running;
mod save;
mod secrets;
mod serve;
mod signature;
mod status;
mod test;
mod tools;

pub(super) use call::{failure as request_failure, insert_pairs, named};
pub(super) use doctor::trouble;
pub(super) use list::tone;
pub(super) use remembered::remembered_tools;
pub(super) use running::{Wanted, request as ask_running};
pub(super) use save::reload_running;
pub(super) use status::ready_servers;

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
        McpCommand::Enable(args) => enable::run(context, &args, enable::Switch::On),
        McpCommand::Disable(args) => enable::run(context, &args, enable::Switch::Off),
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
