//! The arguments of `hermes tenant cron …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::{ConfirmArgs, VersionArgs};

/// What can be done with a tenant's jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum TenantCronCommand {
    /// List the jobs, paused ones too.
    List {
        /// The tenant's id.
        tenant: String,
    },
    /// Show one job and its last executions.
    Get(TenantJobArgs),
    /// Create a job.
    Create(Box<TenantJobCreateArgs>),
    /// Change a job; options that are not given stay as they are.
    Update(Box<TenantJobUpdateArgs>),
    /// Delete a job.
    Delete(TenantJobDeleteArgs),
    /// Pause a job.
    Pause(TenantJobPauseArgs),
    /// Resume a paused job; its next run is counted from now.
    Resume(TenantJobArgs),
    /// Run a job now, outside its schedule.
    Run(TenantJobRunArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TenantJobArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    /// The job's id.
    pub(crate) job: String,
}

/// What can be said of a job.
#[derive(Debug, Default, Args)]
pub(crate) struct JobMembers {
    /// Its name (default: the beginning of the prompt).
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Where its message goes: `local`, a platform, or a target.
    #[arg(long, value_name = "TARGET")]
    pub(crate) deliver: Option<String>,
    /// A skill to load first (repeatable).
    #[arg(long = "skill", value_name = "SKILL")]
    pub(crate) skills: Vec<String>,
    /// The model, instead of the tenant's.
    #[arg(short, long)]
    pub(crate) model: Option<String>,
    /// More members, as JSON from a file or `-` for stdin; other options win.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TenantJobCreateArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    /// When it runs: `every 30m`, `30m` (once), `every monday 9am`, five cron fields, or a time.
    #[arg(required_unless_present = "from")]
    pub(crate) schedule: Option<String>,
    /// What the agent is asked to do.
    pub(crate) prompt: Option<String>,
    /// Its id (default: twelve random digits).
    #[arg(long)]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) members: JobMembers,
}

#[derive(Debug, Args)]
pub(crate) struct TenantJobUpdateArgs {
    #[command(flatten)]
    pub(crate) job: TenantJobArgs,
    /// When it runs.
    #[arg(long)]
    pub(crate) schedule: Option<String>,
    /// What the agent is asked to do.
    #[arg(long)]
    pub(crate) prompt: Option<String>,
    #[command(flatten)]
    pub(crate) members: JobMembers,
    #[command(flatten)]
    pub(crate) version: VersionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TenantJobDeleteArgs {
    #[command(flatten)]
    pub(crate) job: TenantJobArgs,
    #[command(flatten)]
    pub(crate) sure: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TenantJobPauseArgs {
    #[command(flatten)]
    pub(crate) job: TenantJobArgs,
    /// The reason, shown in the list.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TenantJobRunArgs {
    #[command(flatten)]
    pub(crate) job: TenantJobArgs,
    /// Follow the run until it ends.
    #[arg(short, long)]
    pub(crate) watch: bool,
}
