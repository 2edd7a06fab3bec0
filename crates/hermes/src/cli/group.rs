//! The arguments of `hermes group …`.

use clap::{Args, Subcommand};

use super::{HubArgs, PageArgs, SureArgs, VersionArgs};

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
    /// Make a group.
    Create {
        /// The group's id.
        group: String,
        #[command(flatten)]
        members: GroupMembers,
    },
    /// Change a group; what is not named stays.
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
        /// Although it has members or files.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        sure: SureArgs,
    },
    /// The tenants of a group.
    Member {
        #[command(subcommand)]
        command: MemberCommand,
    },
}

/// What can be said of a group.
#[derive(Debug, Args)]
pub(crate) struct GroupMembers {
    /// Its name for people.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// What it stands for.
    #[arg(long, value_parser = ["department", "team"])]
    pub(crate) kind: Option<String>,
    /// Bytes its files may take; 0 is any number.
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
    /// Make a tenant a member, or change what it may do.
    Add {
        /// The group's id.
        group: String,
        /// The tenant's id.
        tenant: String,
        /// What it may do with the group's files.
        #[arg(long, value_parser = ["read", "write"], default_value = "read")]
        access: String,
    },
    /// End a tenant's membership.
    Remove {
        /// The group's id.
        group: String,
        /// The tenant's id.
        tenant: String,
        #[command(flatten)]
        sure: SureArgs,
    },
}
