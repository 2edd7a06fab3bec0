//! `hermes model`: which model is used, and choosing another.

use crate::{cli::ModelArgs, context::Context, failure::Failure};

mod ask;
mod choose;
mod offers;
mod show;

pub(super) use ask::run as ask;

pub(super) fn run(context: &Context, args: &ModelArgs) -> Result<(), Failure> {
    match &args.name {
        Some(name) => choose::run(context, name, args),
        None if args.list => show::run_list(context),
        None if args.show || context.output.is_json() => show::run(context),
        None => ask::run(context),
    }
}
