//! The arguments of `hermes token …` and `hermes hub session`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::{ConfirmArgs, HubArgs, PageArgs};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hermes token create ci --role operator --tenant acme --output ci.token
  HERMES_HUB_TOKEN=$(cat ci.token) hermes token whoami")]
pub(crate) struct TokenArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

/// What can be done with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token within your own rights; its secret is shown once.
    Create(Box<TokenCreateArgs>),
    /// List the tokens, without their secrets.
    List(PageArgs),
    /// Give a token a new secret, shown once.
    Rotate(TokenRotateArgs),
    /// Revoke a token, its sessions and its streams.
    Revoke {
        /// The token's id.
        token: String,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
    /// Show what your token may do.
    Whoami,
}

#[derive(Debug, Args)]
pub(crate) struct TokenCreateArgs {
    /// Its display name.
    pub(crate) name: String,
    /// Its rights by name.
    #[arg(long, value_parser = ["viewer", "operator", "admin"])]
    pub(crate) role: Option<String>,
    /// One more right, such as `runs:write` (repeatable).
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// A tenant it sees (repeatable; default: all).
    #[arg(long = "tenant", value_name = "TENANT")]
    pub(crate) tenants: Vec<String>,
    /// A network it may be used from (repeatable; default: any).
    #[arg(long = "cidr", value_name = "CIDR")]
    pub(crate) cidrs: Vec<String>,
    /// When it expires, such as `2030-01-31T00:00:00Z` (default: never).
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
    /// Write the secret to this file, readable by you only, instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TokenRotateArgs {
    /// The token's id.
    pub(crate) token: String,
    /// Seconds that the old secret stays valid, up to 86400.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) grace: Option<u64>,
    /// Write the secret to this file, readable by you only, instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sure: ConfirmArgs,
}

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
