//! Placeholder.

use crate::{cli::ReloadArgs, context::Context, failure::Failure};

pub(super) fn run(_context: &Context, _args: &ReloadArgs) -> Result<(), Failure> {
    Err(Failure::failed("not there"))
}
