//! The arguments of `hermes tenant skill …`.

use clap::{Args, Subcommand};

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
