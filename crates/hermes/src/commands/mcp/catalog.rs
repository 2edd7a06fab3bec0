//! Placeholder.

use crate::{cli::CatalogArgs, context::Context, failure::Failure};

pub(super) fn run(_context: &Context, _args: &CatalogArgs) -> Result<(), Failure> {
    Err(Failure::failed("not there"))
}
