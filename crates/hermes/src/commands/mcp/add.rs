//! Placeholder.

use crate::{cli::AddArgs, context::Context, failure::Failure};

pub(super) fn run(_context: &Context, _args: &AddArgs) -> Result<(), Failure> {
    Err(Failure::failed("not there"))
}
