//! The arguments of `hermes hub session`.

use clap::{Args, Subcommand};

use crate::cli::{ConfirmArgs, HubArgs};

#[derive(Debug, Args)]
#[command(after_help = "\
Those who manage tokens see all sessions, others their own.

Examples:
  hermes hub session list
  hermes hub session end ses_0123456789abcdef01234567")]
pub(crate) struct HubSessionArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    #[command(subcommand)]
    pub(crate) command: HubSessionCommand,
}

/// What can be done with sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum HubSessionCommand {
    /// List who is signed in.
    List,
    /// Sign a session out.
    End {
        /// The session's id.
        session: String,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
}
