//! `hermes gateway …`: what stays and works for a home.

use crate::{
    cli::{GatewayArgs, GatewayCommand},
    context::Context,
    failure::Failure,
    logging,
};

mod api_server;
mod configuration;
mod hub;
mod run;
mod status;
mod stop;

pub(super) use crate::commands::gateway::api_server::ApiServerPlan;
pub(super) use run::working_directory;

pub(super) fn run(context: &Context, args: GatewayArgs) -> Result<(), Failure> {
    match args.command {
        Some(GatewayCommand::Status) => {
            logging::log_to_stderr_if_requested()?;
            status::run(context)
        }
        Some(GatewayCommand::Stop) => {
            logging::log_to_stderr_if_requested()?;
            stop::run(context)
        }
        Some(GatewayCommand::Run(late)) => {
            let mut args = args.run;
            args.verbose += late.verbose;
            args.quiet |= late.quiet;
            args.replace |= late.replace;
            run::run(context, &args)
        }
        None => run::run(context, &args.run),
    }
}
