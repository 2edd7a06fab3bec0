//! A conversation with a person at the terminal.

use crate::{cli::ChatArgs, context::Context, failure::Failure};

pub(super) fn run(_context: &Context, _args: &ChatArgs) -> Result<(), Failure> {
    Err(
        Failure::failed("conversations at the terminal are not part of this build")
            .hint("ask with `hermes -q TEXT`, or send lines: `echo TEXT | hermes`"),
    )
}
