//! Placeholder.

use crate::{cli::DoctorArgs, context::Context, failure::Failure};

pub(super) fn run(_context: &Context, _args: &DoctorArgs) -> Result<(), Failure> {
    Err(Failure::failed("not there"))
}
