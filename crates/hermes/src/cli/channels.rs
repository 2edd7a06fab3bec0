//! The arguments of `hermes channels …`.

use clap::{Args, Subcommand};

/// What can be done with chats.
#[derive(Debug, Subcommand)]
pub(crate) enum ChannelsCommand {
    /// List the known chats.
    #[command(visible_alias = "ls")]
    List(ChannelsListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ChannelsListArgs {
    /// Only those of this platform: `telegram`, `discord`, `slack`.
    pub(crate) platform: Option<String>,
}
