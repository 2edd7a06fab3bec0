//! `hermes hub …`: running a Hub, looking after it, and what holds for all of it.

use crate::{cli::HubCommand, context::Context, failure::Failure};

mod audit;
mod backup;
pub(crate) mod client;
mod config;
mod doctor;
pub(crate) mod group;
mod migrate;
mod openapi;
pub(crate) mod policy;
mod serve;
pub(crate) mod share;
mod status;
pub(crate) mod tenant;
pub(crate) mod token;

pub(super) fn run(context: &Context, command: HubCommand) -> Result<(), Failure> {
    match command {
        HubCommand::Serve(args) => serve::run(context, &args),
        HubCommand::Status(args) => status::run(context, &args),
        HubCommand::Doctor(args) => doctor::run(context, &args),
        HubCommand::Backup(args) => backup::run(context, &args),
        HubCommand::Restore(args) => backup::restore(context, &args),
        HubCommand::Migrate(args) => migrate::run(context, &args),
        HubCommand::Openapi(args) => openapi::run(context, &args),
        HubCommand::Config(args) => config::run(context, args),
        HubCommand::Audit(args) => audit::run(context, args),
    }
}
