//! Placeholder.

use crate::{cli::PsArgs, context::Context, failure::Failure};

pub(super) fn run(_context: &Context, _args: &PsArgs) -> Result<(), Failure> {
    Err(Failure::failed("not there"))
}
