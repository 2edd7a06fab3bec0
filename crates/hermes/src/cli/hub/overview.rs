//! The arguments of `hermes hub runs` and `hermes hub jobs`.

use clap::Args;

use crate::cli::{HubArgs, PageArgs};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hermes hub runs --status failed --limit 20
  hermes hub runs --trigger cron --since 2026-11-01T00:00:00Z")]
pub(crate) struct HubRunsArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    /// Only those in this state: `queued`, `running`, `waiting_for_approval`, `completed`, …
    #[arg(long)]
    pub(crate) status: Option<String>,
    /// Only those with this cause: `api`, `cron`, `mcp`, `a2a`.
    #[arg(long)]
    pub(crate) trigger: Option<String>,
    /// Only those that this model answered.
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Only those requested at this time or later.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only those requested before this time.
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Paused jobs have no next time. `--all` lists them, too.

Examples:
  hermes hub jobs --limit 10
  hermes hub jobs --all")]
pub(crate) struct HubJobsArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    /// Maximum number, 1 to 500 (default: 50).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) limit: Option<u32>,
    /// Also paused and finished jobs, in the order of tenants and ids.
    #[arg(long)]
    pub(crate) all: bool,
}
