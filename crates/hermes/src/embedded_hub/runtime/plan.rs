//! What the Hub tells the launcher. There are no secrets in it: it stands in the process table for a moment.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How a tenant's process confines itself, and what it becomes then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LaunchPlan {
    /// What it becomes.
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    /// The only place it may write to.
    pub(super) home: PathBuf,
    /// The rules for files, signals and sockets, if there are any.
    pub(super) sandbox: Option<TenantSandboxPlan>,
    /// Whether system calls are refused that reach into others or the kernel.
    pub(super) filters_calls: bool,
    /// Whose rights it has.
    pub(super) rights: ProcessRights,
    /// How many processes and threads its user may have.
    pub(super) most_processes: Option<u64>,
    /// Its niceness.
    pub(super) niceness: i32,
    /// The control group it enters.
    pub(super) cgroup: Option<PathBuf>,
}

/// What may be reached outside the home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TenantSandboxPlan {
    /// Files and directories to read and execute, besides those of the system.
    pub(super) readable: Vec<PathBuf>,
    /// Sockets to connect to.
    pub(super) sockets: Vec<PathBuf>,
}

/// Whose rights a tenant's process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProcessRights {
    /// Those of the Hub's own user.
    Kept,
    /// The Hub is root: its user, but none of the powers.
    WithoutPowers,
    /// Those of a user of its own.
    Own(u32),
}
