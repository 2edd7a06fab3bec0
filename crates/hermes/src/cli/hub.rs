//! The arguments of `hermes hub …`.

pub(crate) mod feed;
pub(crate) mod group;
pub(crate) mod policy;
pub(crate) mod share;
pub(crate) mod skill_library;
pub(crate) mod tenant;
pub(crate) mod token;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use self::{
    feed::{HubEventsArgs, HubJobsArgs, HubRunsArgs, HubUsageArgs, HubWebhookArgs},
    token::HubSessionArgs,
};
use super::RevisionArgs;

/// What can be done with a Hub.
#[derive(Debug, Subcommand)]
pub(crate) enum HubCommand {
    /// Run a Hub here, until Ctrl-C.
    Serve(HubServeArgs),
    /// Show whether a Hub is ready.
    Status(HubStatusArgs),
    /// Print what a program needs to connect to a Hub by MCP.
    Connect(HubConnectArgs),
    /// Check for problems of a Hub on this machine.
    Doctor(HubDoctorArgs),
    /// Back up all data of a Hub on this machine into one file, while it runs.
    Backup(BackupArgs),
    /// Restore a Hub's data directory from a backup.
    Restore(RestoreArgs),
    /// Migrate a stopped Hub to this version, or to other storage.
    Migrate(HubMigrateArgs),
    /// Print the OpenAPI document.
    Openapi(HubArgs),
    /// Settings that affect running tenants.
    Config(HubConfigArgs),
    /// The audit log.
    Audit(HubAuditArgs),
    /// The nodes of a Hub that share a database.
    Node(HubNodeArgs),
    /// Show how many tenants are in each state, what needs attention, and which runs failed.
    Overview(HubArgs),
    /// List the runs of all tenants, newest first.
    Runs(HubRunsArgs),
    /// List the cron jobs of all tenants that run next.
    Jobs(HubJobsArgs),
    /// What runs used, by tenant, model or day.
    Usage(HubUsageArgs),
    /// What happens to tenants.
    Events(HubEventsArgs),
    /// Addresses that get events.
    Webhook(HubWebhookArgs),
    /// Make a link that signs in to the web console once.
    LoginLink(HubArgs),
    /// Who is signed in to the web console.
    Session(HubSessionArgs),
}

/// Where a Hub of this machine keeps its data.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DataDirArgs {
    /// The file with the settings (default: `hub.yaml` in the data directory).
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where the Hub keeps its data (default: $XDG_DATA_HOME/hermes-hub).
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Every setting of `hub.yaml` can also be a variable: `runs.max_concurrent` is HERMES_HUB_RUNS__MAX_CONCURRENT.

Examples:
  hermes hub serve
  hermes hub serve --data-dir ./hub --listen 127.0.0.1:0 --set runtime=mock")]
