//! The arguments of `hermes hub runs`, `jobs`, `usage`, `events` and `webhook`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::{ConfirmArgs, HubArgs, PageArgs, VersionArgs};

#[derive(Debug, Args)]
#[command(after_help = "\
Days are in UTC. Costs come from `usage.prices` in hub.yaml.

Examples:
  hermes hub usage
  hermes hub usage --by model --from 2026-11-01
  hermes hub usage --by day --csv > usage.csv")]
pub(crate) struct HubUsageArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    /// What is summed up (default: tenant).
    #[arg(long, value_parser = ["tenant", "model", "day"])]
    pub(crate) by: Option<String>,
    /// The first day, such as 2026-11-01 (default: 29 days before the last one).
    #[arg(long, value_name = "DAY")]
    pub(crate) from: Option<String>,
    /// The last day, included (default: today).
    #[arg(long, value_name = "DAY")]
    pub(crate) to: Option<String>,
    /// Print comma-separated values.
    #[arg(long)]
    pub(crate) csv: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without `--follow`, the events that are kept are printed. With `--json`, each event is a line.

Examples:
  hermes hub events --tenant acme
  hermes hub events --follow --type run.ended,tenant.failed")]
pub(crate) struct HubEventsArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    /// Of one tenant.
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// Of these types, such as `run.ended,approval.waiting`.
    #[arg(long = "type", value_name = "TYPES", value_delimiter = ',')]
    pub(crate) types: Vec<String>,
    /// After this event (default: all that are kept; with `--follow`, from now on).
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<u64>,
    /// Follow until Ctrl-C, and reconnect if the connection breaks.
    #[arg(short, long)]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Deliveries are signed by the rules of Standard Webhooks. One that fails is sent again for a day.

Examples:
  hermes hub webhook create https://ops.example.com/hermes --event run.ended --event tenant.failed
  hermes hub webhook deliveries whk_1 --state dead
  hermes hub webhook redeliver whk_1 msg_2")]
pub(crate) struct HubWebhookArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    #[command(subcommand)]
    pub(crate) command: HubWebhookCommand,
}

/// What can be done with webhooks.
#[derive(Debug, Subcommand)]
pub(crate) enum HubWebhookCommand {
    /// List the webhooks.
    List,
    /// Show a webhook.
    Get {
        /// The webhook's id.
        webhook: String,
    },
    /// Create a webhook; its secret is shown once.
    Create(WebhookCreateArgs),
    /// Change a webhook.
    Update(WebhookUpdateArgs),
    /// Delete a webhook, with everything that waits to be sent to it.
    Delete {
        /// The webhook's id.
        webhook: String,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
    /// Send a test event to a webhook.
    Test {
        /// The webhook's id.
        webhook: String,
    },
    /// List what was or will be sent to a webhook, newest first.
    Deliveries {
        /// The webhook's id.
        webhook: String,
        /// Only those in this state; `dead` ones were given up.
        #[arg(long, value_parser = ["pending", "delivered", "dead"])]
        state: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Send a delivery that has ended once more.
    Redeliver {
        /// The webhook's id.
        webhook: String,
        /// The delivery's id.
        delivery: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct WebhookCreateArgs {
    /// Where events are posted to, with https.
    pub(crate) url: String,
    /// An event that it gets (repeatable).
    #[arg(
        long = "event",
        value_name = "TYPE",
        value_delimiter = ',',
        required = true
    )]
    pub(crate) events: Vec<String>,
    /// Only events of this tenant (repeatable).
    #[arg(long = "tenant", value_name = "TENANT")]
    pub(crate) tenants: Vec<String>,
    /// Read its secret from stdin, `whsec_…`, instead of having one made.
    #[arg(long)]
    pub(crate) secret: bool,
    /// Send nothing to it yet.
    #[arg(long)]
    pub(crate) disabled: bool,
    /// Write the secret to this file instead of printing it.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct WebhookUpdateArgs {
    /// The webhook's id.
    pub(crate) webhook: String,
    /// Where events are posted to, with https.
    #[arg(long)]
    pub(crate) url: Option<String>,
    /// An event that it gets (repeatable); replaces those it had.
    #[arg(long = "event", value_name = "TYPE", value_delimiter = ',')]
    pub(crate) events: Vec<String>,
    /// Only events of this tenant (repeatable); replaces those it had.
    #[arg(long = "tenant", value_name = "TENANT", conflicts_with = "all_tenants")]
    pub(crate) tenants: Vec<String>,
    /// Events of all tenants.
    #[arg(long)]
    pub(crate) all_tenants: bool,
    /// Send to it.
    #[arg(long, conflicts_with = "disable")]
    pub(crate) enable: bool,
    /// Send nothing to it. What happens meanwhile is never sent.
    #[arg(long)]
    pub(crate) disable: bool,
    /// Read another secret from stdin, `whsec_…`.
    #[arg(long)]
    pub(crate) secret: bool,
    #[command(flatten)]
    pub(crate) version: VersionArgs,
}

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
