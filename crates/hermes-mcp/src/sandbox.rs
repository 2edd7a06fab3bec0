//! Confinement of processes on Linux: what they can reach, whether they have a network, which system calls they are
//! refused.
//!
//! Landlock says what can be reached, and seccomp closes what Landlock leaves open. Both pass through `fork` and `exec`
//! and cannot be taken off again, so that all that a confined process starts is confined as well.
//!
//! [`Support`] is what the kernel has, [`Plan`] what is done to one process, [`Confined`] what is told about it.
//! [`subject`] gets from a local server's settings to its plan. [`Rules`] are Landlock's part, which the tenants of a
//! Hub use, too.
//!
//! **`/proc` can be read.** Runtimes look up processors and memory there, and guards find their children in it. What
//! would give away others stays closed even so: the kernel asks Landlock before it shows memory, environment, open files
//! or root of a process (it counts as tracing), and only processes of the same sandbox may be traced. What is left are
//! names and arguments of processes.
//!
//! **Sockets in the file system** are covered by Landlock only since Linux 7.1. Before that, a process can connect to
//! what its user can connect to, unless it is denied Unix sockets, or the network: then it can make no socket at all.
//!
//! **User namespaces** are closed to every confined process: inside of one it would have powers to undo the rest.

#[cfg(target_os = "linux")]
mod calls;
mod command;
mod note;
#[cfg(target_os = "linux")]
mod rules;
mod runner;
pub mod subject;
mod system;

use std::{
    fmt::{self, Display},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
pub use self::{calls::Filter, rules::Rules};
pub use self::{command::confine, system::is_of_system};

/// What the kernel has to confine processes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Support {
    /// The version of Landlock, rounded down to one that made a difference.
    pub landlock: Option<u32>,
    /// Whether system calls can be refused.
    pub seccomp: bool,
}

impl Support {
    /// A kernel that has nothing.
    pub const NONE: Self = Self {
        landlock: None,
        seccomp: false,
    };

    /// Asks the kernel.
    #[cfg(target_os = "linux")]
    pub fn of_this_machine() -> Self {
        Self {
            landlock: rules::level(),
            seccomp: calls::can_be_refused(),
        }
    }

    /// Only Linux supports it.
    #[cfg(not(target_os = "linux"))]
    pub fn of_this_machine() -> Self {
        Self::NONE
    }
}

/// Whether a confined process has a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// As if it were not confined.
    #[default]
    Allowed,
    /// None.
    Denied,
}

/// Whether a confined process can make Unix sockets, and so reach the services of its user that listen on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnixSockets {
    /// As if it were not confined, but for what Landlock covers.
    #[default]
    Allowed,
    /// None but pairs, which reach nobody else.
    Denied,
}

/// The first version of Landlock that covers sockets in the file system.
const COVERS_SOCKETS: u32 = 9;

/// What is done to a process before it becomes a server's program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Kernel support that is used.
    #[serde(flatten)]
    pub support: Support,
    /// What it may read and execute besides the system's own directories.
    pub read: Vec<PathBuf>,
    /// What it may change.
    pub write: Vec<PathBuf>,
    /// Whether it has a network.
    pub network: Network,
    /// Whether it can make Unix sockets.
    #[serde(default)]
    pub unix_sockets: UnixSockets,
}

impl Plan {
    /// Whether the process can connect to any Unix socket that its user can connect to.
    pub fn leaves_unix_sockets_open(&self) -> bool {
        let is_denied = self.network == Network::Denied || self.unix_sockets == UnixSockets::Denied;
        !(is_denied && self.support.seccomp)
            && self
                .support
                .landlock
                .is_none_or(|version| version < COVERS_SOCKETS)
    }
}

/// How a server is confined, as it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confined {
    /// What is in force.
    #[serde(flatten)]
    pub plan: Plan,
    /// What is not in force although it was asked for, and what has no effect.
    pub warnings: Vec<String>,
}

impl Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan {
            support, network, ..
        } = &self.plan;
        match support.landlock {
            Some(version) => write!(f, "files by Landlock {version}")?,
            None => f.write_str("files not confined")?,
        }
        f.write_str(if support.seccomp {
            ", system calls by seccomp"
        } else {
            ", system calls not filtered"
        })?;
        f.write_str(match (network, support) {
            (Network::Allowed, _) => ", network allowed",
            (Network::Denied, Support { seccomp: true, .. }) => ", network denied",
            (Network::Denied, support) if support.closes_tcp() => ", TCP denied",
            (Network::Denied, _) => ", network open",
        })?;
        f.write_str(match (self.plan.unix_sockets, network) {
            _ if self.plan.leaves_unix_sockets_open() => ", Unix sockets open",
            (UnixSockets::Denied, Network::Allowed) if support.seccomp => ", Unix sockets denied",
            (_, Network::Allowed) => ", Unix sockets by Landlock",
            (_, Network::Denied) => "",
        })
    }
}

impl Confined {
    /// What a person should know of the Unix sockets that the server can reach, if it can reach them all.
    pub fn open_sockets_note(&self) -> Option<&'static str> {
        self.plan.leaves_unix_sockets_open().then_some(
            "it can connect to every Unix socket that you can, those of an ssh agent, D-Bus or Docker included; \
             `sandbox.unix_sockets: deny` closes them",
        )
    }
}

impl Support {
    /// Since its fourth version Landlock knows TCP, and nothing else of the network.
    fn closes_tcp(self) -> bool {
        self.landlock.is_some_and(|version| version >= 4)
    }
}

/// Why a process could not be confined.
#[derive(Debug, thiserror::Error)]
#[error("sandbox: {0}")]
pub struct SandboxError(String);

impl SandboxError {
    #[cfg(target_os = "linux")]
    fn new(error: impl Display) -> Self {
        Self(error.to_string())
    }
}

/// A plan that is ready to be entered.
#[cfg(target_os = "linux")]
pub(crate) struct Prepared {
    rules: Option<Rules>,
    filter: Option<Filter>,
}

#[cfg(target_os = "linux")]
impl Prepared {
    /// Opens what is to be reachable. Paths that do not exist are left out.
    pub(crate) fn new(plan: &Plan) -> Result<Self, SandboxError> {
        let mut prepared = Self {
            rules: None,
            filter: None,
        };
        if plan.support.landlock.is_some() {
            let mut rules = Rules::new(plan.network)?;
            for path in &plan.read {
                rules = rules.read(path)?;
            }
            for path in &plan.write {
                rules = rules.write(path)?;
            }
            prepared.rules = Some(rules);
        }
        if plan.support.seccomp {
            prepared.filter = Some(Filter::new(plan.network, plan.unix_sockets)?);
        }
        Ok(prepared)
    }

    /// Confines this thread, for good.
    pub(crate) fn enter(self) -> Result<(), SandboxError> {
        if let Some(rules) = self.rules {
            rules.enter()?;
        }
        if let Some(filter) = self.filter {
            filter.enter()?;
        }
        Ok(())
    }
}
