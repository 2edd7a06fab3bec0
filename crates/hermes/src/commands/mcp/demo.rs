//! Placeholder.

use crate::{context::Context, failure::Failure};

pub(super) fn run(_context: &Context) -> Result<(), Failure> {
    Err(Failure::failed("not there"))
}
