//! `hermes gateway …`: what stays and works for a home.

use crate::{
    cli::{GatewayArgs, GatewayCommand},
    context::Context,
    failure::Failure,
    logging,
};

mod configuration;
mod door;
mod hub;
mod run;
mod status;
mod stop;

pub(super) use door::Plan;
pub(super) use run::working_directory;

pub(super) fn run(context: &Context, args: GatewayArgs) -> Result<(), Failure> {
    match args.command {
        Some(GatewayCommand::Status) => {
            logging::to_stderr_if_asked()?;
            status::run(context)
        }
        Some(GatewayCommand::Stop) => {
            logging::to_stderr_if_asked()?;
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
