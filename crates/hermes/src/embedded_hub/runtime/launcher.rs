//! The hidden mode `hermes __tenant PLAN`: a process that confines itself and then becomes a tenant's agent.
//!
//! It runs before anything else in `main`, with one thread, because most of what it sets belongs to a thread and would
//! not reach others. Through its stdin it is handed the socket on which the agent will listen, and the agent's keys.

use std::{
    ffi::OsString,
    fs,
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::PathBuf,
    process::{Command, ExitCode},
};

use hermes_mcp::process::{is_in_session_of_parent, sandbox::CHILD_LIMIT_VARIABLE};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::handover;

/// The argument that turns the program into the launcher.
pub const ARGUMENT: &str = "__tenant";

/// Names the descriptor of the socket to the agent.
pub(crate) const SOCKET_VARIABLE: &str = "HERMES_API_FD";

/// Names the descriptor of the keys to the agent.
pub(crate) const KEYS_VARIABLE: &str = "HERMES_KEYS_FD";

/// Open files: enough for many connections, and not all there are.
const MAX_OPEN_FILES: u64 = 16_384;

/// Threads that an agent can still start when its tenant has used up all processes.
const RESERVED_THREADS: u64 = 64;

/// Makes the kernel's OOM killer prefer tenants over the Hub.
const OOM_SCORE: &str = "500";

/// Does what the plan in the second argument says. Returns only if that failed.
pub fn run() -> ExitCode {
    let Err(error) = launch(std::env::args_os().nth(2));
    // Whoever started this reads stderr; there is nothing else to say it on.
    let _ = io::Write::write_all(&mut io::stderr(), format!("{error}\n").as_bytes());
    ExitCode::FAILURE
}

fn launch(plan: Option<OsString>) -> Result<std::convert::Infallible, String> {
    let plan = plan
        .and_then(|plan| plan.into_string().ok())
        .and_then(|plan| serde_json::from_str::<LaunchPlan>(&plan).ok())
        .ok_or("this mode is for the Hub alone; start agents with `hermes gateway run`")?;
    let step = |name: &'static str| move |error: io::Error| format!("{name}: {error}");

    let (socket, keys) =
        receive_handover().map_err(step("the socket and the keys of the agent"))?;
    if let Some(group) = &plan.cgroup {
        // `0` stands for whoever writes it.
        std::fs::write(group.join("cgroup.procs"), "0").map_err(step("its control group"))?;
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    lower_priority(plan.niceness);
    set_limits(&plan).map_err(step("resource limits"))?;
    let sandbox = super::sandbox::prepare_sandbox(&plan).map_err(|error| error.to_string())?;
    drop_privileges(plan.rights).map_err(step("user rights"))?;
    #[cfg(target_os = "linux")]
    {
        rustix::thread::set_no_new_privs(true)
            .map_err(|error| step("no_new_privs")(error.into()))?;
        // Changing the user has cleared it, so it comes after that.
        let signal = Some(rustix::process::Signal::KILL);
        rustix::process::set_parent_process_death_signal(signal)
            .map_err(|error| step("parent death signal")(error.into()))?;
    }
    sandbox.enter().map_err(|error| error.to_string())?;

    let mut command = Command::new(&plan.program);
    command
        .args(&plan.arguments)
        .env(SOCKET_VARIABLE, socket.as_raw_fd().to_string())
        .env(KEYS_VARIABLE, keys.as_raw_fd().to_string());
    if let Some(processes) = plan.most_processes {
        command.env(CHILD_LIMIT_VARIABLE, processes.to_string());
    }
    let error = command.exec();
    Err(format!("`{}`: {error}", plan.program.display()))
}

/// Takes what the Hub handed over, with numbers that the agent inherits. Its stdin is empty from then on.
fn receive_handover() -> io::Result<(OwnedFd, OwnedFd)> {
    let files = handover::receive_files(rustix::stdio::stdin().as_fd())?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(files)
}

/// Best effort: a system that refuses these still runs the tenant.
fn lower_priority(niceness: i32) {
    let _ = rustix::process::nice(niceness);
    // Without a guard it would be the session of who started this, the Hub's or a user's, that stands back.
    if is_in_session_of_parent() {
        set_session_niceness(std::process::id(), niceness);
    }
    #[cfg(target_os = "linux")]
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    #[cfg(not(target_os = "linux"))]
    let _ = OOM_SCORE;
}

fn set_limits(plan: &LaunchPlan) -> io::Result<()> {
    let exactly = |count: u64| Rlimit {
        current: Some(count),
        maximum: Some(count),
    };
    // A core file would hold the tenant's secrets.
    setrlimit(Resource::Core, exactly(0))?;
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    setrlimit(Resource::Nofile, exactly(files.min(MAX_OPEN_FILES)))?;
    if let Some(processes) = plan.most_processes {
        setrlimit(
            Resource::Nproc,
            exactly(processes.saturating_add(RESERVED_THREADS)),
        )?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn drop_privileges(rights: ProcessRights) -> io::Result<()> {
    use rustix::{
        process::{Gid, Uid},
        thread::{
            CapabilitiesSecureBits, CapabilitySet, CapabilitySets, set_capabilities,
            set_capabilities_secure_bits, set_thread_groups, set_thread_res_gid,
            set_thread_res_uid,
        },
    };
    match rights {
        ProcessRights::Kept => {}
        ProcessRights::WithoutPowers => {
            // Without these bits, root would have its powers back after `exec`.
            set_capabilities_secure_bits(
                CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED,
            )?;
            let none = CapabilitySet::empty();
            set_capabilities(
                None,
                CapabilitySets {
                    effective: none,
                    permitted: none,
                    inheritable: none,
                },
            )?;
        }
        ProcessRights::Own(user) => {
            let (user, group) = (Uid::from_raw(user), Gid::from_raw(user));
            set_thread_groups(&[])?;
            set_thread_res_gid(group, group, group)?;
            set_thread_res_uid(user, user, user)?;
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn drop_privileges(_: ProcessRights) -> io::Result<()> {
    Ok(())
}

/// Sets the niceness of a process's session, if it differs. Best effort: the kernel rate-limits this for users other
/// than root, and not every kernel has such groups.
pub(super) fn set_session_niceness(pid: u32, niceness: i32) {
    let path = format!("/proc/{pid}/autogroup");
    let present = fs::read_to_string(&path)
        .ok()
        .and_then(|text| parse_autogroup(&text));
    if present.is_some_and(|present| present < niceness) {
        let _ = fs::write(&path, niceness.to_string());
    }
}

/// Reads `/autogroup-42 nice 5`.
fn parse_autogroup(text: &str) -> Option<i32> {
    let (_, niceness) = text.trim_end().rsplit_once(" nice ")?;
    niceness.parse().ok()
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_niceness_of_a_group_is_read_as_the_kernel_writes_it() {
        assert_eq!(parse_autogroup("/autogroup-1 nice 0\n"), Some(0));
        assert_eq!(parse_autogroup("/autogroup-4711 nice -5\n"), Some(-5));
        assert_eq!(parse_autogroup("/autogroup-4711 nice 19\n"), Some(19));
        assert_eq!(parse_autogroup(""), None);
    }
}
