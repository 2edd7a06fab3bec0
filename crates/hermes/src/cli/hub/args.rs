//! What every command has that asks a Hub.

use std::path::PathBuf;

use clap::Args;

/// Which Hub, and who asks it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Hub")]
pub(crate) struct HubArgs {
    /// Where the Hub is (also: HERMES_HUB_URL; default: http://127.0.0.1:7878).
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) hub: Option<String>,
    /// A file that holds the token (default: HERMES_HUB_TOKEN, else the secret `hub@HOST`, else `admin.token` of this machine's Hub).
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Which piece of a long list.
#[derive(Debug, Default, Args)]
pub(crate) struct PageArgs {
    /// Maximum number, 1 to 500 (default: all; with `--json`, 100).
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u32>,
    /// Continue after a page: its `nextCursor`.
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}

/// Doing what cannot be undone.
#[derive(Debug, Default, Args)]
pub(crate) struct ConfirmArgs {
    /// Do it without asking.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Changing only what is still as it was.
#[derive(Debug, Default, Args)]
pub(crate) struct VersionArgs {
    /// Change it only if it still has this version: the ETag of a reply.
    #[arg(long, value_name = "ETAG")]
    pub(crate) if_match: Option<String>,
}
