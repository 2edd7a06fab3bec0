//! The arguments of `hermes tenant platform …` and `hermes tenant pairing …`, and those of daily limits.

use clap::{Args, Subcommand};

use crate::cli::ConfirmArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cat token.txt | hermes tenant platform acme set telegram --token --allow-from 12345
  hermes tenant platform acme list")]
pub(crate) struct TenantPlatformArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    #[command(subcommand)]
    pub(crate) command: TenantPlatformCommand,
}

/// What can be done with platforms.
#[derive(Debug, Subcommand)]
pub(crate) enum TenantPlatformCommand {
    /// List the platforms and the state of their bots.
    List,
    /// Show one platform.
    Get {
        /// `telegram`, `discord` or `slack`.
        platform: String,
    },
    /// Set up a platform; what is not given goes back to its default, except tokens.
    Set(Box<TenantPlatformSetArgs>),
    /// Remove a platform with its token.
    Remove {
        /// `telegram`, `discord` or `slack`.
        platform: String,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TenantPlatformSetArgs {
    /// `telegram`, `discord` or `slack`.
    pub(crate) platform: String,
    /// Read the bot's token from stdin; for Slack, the app's token in a second line.
    #[arg(long)]
    pub(crate) token: bool,
    /// A variable of the tenant that holds the bot's token.
    #[arg(long, value_name = "NAME", conflicts_with = "token")]
    pub(crate) token_env: Option<String>,
    /// Who may use the bot, by the platform's id; `*` is everybody (repeatable).
    #[arg(long = "allow-from", value_name = "ID")]
    pub(crate) allow_from: Vec<String>,
    /// Who may use it in groups only (repeatable).
    #[arg(long = "group-allow-from", value_name = "ID")]
    pub(crate) group_allow_from: Vec<String>,
    /// A group in which everybody may use it (repeatable).
    #[arg(long = "group-allowed-chat", value_name = "ID")]
    pub(crate) group_allowed_chats: Vec<String>,
    /// Discord: a role that may use it (repeatable).
    #[arg(long = "allowed-role", value_name = "ID")]
    pub(crate) allowed_roles: Vec<String>,
    /// Everybody may use it.
    #[arg(long)]
    pub(crate) allow_all_users: bool,
    /// What unknown users get: `pair`, a code, or `ignore`.
    #[arg(long, value_name = "REPLY", value_parser = ["pair", "ignore"])]
    pub(crate) strangers: Option<String>,
    /// The chat where messages go that name none.
    #[arg(long, value_name = "ID")]
    pub(crate) home_channel: Option<String>,
    /// Keep the token, but turn the platform off.
    #[arg(long)]
    pub(crate) off: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TenantPairingArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    #[command(subcommand)]
    pub(crate) command: TenantPairingCommand,
}

/// What can be done with pairing.
#[derive(Debug, Subcommand)]
pub(crate) enum TenantPairingCommand {
    /// List approved and waiting users.
    List,
    /// Approve the user who was sent a code.
    Approve {
        /// `telegram`, or `telegram@work` for a further bot.
        account: String,
        /// The code.
        code: String,
    },
    /// Revoke the approval of a user.
    Revoke {
        /// `telegram`, or `telegram@work` for a further bot.
        account: String,
        /// The user's id on the platform.
        user: String,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
}

/// What a tenant may use a day.
#[derive(Debug, Default, Args)]
pub(crate) struct TenantLimitArgs {
    /// Runs a day; `none` removes the limit.
    #[arg(long, value_name = "N")]
    pub(crate) runs_per_day: Option<String>,
    /// Tokens a day; `none` removes the limit.
    #[arg(long, value_name = "N")]
    pub(crate) tokens_per_day: Option<String>,
}
