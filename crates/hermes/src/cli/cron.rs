//! The arguments of `hermes cron …`.

use clap::{Args, Subcommand};

/// What can be done with jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum CronCommand {
    /// Create a job.
    Create(Box<CronCreateArgs>),
    /// List the jobs.
    #[command(visible_alias = "ls")]
    List(CronListArgs),
    /// Change a job; options that are not given stay as they are.
    Edit(Box<CronEditArgs>),
    /// Pause a job.
    Pause(CronPauseArgs),
    /// Resume a job; its next run is counted from now.
    Resume(CronJobArgs),
    /// Run a job now, outside its schedule: at once if a gateway runs, else at the next tick.
    Run(CronJobArgs),
    /// Remove a job with its output.
    #[command(visible_alias = "rm")]
    Remove(CronJobArgs),
    /// Show whether a gateway runs the jobs, and which is next.
    Status,
    /// List the last runs.
    Runs(CronRunsArgs),
    /// Run every job that is due, then exit. For the system's crontab where no gateway runs.
    Tick,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A schedule is one of
  30m, 'in 2h', 1d      once, after this time
  'every 30m'           repeatedly; 'every hour' works too
  'every monday 9am'    by days and a time: 'weekdays at 9am', 'daily at 18:30'
  '0 9 * * MON-FRI'     by the clock: minute, hour, day, month, weekday
  2030-01-31T09:00      once, at that time

Examples:
  hermes cron create 'every 2h' 'Look for new issues and sum them up'
  hermes cron create '0 9 * * 1' 'Plan my week' --skill planning --name week
  hermes cron create 'every 10m' --script check_disk.sh --no-agent")]
pub(crate) struct CronCreateArgs {
    /// When it runs.
    pub(crate) schedule: String,
    /// What the agent is asked to do. It does not know other conversations.
    pub(crate) prompt: Option<String>,
    /// Its id (default: twelve random digits).
    #[arg(long)]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) options: JobOptions,
}

/// What can be said of a job besides its schedule and prompt.
#[derive(Debug, Args)]
pub(crate) struct JobOptions {
    /// Its name (default: the beginning of the prompt).
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// How many times it runs in total; 0 is unlimited.
    #[arg(long, value_name = "TIMES")]
    pub(crate) repeat: Option<u32>,
    /// Where its message goes: `local` (kept in the home), `origin`, `all`, a platform, or a target; separated by commas.
    #[arg(long, value_name = "TARGET")]
    pub(crate) deliver: Option<String>,
    /// A skill to load first (repeatable).
    #[arg(long = "skill", value_name = "SKILL")]
    pub(crate) skills: Vec<String>,
    /// The model, instead of the configured one.
    #[arg(short, long)]
    pub(crate) model: Option<String>,
    /// The model's provider.
    #[arg(long)]
    pub(crate) provider: Option<String>,
    /// A script in `scripts/` of the home; its output goes into the prompt.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<String>,
    /// Send the script's output as the message, without a model.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "YES")]
    pub(crate) no_agent: Option<bool>,
    /// A job whose last output is added to the prompt (repeatable).
    #[arg(long, value_name = "ID")]
    pub(crate) context_from: Vec<String>,
    /// The toolsets the agent has, separated by commas; `mcp-SERVER` or names of MCP servers among them, or `no_mcp`.
    #[arg(short, long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) toolsets: Vec<String>,
    /// Its working directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) workdir: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CronListArgs {
    /// Include jobs that are paused or finished.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
An empty text removes a value.

Example:
  hermes cron edit week --schedule '0 8 * * 1' --model ''")]
pub(crate) struct CronEditArgs {
    /// Its id or its name.
    pub(crate) job: String,
    /// When it runs.
    #[arg(long)]
    pub(crate) schedule: Option<String>,
    /// What the agent is asked to do.
    #[arg(long)]
    pub(crate) prompt: Option<String>,
    #[command(flatten)]
    pub(crate) options: JobOptions,
}

#[derive(Debug, Args)]
pub(crate) struct CronJobArgs {
    /// Its id or its name.
    pub(crate) job: String,
}

#[derive(Debug, Args)]
pub(crate) struct CronPauseArgs {
    /// Its id or its name.
    pub(crate) job: String,
    /// The reason, shown in the list.
    #[arg(long)]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CronRunsArgs {
    /// Only those of this job: its id or its name.
    pub(crate) job: Option<String>,
    /// Maximum number.
    #[arg(short = 'n', long, default_value_t = 20)]
    pub(crate) limit: u32,
}
