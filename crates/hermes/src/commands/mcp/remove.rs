//! Placeholder.

use crate::{cli::RemoveArgs, context::Context, failure::Failure};

pub(super) fn run(_context: &Context, _args: &RemoveArgs) -> Result<(), Failure> {
    Err(Failure::failed("not there"))
}
