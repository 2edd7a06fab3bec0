//! The arguments of `hermes share …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::{ConfirmArgs, HubArgs, VersionArgs};

#[derive(Debug, Args)]
#[command(after_help = "\
A share holds the files of a group. You have the access of the tenant given with `--tenant`.

Examples:
  hermes share list --tenant acme
  hermes share write division1 notes/today.md --tenant acme < today.md
  hermes share grep division1 'invoice [0-9]+' --tenant acme
  hermes share upload division1 scan.pdf invoices/4711.pdf --tenant acme
  hermes share restore division1 \"$ID\" --tenant acme")]
pub(crate) struct ShareArgs {
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    /// The tenant to act as.
    #[arg(long, global = true, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    #[command(subcommand)]
    pub(crate) command: ShareCommand,
}

/// What can be done with shares.
#[derive(Debug, Subcommand)]
pub(crate) enum ShareCommand {
    /// List the shares that the tenant can use.
    List,
    /// List one level of a share.
    Ls {
        /// The group whose share it is.
        group: String,
        /// The directory (default: the root).
        path: Option<String>,
    },
    /// Print a file.
    Cat(ShareCatArgs),
    /// Show what is at a path.
    Stat {
        /// The group whose share it is.
        group: String,
        /// The path.
        path: String,
    },
    /// Search the text of files.
    Grep(ShareGrepArgs),
    /// Find paths by a pattern.
    Find(ShareFindArgs),
    /// Write a file; its text comes from stdin.
    Write(ShareWriteArgs),
    /// Create a directory.
    Mkdir {
        /// The group whose share it is.
        group: String,
        /// The directory.
        path: String,
    },
    /// Move a file or directory; nothing is overwritten.
    Mv {
        /// The group whose share it is.
        group: String,
        /// The current path.
        from: String,
        /// The new path.
        to: String,
    },
    /// Remove a file or directory; it stays in the trash for some days.
    Rm(ShareRmArgs),
    /// Save a file of any kind as it is.
    Download {
        /// The group whose share it is.
        group: String,
        /// The path in the share.
        path: String,
        /// The file to write here; `-` is stdout.
        file: PathBuf,
    },
    /// Write a file of any kind.
    Upload(ShareUploadArgs),
    /// List what was removed and can be restored, newest first.
    Trash {
        /// The group whose share it is.
        group: String,
    },
    /// Move something from the trash back to where it was, if nothing is there now.
    Restore {
        /// The group whose share it is.
        group: String,
        /// Its id, as `trash` lists it.
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ShareCatArgs {
    /// The group whose share it is.
    pub(crate) group: String,
    /// The file.
    pub(crate) path: String,
    /// The first line, from 0.
    #[arg(long, value_name = "LINE")]
    pub(crate) offset: Option<u64>,
    /// How many lines (default: all).
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct ShareGrepArgs {
    /// The group whose share it is.
    pub(crate) group: String,
    #[command(flatten)]
    pub(crate) query: FileGrepArgs,
}

/// What is searched in texts.
#[derive(Debug, Args)]
pub(crate) struct FileGrepArgs {
    /// A regular expression, in Go's syntax.
    pub(crate) pattern: String,
    /// A directory or file (default: all).
    pub(crate) path: Option<String>,
    /// Ignore case.
    #[arg(short, long)]
    pub(crate) ignore_case: bool,
    /// Maximum number of matches, 1 to 1000 (default: 100).
    #[arg(long, value_name = "N")]
    pub(crate) max: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct ShareFindArgs {
    /// The group whose share it is.
    pub(crate) group: String,
    #[command(flatten)]
    pub(crate) query: FileFindArgs,
}

/// What is searched in names.
#[derive(Debug, Args)]
pub(crate) struct FileFindArgs {
    /// The directory to begin in (default: the root).
    pub(crate) path: Option<String>,
    /// A pattern, such as `*.md` or `notes/**/*.md` (default: everything).
    #[arg(long, value_name = "PATTERN")]
    pub(crate) name: Option<String>,
    /// Maximum number, 1 to 1000 (default: 100).
    #[arg(long, value_name = "N")]
    pub(crate) max: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct ShareWriteArgs {
    /// The group whose share it is.
    pub(crate) group: String,
    /// The file; missing directories are created.
    pub(crate) path: String,
    /// Take the text from this file instead of stdin.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Add to what is there instead of replacing it.
    #[arg(long)]
    pub(crate) append: bool,
    #[command(flatten)]
    pub(crate) version: VersionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ShareUploadArgs {
    /// The group whose share it is.
    pub(crate) group: String,
    /// The file to send; `-` is stdin.
    pub(crate) file: PathBuf,
    /// The path in the share; missing directories are created.
    pub(crate) path: String,
    /// Add to what is there instead of replacing it.
    #[arg(long)]
    pub(crate) append: bool,
    #[command(flatten)]
    pub(crate) version: VersionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ShareRmArgs {
    /// The group whose share it is.
    pub(crate) group: String,
    /// The file or directory.
    pub(crate) path: String,
    /// Remove a directory with everything in it.
    #[arg(short, long)]
    pub(crate) recursive: bool,
    #[command(flatten)]
    pub(crate) sure: ConfirmArgs,
}
