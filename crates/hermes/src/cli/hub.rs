//! The arguments of `hermes hub …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{HubArgs, PageArgs, RevisionArgs, SureArgs, VersionArgs};

/// What can be done with a Hub.
#[derive(Debug, Subcommand)]
pub(crate) enum HubCommand {
    /// Run a Hub here, until Ctrl-C.
    Serve(HubServeArgs),
    /// Say whether a Hub is ready.
    Status(HubArgs),
    /// Look for what keeps a Hub of this machine from working.
    Doctor(HubDoctorArgs),
    /// Write all that a Hub of this machine keeps into one file, while it runs.
    Backup(BackupArgs),
    /// Make a Hub's directory from a backup.
    Restore(RestoreArgs),
    /// Bring the database of a Hub that does not run to this version.
    Migrate(DataDirArgs),
    /// Print the OpenAPI document.
    Openapi(HubArgs),
    /// The settings whose change alters running tenants.
    Config(HubConfigArgs),
    /// The audit log.
    Audit(HubAuditArgs),
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
pub(crate) struct HubDoctorArgs {
    #[command(flatten)]
    pub(crate) data: DataDirArgs,
    /// Also make two tenants, and let one of them try every way into the other and into the Hub.
    #[arg(long)]
    pub(crate) isolation: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file to write, `….tar.zst`; `-` is stdout.
    pub(crate) file: PathBuf,
    /// With the key that opens the tenants' secrets. Who has both has them all.
    #[arg(long)]
    pub(crate) with_key: bool,
    #[command(flatten)]
    pub(crate) data: DataDirArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup.
    pub(crate) file: PathBuf,
    /// Forget what only a lost `secret.key` would open: variables of tenants have to be set again, agents get new keys.
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
        sure: SureArgs,
    },
    /// List the revisions of the configuration, newest first.
    Revisions(PageArgs),
    /// Write an earlier revision as a new one.
    Restore(RevisionArgs),
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
    /// Look whether every entry is as it was written.
    Verify,
    /// Write all entries, one JSON document in each line, oldest first.
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
