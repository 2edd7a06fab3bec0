//! `hermes completions SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{Cli, context::Context};

pub(super) fn run(context: &Context, shell: Shell) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "hermes", &mut script);
    context.output.raw(&String::from_utf8_lossy(&script));
}
