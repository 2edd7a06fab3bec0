//! The arguments of `hermes sessions …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// What can be done with stored conversations.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List conversations, most recently used first.
    #[command(visible_alias = "ls")]
    List(SessionsListArgs),
    /// Show a conversation.
    Show(SessionArgs),
    /// Find messages by their words.
    Search(SearchArgs),
    /// Write a conversation as JSON lines or Markdown.
    Export(ExportArgs),
    /// Give a conversation another title.
    Rename(RenameArgs),
    /// Delete a conversation with all its messages.
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SessionsListArgs {
    /// Only conversations of this source: `cli`, `cron`, or a platform such as `telegram` (repeatable).
    #[arg(long)]
    pub(crate) source: Vec<String>,
    /// Maximum number.
    #[arg(short = 'n', long, default_value_t = 20)]
    pub(crate) limit: u32,
    /// Every stored session, including archived, continued and delegated ones.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// Its id, the start of its id, or its title.
    pub(crate) id: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A message matches if it contains all words. Words in double quotes must stand next to each other. If no whole word \
matches, parts of words are searched.

Example:
  hermes sessions search deploy '\"release notes\"' --source cli")]
pub(crate) struct SearchArgs {
    /// The words.
    #[arg(required = true)]
    pub(crate) text: Vec<String>,
    /// Only conversations of this source (repeatable).
    #[arg(long)]
    pub(crate) source: Vec<String>,
    /// Maximum number of messages.
    #[arg(short = 'n', long, default_value_t = 20)]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
#[command(after_help = "\
JSON lines: the first line is the session, every other one a message.

Example:
  hermes sessions export 20260304_050607_abcdef --format markdown -o trip.md")]
pub(crate) struct ExportArgs {
    /// Its id, the start of its id, or its title.
    pub(crate) id: String,
    /// The output format.
    #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
    pub(crate) format: ExportFormat,
    /// The file to write, readable by you only (default: stdout).
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// How a conversation is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    Jsonl,
    Markdown,
}

#[derive(Debug, Args)]
pub(crate) struct RenameArgs {
    /// Its id, the start of its id, or its title.
    pub(crate) id: String,
    /// The new title, unique in this home; an empty one removes it.
    pub(crate) title: String,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// Its id, the start of its id, or its title.
    pub(crate) id: String,
    /// Do not ask.
    #[arg(short, long)]
    pub(crate) yes: bool,
}
