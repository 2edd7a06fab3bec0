//! The arguments of `hermes skills …`.

use clap::{Args, Subcommand};

/// What can be done with skills.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List the skills the agent knows.
    #[command(visible_alias = "ls")]
    List,
    /// Print a skill's instructions, or one of its files.
    View(SkillViewArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SkillViewArgs {
    /// The skill; `category/name` where a name is not enough.
    pub(crate) name: String,
    /// A file of the skill, such as `references/api.md`.
    pub(crate) file: Option<String>,
}
