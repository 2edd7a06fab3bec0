//! Placeholder.

use crate::{cli::InstallArgs, context::Context, failure::Failure};

pub(super) fn run(_context: &Context, _args: &InstallArgs) -> Result<(), Failure> {
    Err(Failure::failed("not there"))
}
