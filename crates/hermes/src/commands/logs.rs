//! Placeholder.

use crate::{cli::LogsArgs, context::Context, failure::Failure};

pub(super) fn run(_context: &Context, _args: &LogsArgs) -> Result<(), Failure> {
    Err(Failure::failed("not there"))
}
