//! Placeholder.

use crate::{cli::NameArgs, context::Context, failure::Failure};

pub(super) fn run(_context: &Context, _args: &NameArgs, _switch: Switch) -> Result<(), Failure> {
    Err(Failure::failed("not there"))
}

pub(super) enum Switch {
    On,
    Off,
}
