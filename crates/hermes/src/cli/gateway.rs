//! The arguments of `hermes gateway …`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_help = "\
Cron jobs run while the gateway runs. With API_SERVER_KEY set (16 characters or more), programs reach the agent over
HTTP on 127.0.0.1:8642.

Examples:
  hermes gateway                  run it here, until Ctrl-C
  hermes gateway run --replace    stop the running one and take its place
  hermes gateway status --json    its state, for scripts")]
pub(crate) struct GatewayArgs {
    #[command(flatten)]
    pub(crate) run: GatewayRunArgs,
    #[command(subcommand)]
    pub(crate) command: Option<GatewayCommand>,
}

/// What can be done with a gateway.
#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// Run it here, until Ctrl-C. This is what `hermes gateway` alone does.
    Run(GatewayRunArgs),
    /// Show whether it runs, and its state.
    Status,
    /// Stop it: runs under way get `agent.restart_drain_timeout` seconds.
    Stop,
}

#[derive(Debug, Default, Args)]
pub(crate) struct GatewayRunArgs {
    /// Log to stderr instead of `logs/hermes.log`; twice for more.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Print errors only.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Stop the running gateway of this home and take its place.
    #[arg(long)]
    pub(crate) replace: bool,
}
