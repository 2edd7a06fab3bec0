//! The arguments of `hermes tenant …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

mod cron;
mod home;
mod mcp;
mod messaging;

pub(crate) use cron::{JobMembers, TenantCronCommand};
pub(crate) use home::{
    TenantApplyArgs, TenantFilesCommand, TenantMemoryArgs, TenantSessionsArgs,
    TenantSessionsCommand, TenantSkillInstallArgs, TenantSoulArgs,
};
pub(crate) use mcp::{
    TenantMcpAddArgs, TenantMcpArgs, TenantMcpCallArgs, TenantMcpCommand, TenantModelArgs,
};

pub(crate) use messaging::{
    TenantLimitArgs, TenantPairingArgs, TenantPairingCommand, TenantPlatformArgs,
    TenantPlatformCommand, TenantPlatformSetArgs,
};

use crate::cli::{ConfirmArgs, HubArgs, PageArgs, VersionArgs};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hermes tenant create acme --name 'Acme Ltd'
  hermes tenant run acme 'Sum up the notes of this week' --watch
  printf %s \"$KEY\" | hermes tenant env set acme OPENAI_API_KEY
  hermes tenant cron create acme '0 9 * * 1' 'Plan the week'

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 denied, 5 answer needed, 6 unavailable, 130 interrupted.")]
pub(crate) struct TenantArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    #[command(subcommand)]
    pub(crate) command: TenantCommand,
}

