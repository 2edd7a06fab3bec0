//! The arguments of `hermes skill-library …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::{ConfirmArgs, HubArgs, PageArgs, VersionArgs};

#[derive(Debug, Args)]
#[command(after_help = "\
The library holds skills that tenants can take: `hermes tenant skill install acme review --library`.

Examples:
  hermes skill-library put ./skills/review
  hermes skill-library list")]
pub(crate) struct SkillLibraryArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    #[command(subcommand)]
    pub(crate) command: SkillLibraryCommand,
}

/// What can be done with the library.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillLibraryCommand {
    /// List the skills.
    List(PageArgs),
    /// Show a skill, or print one of its files.
    Show {
        /// The skill's name.
        name: String,
        /// A file of it.
        file: Option<String>,
    },
    /// Add a skill, or replace the one of that name.
    Put {
        /// The skill's directory.
        directory: PathBuf,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Remove a skill; tenants that took it keep it.
    Remove {
        /// The skill's name.
        name: String,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
}
