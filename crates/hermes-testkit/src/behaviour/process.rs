//! How a server process starts, dies, and treats its streams and signals.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Misbehaviour of the process, for `testkit-stdio`. Of these an HTTP server knows only `start_delay_ms`
/// and `oversized_line`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessBehaviour {
    /// Waits before it reads or writes anything.
    pub start_delay_ms: u64,
    /// Exits instead of serving.
    pub exit_at_start: Option<ExitAtStart>,
    /// Lines written to stdout before the first message.
    pub junk_stdout: Vec<String>,
    /// Bytes of text written to stderr at start, in lines of 100.
    pub stderr_flood: usize,
    /// What `server/discover` makes it say on stderr, as servers do that check what they are asked.
    pub stderr_on_discover: String,
    /// One line of this size on stdout, at a chosen moment.
    pub oversized_line: Option<OversizedLine>,
    /// Goes on living when stdin is closed.
    pub ignore_stdin_close: bool,
    /// Goes on living on SIGTERM.
    pub ignore_sigterm: bool,
    /// Processes started before serving.
    pub grandchildren: Vec<Grandchild>,
    /// Appends one pid per line at start: its own, then those of `grandchildren`.
    pub pid_file: Option<PathBuf>,
}

/// An early end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExitAtStart {
    pub code: i32,
    /// What is said on stderr first.
    pub stderr: String,
}

/// A line of `x`, far beyond what a client should hold in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OversizedLine {
    /// Its length.
    pub bytes: usize,
    /// The method, or the name of the tool, whose answer it replaces.
    pub instead_of: String,
}

/// How a process started by the server is related to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grandchild {
    /// An ordinary child, in the server's process group.
    Attached,
    /// In a session of its own, its parent gone.
    Detached,
}
