//! The arguments of `hermes policy …` and `hermes specialization …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::{ConfirmArgs, HubArgs, PageArgs, VersionArgs};

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

/// What can be done with the policy of all agents.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Print the policy in force.
    Get,
    /// Replace the policy by a JSON document.
    Put(DocumentArgs),
    /// Explain whether a tenant may use a tool, and which rule decides.
    Explain {
        /// The tenant's id.
        tenant: String,
        /// The tool.
        tool: String,
    },
    /// List the revisions of the policy, newest first.
    Revisions(PageArgs),
    /// Restore an earlier revision as a new one.
    Restore(RevisionArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SpecializationArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    #[command(subcommand)]
    pub(crate) command: SpecializationCommand,
}

/// What can be done with the text before every agent's own instructions.
#[derive(Debug, Subcommand)]
pub(crate) enum SpecializationCommand {
    /// Print the text.
    Get,
    /// Replace the text; an empty one removes it.
    Put(DocumentArgs),
    /// List the revisions of the text, newest first.
    Revisions(PageArgs),
    /// Restore an earlier revision as a new one.
    Restore(RevisionArgs),
}

/// A revision of a document to go back to.
#[derive(Debug, Args)]
pub(crate) struct RevisionArgs {
    /// Its number.
    pub(crate) revision: u64,
    #[command(flatten)]
    pub(crate) version: VersionArgs,
    #[command(flatten)]
    pub(crate) sure: ConfirmArgs,
}

/// A document that replaces another one.
#[derive(Debug, Args)]
pub(crate) struct DocumentArgs {
    /// The file that holds it; `-` is stdin.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) version: VersionArgs,
    #[command(flatten)]
    pub(crate) sure: ConfirmArgs,
}
