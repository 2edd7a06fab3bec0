//! The arguments of `hermes tenant` about what is in a tenant's home, and of `hermes tenant apply`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::{ConfirmArgs, FileFindArgs, FileGrepArgs, PageArgs, VersionArgs};

/// What can be searched and changed in a workspace.
#[derive(Debug, Subcommand)]
pub(crate) enum TenantFilesCommand {
    /// Search the text of files.
    Grep(FileGrepArgs),
    /// Find paths by a pattern.
    Find(FileFindArgs),
    /// Write a file of the workspace.
    Put {
        /// The file of this machine; `-` is stdin.
        file: PathBuf,
        /// Its path in the workspace.
        path: String,
        /// Append to it.
        #[arg(long)]
        append: bool,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Remove a file or directory, for good.
    Rm {
        /// The path in the workspace.
        path: String,
        /// Remove a directory with all that is in it.
        #[arg(short, long)]
        recursive: bool,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
    /// Move a file or directory; nothing is overwritten.
    Mv {
        /// The current path.
        from: String,
        /// The new path.
        to: String,
    },
    /// Create a directory.
    Mkdir {
        /// The path in the workspace.
        path: String,
    },
    /// Unpack a directory of this machine, a `tar` or a `tar.zst` in the workspace; files that exist are replaced.
    Upload {
        /// The directory or archive; `-` is an archive on stdin.
        source: PathBuf,
        /// The directory of the workspace (default: its root).
        path: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TenantSoulArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    /// The file with the new text; `-` is stdin. Without it, the current text is printed.
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) version: VersionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TenantMemoryArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    /// What the agent noted about its work, or what it knows about its users.
    #[arg(value_parser = ["memory", "user"], default_value = "memory")]
    pub(crate) kind: String,
    /// The file with the new text; `-` is stdin. Without it, the current text is printed.
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) version: VersionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TenantSessionsArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    #[command(subcommand)]
    pub(crate) command: TenantSessionsCommand,
}

/// What can be done with a tenant's conversations.
#[derive(Debug, Subcommand)]
pub(crate) enum TenantSessionsCommand {
    /// List the conversations, the last used first.
    List {
        /// Only those that take place there: `api_server`, `cron`, `telegram`, …
        #[arg(long)]
        source: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Print the messages of a conversation.
    Show {
        /// The conversation's id.
        session: String,
        /// Include messages that were summarized since.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Search the messages of all conversations, or of one.
    Search {
        /// Words that must all occur; those in double quotes next to each other.
        query: String,
        /// Only this conversation.
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// Only in conversations that take place there: `api_server`, `cron`, `telegram`.
        #[arg(long)]
        source: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Give a conversation a title; its agent is woken for it.
    Rename {
        /// The conversation's id.
        session: String,
        /// The title, of at most 100 characters; "" takes it away.
        title: String,
    },
    /// Delete a conversation with its messages, for good; its agent is woken for it.
    Delete {
        /// The conversation's id.
        session: String,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
A document says what a tenant is to be; what it does not name stays as it is. Tenants that are not there are created. \
Files named by `path` and `from` are read here, relative to the document; `${env:NAME}` in `env` is a variable of this \
command.

Examples:
  hermes tenant apply -f acme.yaml --diff
  hermes tenant apply -f acme.yaml
  hermes tenant manifest acme > acme.json")]
pub(crate) struct TenantApplyArgs {
    /// The file, YAML or JSON, with one document or several; `-` is stdin.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Show what would change, with the values, and change nothing.
    #[arg(long)]
    pub(crate) diff: bool,
    /// Show what would change, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TenantSkillInstallArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    /// The skill's directory, or its name in the library with `--library`.
    pub(crate) skill: String,
    /// Take it from the Hub's library.
    #[arg(long)]
    pub(crate) library: bool,
    /// The category it is filed under.
    #[arg(long)]
    pub(crate) category: Option<String>,
}