pub(crate) struct HubServeArgs {
    #[command(flatten)]
    pub(crate) data: DataDirArgs,
    /// Where clients connect (default: 127.0.0.1:7878).
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Any other setting (repeatable).
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Log to stderr instead of `logs/hub.log`; twice for more.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without `--to`, the database gets the tables of this version. With `--to`, everything is copied to
other storage and compared. The source stays as it was, and the settings are not changed.

Examples:
  hermes hub migrate
  hermes hub migrate --to postgres://hub@db.example.com/hub --objects s3://hub-files/production
  hermes hub migrate --to sqlite:")]
pub(crate) struct HubMigrateArgs {
    #[command(flatten)]
    pub(crate) data: DataDirArgs,
    /// The database to copy everything to: `postgres://…`, or `sqlite:` for the one of the data directory.
    #[arg(long, value_name = "URL")]
    pub(crate) to: Option<String>,
    /// The object storage to copy files to, or to copy them from when `--to` is `sqlite:` and the settings do not name it.
    #[arg(long, value_name = "URL", requires = "to")]
    pub(crate) objects: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
With `--local`, the data directory is looked at, which needs no token and no running Hub.

Examples:
  hermes hub status
  hermes hub status --local --data-dir /var/lib/hermes-hub")]
pub(crate) struct HubStatusArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    /// Show what is known of the Hub of this machine: whether it runs, and its last problem.
    #[arg(long)]
    pub(crate) local: bool,
    #[command(flatten)]
    pub(crate) data: DataDirArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The token is not printed: make one with `hermes token create`.

Examples:
  hermes hub connect
  hermes hub connect claude-code
  hermes hub connect cursor --hub https://hub.example.com")]
pub(crate) struct HubConnectArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    /// The program, such as `claude-code`; all of them are listed without it.
    pub(crate) client: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct HubDoctorArgs {
    #[command(flatten)]
    pub(crate) data: DataDirArgs,
    /// Also create two tenants and test that one cannot reach the other or the Hub.
    #[arg(long)]
    pub(crate) isolation: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file to write, `….tar.zst`; `-` is stdout.
    pub(crate) file: PathBuf,
    /// Include the key of the tenants' secrets. Anyone who has the file can then read them.
    #[arg(long)]
    pub(crate) with_key: bool,
    /// Of a Hub on PostgreSQL: write, as JSON, to which positions of the database and of the object storage their own
    /// backups are to be restored.
    #[arg(long, conflicts_with = "with_key")]
    pub(crate) metadata: bool,
    #[command(flatten)]
    pub(crate) data: DataDirArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup.
    pub(crate) file: PathBuf,
    /// Drop secrets whose `secret.key` is lost: variables of tenants must be set again, agents get new keys.
    #[arg(long)]
    pub(crate) forget_secrets: bool,
    #[command(flatten)]
    pub(crate) data: DataDirArgs,
}

#[derive(Debug, Args)]
pub(crate) struct HubConfigArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    #[command(subcommand)]
    pub(crate) command: HubConfigCommand,
}

/// What can be done with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum HubConfigCommand {
    /// Print the configuration in force.
    Get,
    /// Change settings by a JSON merge patch.
    Patch {
        /// The file that holds the patch; `-` is stdin.
        file: PathBuf,
        #[command(flatten)]
        version: VersionArgs,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
    /// List the revisions of the configuration, newest first.
    Revisions(PageArgs),
    /// Restore an earlier revision as a new one.
    Restore(RevisionArgs),
}

#[derive(Debug, Args)]
pub(crate) struct HubNodeArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    #[command(subcommand)]
    pub(crate) command: HubNodeCommand,
}

/// What can be done with nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum HubNodeCommand {
    /// List the nodes and how many tenants each works for.
    List,
    /// Have a node hand its tenants over to the others.
    Drain {
        /// The node's id.
        node: String,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct HubAuditArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    #[command(subcommand)]
    pub(crate) command: HubAuditCommand,
}

/// What can be done with the audit log.
#[derive(Debug, Subcommand)]
pub(crate) enum HubAuditCommand {
    /// Show the last entries.
    Tail {
        #[command(flatten)]
        filter: AuditFilter,
        /// How many, 1 to 500.
        #[arg(short = 'n', long, default_value_t = 20)]
        limit: u32,
    },
    /// Verify that no entry was changed.
    Verify,
    /// Write all entries as JSON lines, oldest first.
    Export {
        /// The file to write; `-` is stdout.
        #[arg(default_value = "-")]
        file: PathBuf,
        #[command(flatten)]
        filter: AuditFilter,
    },
}

/// Which entries.
#[derive(Debug, Default, Args)]
pub(crate) struct AuditFilter {
    /// Of one tenant.
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// By one token.
    #[arg(long)]
    pub(crate) actor: Option<String>,
    /// Of one operation.
    #[arg(long)]
    pub(crate) action: Option<String>,
    /// Only those `allow`ed, or those `deny`ed.
    #[arg(long, value_parser = ["allow", "deny"])]
    pub(crate) decision: Option<String>,
    /// Not before this time.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Before this time.
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
}

/// Which Hub, and who asks it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Hub")]
pub(crate) struct HubArgs {
    /// Where the Hub is (also: HERMES_HUB_URL; default: http://127.0.0.1:7878).
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) hub: Option<String>,
    /// A file that holds the token (default: HERMES_HUB_TOKEN, else the secret `hub@HOST`, else `admin.token` of this machine's Hub).
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Which piece of a long list.
#[derive(Debug, Default, Args)]
pub(crate) struct PageArgs {
    /// Maximum number, 1 to 500 (default: all; with `--json`, 100).
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u32>,
    /// Continue after a page: its `nextCursor`.
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}

/// Doing what cannot be undone.
#[derive(Debug, Default, Args)]
pub(crate) struct ConfirmArgs {
    /// Do it without asking.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Changing only what is still as it was.
#[derive(Debug, Default, Args)]
pub(crate) struct VersionArgs {
    /// Change it only if it still has this version: the ETag of a reply.
    #[arg(long, value_name = "ETAG")]
    pub(crate) if_match: Option<String>,
}
