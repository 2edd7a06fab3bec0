//! Placeholder.

use crate::{cli::UpArgs, context::Context, failure::Failure};

pub(super) fn run(_context: &Context, _args: &UpArgs) -> Result<(), Failure> {
    Err(Failure::failed("not there"))
}
