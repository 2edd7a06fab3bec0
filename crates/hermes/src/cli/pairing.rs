//! The arguments of `hermes pairing …`.

use clap::{Args, Subcommand};

/// What can be done with pairings.
#[derive(Debug, Subcommand)]
pub(crate) enum PairingCommand {
    /// List who waits to be let in, and who was.
    #[command(visible_alias = "ls")]
    List,
    /// Let somebody in by the code that the bot gave them.
    #[command(after_help = "\
A code is valid for one hour. After five wrong codes none is accepted for an hour.

Examples:
  hermes pairing approve telegram ABCD2345
  hermes pairing approve telegram@work ABCD2345   for the bot account `work`")]
    Approve(PairingApproveArgs),
    /// Let somebody in no longer. This works at once, also in a running gateway.
    Revoke(PairingRevokeArgs),
    /// Forget all codes that were given.
    ClearPending,
}

#[derive(Debug, Args)]
pub(crate) struct PairingApproveArgs {
    /// The platform: `telegram`, `discord`, `slack`; `telegram@work` for a further account.
    pub(crate) platform: String,
    /// The code of eight letters and digits.
    pub(crate) code: String,
}

#[derive(Debug, Args)]
pub(crate) struct PairingRevokeArgs {
    /// The platform, as `hermes pairing list` shows it.
    pub(crate) platform: String,
    /// The user's id, as `hermes pairing list` shows it.
    pub(crate) user: String,
}
