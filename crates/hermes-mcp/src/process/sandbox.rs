//! Confinement of processes on Linux: what they can reach, whether they have a network, which system calls they are
//! refused.
//!
//! Landlock says what can be reached, and seccomp closes what Landlock leaves open. Both pass through `fork` and `exec`
//! and cannot be taken off again, so that all that a confined process starts is confined as well.
//!
//! [`SandboxSupport`] is what the kernel has, [`SandboxPlan`] what is done to one process, [`AppliedSandbox`] what is told about it.
//! `target` gets from a local server's settings to its plan. [`LandlockRules`] are Landlock's part, which the tenants of a
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
//!
//! On every system: what a process forbids to what it starts, [to take all processes](limit_child_processes), and to others,
//! [to look into it](forbid_inspection).

mod note;
#[cfg(target_os = "linux")]
mod rules;
mod runner;
mod syscalls;
mod system;
#[cfg(target_os = "linux")]
pub mod target;

use std::{
    fmt::{self, Display},
    path::PathBuf,
};

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

pub use self::{rules::LandlockRules, system::is_system_path};
#[cfg(target_os = "linux")]
pub use crate::process::sandbox::syscalls::SyscallFilter;

/// What the kernel has to confine processes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSupport {
    /// The version of Landlock, rounded down to one that made a difference.
    pub landlock: Option<u32>,
    /// Whether system calls can be refused.
    pub seccomp: bool,
}

impl SandboxSupport {
    /// A kernel that has nothing.
    pub const NONE: Self = Self {
        landlock: None,
        seccomp: false,
    };

    /// Asks the kernel.
    #[cfg(target_os = "linux")]
    pub fn detect() -> Self {
        Self {
            landlock: rules::landlock_version(),
            seccomp: crate::process::sandbox::syscalls::is_supported(),
        }
    }

    /// Only Linux supports it.
    #[cfg(not(target_os = "linux"))]
    pub fn detect() -> Self {
        Self::NONE
    }
}

/// Whether a confined process has a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkAccess {
    /// As if it were not confined.
    #[default]
    Allowed,
    Denied,
}

/// Whether a confined process can make Unix sockets, and so reach the services of its user that listen on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnixSocketAccess {
    /// As if it were not confined, but for what Landlock covers.
    #[default]
    Allowed,
    /// None but pairs, which reach nobody else.
    Denied,
}

/// The first version of Landlock that covers sockets in the file system.
const LANDLOCK_UNIX_SOCKETS: u32 = 9;

/// What is done to a process before it becomes a server's program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPlan {
    /// Kernel support that is used.
    #[serde(flatten)]
    pub support: SandboxSupport,
    /// What it may read and execute besides the system's own directories.
    pub read: Vec<PathBuf>,
    /// What it may change.
    pub write: Vec<PathBuf>,
    pub network: NetworkAccess,
    /// Whether it can make Unix sockets.
    #[serde(default)]
    pub unix_sockets: UnixSocketAccess,
}

impl SandboxPlan {
    /// Whether the process can connect to any Unix socket that its user can connect to.
    pub fn leaves_unix_sockets_open(&self) -> bool {
        let is_denied =
            self.network == NetworkAccess::Denied || self.unix_sockets == UnixSocketAccess::Denied;
        !(is_denied && self.support.seccomp)
            && self
                .support
                .landlock
                .is_none_or(|version| version < LANDLOCK_UNIX_SOCKETS)
    }
}

/// How a server is confined, as it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedSandbox {
    /// What is in force.
    #[serde(flatten)]
    pub plan: SandboxPlan,
    /// What is not in force although it was asked for, and what has no effect.
    pub warnings: Vec<String>,
}

impl Display for AppliedSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SandboxPlan {
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
            (NetworkAccess::Allowed, _) => ", network allowed",
            (NetworkAccess::Denied, SandboxSupport { seccomp: true, .. }) => ", network denied",
            (NetworkAccess::Denied, support) if support.closes_tcp() => ", TCP denied",
            (NetworkAccess::Denied, _) => ", network open",
        })?;
        f.write_str(match (self.plan.unix_sockets, network) {
            _ if self.plan.leaves_unix_sockets_open() => ", Unix sockets open",
            (UnixSocketAccess::Denied, NetworkAccess::Allowed) if support.seccomp => {
                ", Unix sockets denied"
            }
            (_, NetworkAccess::Allowed) => ", Unix sockets by Landlock",
            (_, NetworkAccess::Denied) => "",
        })
    }
}

