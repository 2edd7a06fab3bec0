//! `hermes hub …`: running a Hub, looking after it, and what holds for all of it.

use crate::{cli::HubCommand, context::Context, failure::Failure};

mod audit;
mod config;
mod openapi;
mod serve;
mod status;

pub(super) fn run(context: &Context, command: HubCommand) -> Result<(), Failure> {
    match command {
        HubCommand::Serve(args) => serve::run(context, &args),
        HubCommand::Status(args) => status::run(context, &args),
        HubCommand::Openapi(args) => openapi::run(context, &args),
        HubCommand::Config(args) => config::run(context, args),
        HubCommand::Audit(args) => audit::run(context, args),
        _ => Err(Failure::failed("to do")),
    }
}
