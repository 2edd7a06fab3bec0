//! `hermes completions SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{Cli, context::Context, failure::Failure};

pub(super) fn run(context: &Context, shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "hermes", &mut script);
    context.output.raw(&String::from_utf8_lossy(&script));
    Ok(())
}
