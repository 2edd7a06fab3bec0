//! Placeholder.

use crate::{cli::ImportArgs, context::Context, failure::Failure};

pub(super) fn run(_context: &Context, _args: &ImportArgs) -> Result<(), Failure> {
    Err(Failure::failed("not there"))
}
