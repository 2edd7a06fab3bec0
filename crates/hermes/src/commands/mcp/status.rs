//! Placeholder.

use crate::{cli::StatusArgs, context::Context, failure::Failure};

pub(super) fn run(_context: &Context, _args: &StatusArgs) -> Result<(), Failure> {
    Err(Failure::failed("not there"))
}

pub(super) fn overview(_context: &Context) -> Result<(), Failure> {
    Err(Failure::failed("not there"))
}
