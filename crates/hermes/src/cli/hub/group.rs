//! The arguments of `hermes group …`.

use clap::{Args, Subcommand};

use crate::cli::{ConfirmArgs, HubArgs, PageArgs, VersionArgs};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hermes group create division1 --name 'Division 1' --kind department
  hermes group member add division1 acme --access write")]
pub(crate) struct GroupArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    #[command(subcommand)]
    pub(crate) command: GroupCommand,
}

/// What can be done with groups.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// List the groups.
    List(PageArgs),
    /// Show one group.
    Get {
        /// The group's id.
        group: String,
    },
    /// Create a group.
    Create {
        /// The group's id.
        group: String,
        #[command(flatten)]
        members: GroupMembers,
    },
    /// Change a group; options that are not given stay as they are.
    Update {
        /// The group's id.
        group: String,
        #[command(flatten)]
        members: GroupMembers,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Delete a group; its files go to the trash.
    Delete {
        /// The group's id.
        group: String,
        /// Delete it even if it has members or files.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
    /// The tenants of a group.
    Member {
        #[command(subcommand)]
        command: MemberCommand,
    },
    /// Skills of the library that the members of a group get.
    Skill {
        #[command(subcommand)]
        command: GroupSkillCommand,
    },
}

/// What can be done with the skills of a group.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupSkillCommand {
    /// List the skills.
    List {
        /// The group's id.
        group: String,
    },
    /// Set the skills; those that are not named are taken from the members again.
    Set {
        /// The group's id.
        group: String,
        /// Names in the library; none for no skills.
        skills: Vec<String>,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
}

/// What can be said of a group.
#[derive(Debug, Args)]
pub(crate) struct GroupMembers {
    /// Its display name.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// What it stands for.
    #[arg(long, value_parser = ["department", "team"])]
    pub(crate) kind: Option<String>,
    /// Quota of its files in bytes; 0 is unlimited.
    #[arg(long, value_name = "BYTES")]
    pub(crate) quota: Option<u64>,
}

/// What can be done with the members of a group.
#[derive(Debug, Subcommand)]
pub(crate) enum MemberCommand {
    /// List the members.
    List {
        /// The group's id.
        group: String,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Add a tenant as a member, or change its access.
    Add {
        /// The group's id.
        group: String,
        /// The tenant's id.
        tenant: String,
        /// What it may do with the group's files.
        #[arg(long, value_parser = ["read", "write"], default_value = "read")]
        access: String,
    },
    /// Remove a tenant from the group.
    Remove {
        /// The group's id.
        group: String,
        /// The tenant's id.
        tenant: String,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
}
