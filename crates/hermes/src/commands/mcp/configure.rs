//! Placeholder.

use crate::{cli::ConfigureArgs, context::Context, failure::Failure};

pub(super) fn run(_context: &Context, _args: &ConfigureArgs) -> Result<(), Failure> {
    Err(Failure::failed("not there"))
}
