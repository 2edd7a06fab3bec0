//! `hermes hub …`: running a Hub, looking after it, and what holds for all of it.

use crate::{
    cli::{HubArgs, HubCommand},
    commands::hub::client::{HubCall, HubClient, plain_text},
    context::Context,
    failure::Failure,
};

mod audit;
mod backup;
pub(crate) mod client;
mod config;
mod doctor;
pub(crate) mod group;
pub(crate) mod policy;
mod serve;
pub(crate) mod share;
pub(crate) mod tenant;
pub(crate) mod token;

pub(super) fn run(context: &Context, command: HubCommand) -> Result<(), Failure> {
    match command {
        HubCommand::Serve(args) => serve::run(context, &args),
        HubCommand::Status(args) => run_status(context, &args),
        HubCommand::Doctor(args) => doctor::run(context, &args),
        HubCommand::Backup(args) => backup::run(context, &args),
        HubCommand::Restore(args) => backup::restore(context, &args),
        HubCommand::Migrate(args) => backup::run_migrate(context, &args),
        HubCommand::Openapi(args) => run_openapi(context, &args),
        HubCommand::Config(args) => config::run(context, args),
        HubCommand::Audit(args) => audit::run(context, args),
    }
}

fn run_openapi(context: &Context, args: &HubArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, args)?;
    let document = hub.call_text(&HubCall::new("openapi"))?;
    hub.output().raw(&format!("{}\n", document.trim_end()));
    Ok(())
}

fn run_status(context: &Context, args: &HubArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, args)?;
    let answer = hub.call(&HubCall::new("readyz"))?;
    let output = hub.output();
    if output.is_json() {
        return Ok(());
    }
    output.line(format!(
        "The Hub at {} is {}.",
        hub.address(),
        answer.text("/status")
    ));
    // Who has no token may know that it is ready, and no more.
    if let Ok(version) = hub.call_quietly(&HubCall::new("version")) {
        for (name, member) in [
            ("version", "version"),
            ("node", "node"),
            ("since", "startedAt"),
            ("features", "features"),
        ] {
            output.line(format!("{name}: {}", plain_text(&version.value[member])));
        }
    }
    Ok(())
}
