//! Placeholder.

use crate::{cli::ToolsArgs, context::Context, failure::Failure};

pub(super) fn run(_context: &Context, _args: &ToolsArgs) -> Result<(), Failure> {
    Err(Failure::failed("not there"))
}