/// What can be done with tenants.
#[derive(Debug, Subcommand)]
pub(crate) enum TenantCommand {
    /// List the tenants.
    List(TenantListArgs),
    /// Show one tenant and the state of its agent.
    Get(TenantNameArgs),
    /// Create a tenant.
    Create(Box<TenantCreateArgs>),
    /// Change a tenant; options that are not given stay as they are.
    Update(Box<TenantUpdateArgs>),
    /// Delete a tenant; it can be restored for some days.
    Delete(TenantDeleteArgs),
    /// Undo the deletion of a tenant.
    Restore(TenantNameArgs),
    /// Stop a tenant's runs and jobs, and refuse new ones.
    Block(TenantBlockArgs),
    /// Unblock a tenant.
    Unblock(TenantNameArgs),
    /// Start a tenant's agent, or wake it.
    Start(TenantNameArgs),
    /// Stop a tenant's agent, or one of its runs.
    Stop(TenantStopArgs),
    /// Stop a tenant's agent and start it again.
    Restart(TenantNameArgs),
    /// Start a run of a tenant's agent.
    Run(TenantRunArgs),
    /// List the runs of a tenant, or show one.
    Runs(TenantRunsArgs),
    /// Follow a run until it ends.
    Watch(TenantWatchArgs),
    /// Decide on a pending approval; without a run, list all of them.
    Approve(TenantApproveArgs),
    /// Give a tenant's agent a new runtime key; it is shown once.
    RotateKey(RotateKeyArgs),
    /// Copy a tenant's context to a directory of the Hub's machine.
    Sync(TenantSyncArgs),
    /// List, print, save or change the files of a tenant's workspace.
    Files(TenantFilesArgs),
    /// Show or set the character of a tenant's agent.
    Soul(TenantSoulArgs),
    /// Show or set what a tenant's agent knows.
    Memory(TenantMemoryArgs),
    /// Conversations of a tenant's agent.
    Sessions(TenantSessionsArgs),
    /// Create or change tenants from a file.
    Apply(TenantApplyArgs),
    /// Print all that a tenant consists of, without secrets.
    Manifest(TenantNameArgs),
    /// Show, change or test the model of a tenant.
    Model(TenantModelArgs),
    /// MCP servers of a tenant.
    Mcp(TenantMcpArgs),
    /// Messaging platforms of a tenant: tokens, allow-lists, state.
    Platform(TenantPlatformArgs),
    /// Who may write to a tenant's bots: approve users by pairing codes.
    Pairing(TenantPairingArgs),
    /// Show what a tenant may use a day, and what it used today.
    Limits(TenantNameArgs),
    /// Scheduled jobs of a tenant.
    Cron {
        #[command(subcommand)]
        command: TenantCronCommand,
    },
    /// Skills of a tenant.
    Skill {
        #[command(subcommand)]
        command: TenantSkillCommand,
    },
    /// Variables of a tenant's environment.
    Env {
        #[command(subcommand)]
        command: TenantEnvCommand,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TenantNameArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
}

#[derive(Debug, Args)]
pub(crate) struct RotateKeyArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    /// Seconds that the old key stays valid, 0 to 86400.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) grace: Option<u64>,
    #[command(flatten)]
    pub(crate) sure: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TenantListArgs {
    /// Only those in this state: `ready`, `provisioning`, `failed`, `deleted`, …
    #[arg(long)]
    pub(crate) status: Option<String>,
    /// Only those whose id or name contains this.
    #[arg(long, value_name = "TEXT")]
    pub(crate) search: Option<String>,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

/// What can be said of a tenant.
#[derive(Debug, Default, Args)]
pub(crate) struct TenantMembers {
    /// Its display name.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The preset of defaults.
    #[arg(long)]
    pub(crate) flavor: Option<String>,
    /// The model of its agent.
    #[arg(short, long)]
    pub(crate) model: Option<String>,
    /// The zone of its schedules, such as `Europe/Zurich`.
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,
    /// A group it is a member of, with `:write` if it may change files (repeatable).
    #[arg(long = "group", value_name = "GROUP[:ACCESS]")]
    pub(crate) groups: Vec<String>,
    /// A label (repeatable).
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub(crate) labels: Vec<String>,
    /// More members, as JSON from a file or `-` for stdin; other options win.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TenantCreateArgs {
    /// Its id (default: generated).
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) members: TenantMembers,
    /// Do not start its agent.
    #[arg(long)]
    pub(crate) no_start: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TenantUpdateArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    #[command(flatten)]
    pub(crate) members: TenantMembers,
    #[command(flatten)]
    pub(crate) limits: TenantLimitArgs,
    #[command(flatten)]
    pub(crate) version: VersionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TenantDeleteArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    /// Remove its home at once and permanently.
    #[arg(long)]
    pub(crate) purge: bool,
    #[command(flatten)]
    pub(crate) sure: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TenantBlockArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    /// The message for its users.
    #[arg(long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// The reason, for operators.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) sure: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TenantStopArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    /// Only this run.
    pub(crate) run: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TenantRunArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    /// What to work on; `-` reads it from stdin.
    pub(crate) text: String,
    /// Follow the run until it ends.
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// The session to continue.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Added to the agent's instructions.
    #[arg(long, value_name = "TEXT")]
    pub(crate) instructions: Option<String>,
    /// Timeout in seconds.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<u64>,
    /// Retry it if it is interrupted during a tool call.
    #[arg(long)]
    pub(crate) retry_interrupted: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TenantRunsArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    /// Only this run, with all details.
    pub(crate) run: Option<String>,
    /// Only those in this state: `queued`, `running`, `waiting_for_approval`, `completed`, …
    #[arg(long)]
    pub(crate) status: Option<String>,
    /// Only those with this cause: `api`, `cron`, `mcp`, `a2a`.
    #[arg(long)]
    pub(crate) trigger: Option<String>,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TenantWatchArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    /// The run's id.
    pub(crate) run: String,
    /// Only events after this one.
    #[arg(long, value_name = "ID", default_value_t = 0)]
    pub(crate) after: u64,
}

#[derive(Debug, Args)]
pub(crate) struct TenantApproveArgs {
    /// The tenant's id.
    pub(crate) tenant: Option<String>,
    /// The run's id.
    #[arg(requires = "tenant")]
    pub(crate) run: Option<String>,
    /// How far it is allowed: `once`, for the `session`, or `always`.
    #[arg(long, value_parser = ["once", "session", "always"], default_value = "once")]
    pub(crate) choice: String,
    /// Do not allow it.
    #[arg(long, conflicts_with = "choice")]
    pub(crate) deny: bool,
    /// Which approval (default: the oldest).
    #[arg(long, value_name = "ID")]
    pub(crate) approval: Option<String>,
    /// All pending approvals of the run.
    #[arg(long)]
    pub(crate) all: bool,
    /// The reason, which the agent sees.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// The answers of a form that an MCP server asks for: `{"name": "Ada"}`.
    #[arg(long, value_name = "JSON", conflicts_with_all = ["choice", "deny", "all"])]
    pub(crate) content: Option<String>,
    /// Leave a form without a decision.
    #[arg(long, conflicts_with_all = ["choice", "deny", "all", "content"])]
    pub(crate) cancel: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TenantSyncArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    /// The directory: below `sync` of the Hub's data, or an absolute path below `sync.allowed_roots`.
    pub(crate) destination: String,
    /// Show what would be done, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Delete files that an earlier sync copied and the tenant no longer has.
    #[arg(long)]
    pub(crate) delete: bool,
    #[command(flatten)]
    pub(crate) sure: ConfirmArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hermes tenant files acme
  hermes tenant files acme notes/today.md --cat
  hermes tenant files acme grep 'invoice [0-9]+'
  hermes tenant files acme put prices.csv data/prices.csv
  hermes tenant files acme upload ./site public")]
pub(crate) struct TenantFilesArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    /// A directory to list, or to save with `--archive`; a file with `--cat` or `--output`.
    pub(crate) path: Option<String>,
    /// Print the text of a file.
    #[arg(long, requires = "path")]
    pub(crate) cat: bool,
    /// Save a file as it is; `-` is stdout.
    #[arg(short, long, value_name = "FILE", conflicts_with = "cat")]
    pub(crate) output: Option<PathBuf>,
    /// Save a directory, or the whole workspace, as one `tar.zst`.
    #[arg(long, requires = "output")]
    pub(crate) archive: bool,
    #[command(subcommand)]
    pub(crate) command: Option<TenantFilesCommand>,
}

/// What can be done with a tenant's variables.
#[derive(Debug, Subcommand)]
pub(crate) enum TenantEnvCommand {
    /// List the variables, without their values.
    List {
        /// The tenant's id.
        tenant: String,
    },
    /// Set a variable; its value comes from stdin.
    #[command(after_help = "\
The value is read from stdin, without the last line end. On a terminal you are asked for it; it is not shown.

Example:
  hermes tenant env set acme OPENAI_API_KEY < key.txt")]
    Set {
        /// The tenant's id.
        tenant: String,
        /// The variable, in capitals.
        name: String,
    },
    /// Remove a variable.
    Unset {
        /// The tenant's id.
        tenant: String,
        /// The variable.
        name: String,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
}

/// What can be done with a tenant's skills.
#[derive(Debug, Subcommand)]
pub(crate) enum TenantSkillCommand {
    /// List the skills, by category.
    List {
        /// The tenant's id.
        tenant: String,
    },
    /// List the files of a skill.
    Files(TenantSkillFilesArgs),
    /// Print a file of a skill.
    Show {
        /// The tenant's id.
        tenant: String,
        /// A path that `files` lists.
        path: String,
    },
    /// Install a skill from a directory or from the library.
    Install(TenantSkillInstallArgs),
    /// Remove a skill with its files, for good.
    Remove {
        /// The tenant's id.
        tenant: String,
        /// The skill's name.
        skill: String,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
    /// Offer a skill to the agent.
    Enable(TenantSkillStateArgs),
    /// Stop offering a skill to the agent.
    Disable(TenantSkillStateArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TenantSkillFilesArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    /// The skill's name.
    pub(crate) skill: String,
    /// Its category; `-` if it has none.
    #[arg(long, default_value = "-")]
    pub(crate) category: String,
}

#[derive(Debug, Args)]
pub(crate) struct TenantSkillStateArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    /// The skill's name.
    pub(crate) skill: String,
    /// Keep it as it is: the agent does not change it.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "YES")]
    pub(crate) pinned: Option<bool>,
}