impl AppliedSandbox {
    /// What a person should know of the Unix sockets that the server can reach, if it can reach them all.
    pub fn open_sockets_note(&self) -> Option<&'static str> {
        self.plan.leaves_unix_sockets_open().then_some(
            "it can connect to every Unix socket that you can, those of an ssh agent, D-Bus or Docker included; \
             `sandbox.unix_sockets: deny` closes them",
        )
    }
}

impl SandboxSupport {
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
pub(crate) struct PreparedSandbox {
    rules: Option<LandlockRules>,
    filter: Option<SyscallFilter>,
}

#[cfg(target_os = "linux")]
impl PreparedSandbox {
    /// Opens what is to be reachable. Paths that do not exist are left out.
    pub(crate) fn new(plan: &SandboxPlan) -> Result<Self, SandboxError> {
        let mut prepared = Self {
            rules: None,
            filter: None,
        };
        if plan.support.landlock.is_some() {
            let mut rules = LandlockRules::new(plan.network)?;
            for path in &plan.read {
                rules = rules.allow_read(path)?;
            }
            for path in &plan.write {
                rules = rules.allow_write(path)?;
            }
            prepared.rules = Some(rules);
        }
        if plan.support.seccomp {
            prepared.filter = Some(SyscallFilter::new(plan.network, plan.unix_sockets)?);
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

/// Lets a command enter a sandbox, with all that it starts. What is to be reachable is opened now.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "a process can only confine itself, between `fork` and `exec`"
)]
pub fn confine_command(
    command: &mut tokio::process::Command,
    plan: &SandboxPlan,
) -> Result<(), SandboxError> {
    let mut prepared = Some(PreparedSandbox::new(plan)?);
    let enter = move || {
        drop_capabilities();
        match prepared.take() {
            Some(prepared) => prepared.enter().map_err(std::io::Error::other),
            None => Ok(()),
        }
    };
    // SAFETY: entering makes a few system calls and takes no lock of ours.
    unsafe { command.pre_exec(enter) };
    Ok(())
}

/// What root may still do in a sandbox: what concerns files, which the rules hold, and ports.
#[cfg(target_os = "linux")]
const KEPT_CAPABILITIES: [libc::c_ulong; 8] = [
    0,  // CHOWN
    1,  // DAC_OVERRIDE
    3,  // FOWNER
    4,  // FSETID
    5,  // KILL
    6,  // SETGID
    7,  // SETUID
    10, // NET_BIND_SERVICE
];

/// Takes from root what reaches around a sandbox: looking into other processes above all, which the kernel allows to
/// whoever may measure them, whatever Landlock says. Nobody else has anything to lose here.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a system call without a safe form")]
fn drop_capabilities() {
    /// More than there are.
    const MOST: libc::c_ulong = 64;
    for power in (0..MOST).filter(|power| !KEPT_CAPABILITIES.contains(power)) {
        // SAFETY: it changes this process alone, and no memory is involved.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, power, 0, 0, 0) };
    }
}

/// There is nothing to confine a command with.
#[cfg(not(target_os = "linux"))]
pub fn confine_command(
    _: &mut tokio::process::Command,
    _: &SandboxPlan,
) -> Result<(), SandboxError> {
    Err(SandboxError("only Linux supports it".into()))
}

/// Names, to an agent that is limited, how many processes there may be before what it starts can start no more.
pub const CHILD_LIMIT_VARIABLE: &str = "HERMES_CHILD_PROCESSES";

/// Holds what a command starts to fewer processes than this one, if this one is to do so, where its user may have only so
/// many processes.
///
/// Threads are processes, too, when they are counted. An agent whose commands have used up all of them could not even
/// read its own database any more. So whoever limits an agent allows it a few more than it may start, and says by
/// [`CHILD_LIMIT_VARIABLE`] how many those are.
#[expect(unsafe_code, reason = "pre_exec has no safe form")]
pub fn limit_child_processes(command: &mut Command) {
    let most = std::env::var(CHILD_LIMIT_VARIABLE).ok();
    let Some(most) = most.and_then(|most| most.parse().ok()) else {
        return;
    };
    let limit = move || {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(Resource::Nproc, limit)?;
        Ok(())
    };
    // SAFETY: a plain system call; nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(limit) };
}

/// Switches core files and inspection off, for this process: from now on neither its memory nor its variables nor its
/// open files can be read by another process of the same user, and none can trace it. Programs that it starts are
/// themselves again.
///
/// Call it before anything is started. What holds keys and starts programs needs it.
pub fn forbid_inspection() {
    // A kernel that refuses this leaves things as they were; nothing could be done about it here.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}
