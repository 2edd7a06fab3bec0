//! From what the operator wants and what the machine has to what is done for one tenant, and what is told about it.

use std::{
    io,
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use hermes_hub::tenants::runtime::{AgentLaunch, Confinement, RuntimeError};
use hermes_mcp::process::sandbox::SandboxSupport;

use super::{cgroup::Cgroups, users, users::TenantUsers};
use crate::embedded_hub::runtime::launcher::{LaunchPlan, ProcessRights, TenantSandboxPlan};

/// How much confinement the operator asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConfinementMode {
    /// All that the machine has.
    #[default]
    Auto,
    /// The same, and no tenant without a sandbox.
    Strict,
    /// None: tenants can do what the Hub's user can do.
    Off,
}

/// What the operator wants.
#[derive(Debug, Clone)]
pub struct Isolation {
    /// How much.
    pub mode: ConfinementMode,
    /// Users for tenants, given out only if the Hub is root.
    pub users: RangeInclusive<u32>,
    /// What tenants may read besides the system's directories.
    pub read_paths: Vec<PathBuf>,
}

impl Default for Isolation {
    fn default() -> Self {
        Self {
            mode: ConfinementMode::Auto,
            users: 200_000..=265_535,
            read_paths: Vec::new(),
        }
    }
}

/// The isolation mechanisms of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsolationSupport {
    /// The version of Landlock, rounded down to one that made a difference.
    pub landlock: Option<u32>,
    /// Whether system calls can be refused.
    pub seccomp: bool,
    /// Whether this process may act for other users.
    pub is_root: bool,
    /// Control groups that are ours.
    pub cgroups: Option<Cgroups>,
}

impl IsolationSupport {
    /// Detects what this machine supports. A control group that this process has to itself is taken over.
    pub fn detect() -> Self {
        Self {
            cgroups: Cgroups::take_delegated(),
            ..Self::detect_without_cgroups()
        }
    }

    /// The same without control groups, since detecting them takes them over.
    pub fn detect_without_cgroups() -> Self {
        let SandboxSupport { landlock, seccomp } = SandboxSupport::detect();
        Self {
            landlock,
            seccomp,
            is_root: cfg!(target_os = "linux") && rustix::process::geteuid().is_root(),
            cgroups: None,
        }
    }
}

/// What is to be done for one tenant.
pub(super) struct IsolationDecision {
    pub(super) plan: LaunchPlan,
    pub(super) confinement: Vec<Confinement>,
    /// Whether the Hub has to watch over its processes itself, because the kernel does not.
    pub(super) is_watched: bool,
    /// Whether its agent confines the commands that it runs.
    pub(super) confines_commands: bool,
}

/// Where programs, homes and users are.
pub(super) struct LaunchPaths<'a> {
    pub(super) program: &'a Path,
    pub(super) arguments: &'a [String],
    pub(super) data_dir: &'a Path,
    pub(super) sockets: &'a [PathBuf],
    pub(super) users: &'a TenantUsers,
}

/// Decides for one tenant.
pub(super) fn decide_isolation(
    isolation: &Isolation,
    support: &IsolationSupport,
    launch: &AgentLaunch,
    paths: &LaunchPaths<'_>,
) -> Result<IsolationDecision, RuntimeError> {
    let refuse = |reason: String| Err(RuntimeError::StartFailed(reason));
    if isolation.mode == ConfinementMode::Strict && support.landlock.is_none() {
        return refuse(
            "`isolation.mode` is `strict`, and this machine has no Landlock; use a Linux kernel from 5.13 on with \
             Landlock turned on, or set `isolation.mode: auto`"
                .into(),
        );
    }
    let is_off = isolation.mode == ConfinementMode::Off;
    let system =
        |what: &str, error: io::Error| RuntimeError::StartFailed(format!("{what}: {error}"));

    let (rights, user) = if is_off {
        (
            ProcessRights::Kept,
            missing_confinement("OwnUser", "turned off"),
        )
    } else if support.is_root {
        choose_own_user(launch, paths).map_err(|error| system("its user", error))?
    } else {
        (
            ProcessRights::Kept,
            missing_confinement("OwnUser", "the Hub is not root"),
        )
    };
    let group = match &support.cgroups {
        Some(groups) if !is_off => Some(
            groups
                .make(&launch.tenant, launch.limits)
                .map_err(|error| system("its control group", error))?,
        ),
        _ => None,
    };
    let sandbox = (!is_off && support.landlock.is_some()).then(|| TenantSandboxPlan {
        readable: isolation.read_paths.clone(),
        sockets: paths.sockets.to_vec(),
    });
    let has_group = group.is_some();
    let most_processes =
        (matches!(rights, ProcessRights::Own(_)) && !has_group).then_some(launch.limits.pids);
    // Half a processor or less stands further back.
    let niceness = match launch.limits.cpu {
        _ if is_off || has_group => 0,
        cpu if cpu > 0.5 => 5,
        _ => 10,
    };
    let confinement = vec![
        sandbox_confinement(isolation.mode, support),
        match support.landlock {
            _ if is_off => missing_confinement("CommandsConfined", "turned off"),
            None => missing_confinement("CommandsConfined", "this machine has no Landlock"),
            Some(_) => {
                active_confinement("CommandsConfined", "to the workspace and temporary files")
            }
        },
        match (has_group, is_off) {
            (true, _) => active_confinement("MemoryLimited", "cgroup"),
            (_, true) => missing_confinement("MemoryLimited", "turned off"),
            _ => active_confinement("MemoryLimited", "watched each second"),
        },
        match (has_group, most_processes) {
            (true, _) => active_confinement("PidsLimited", "cgroup"),
            (_, Some(_)) => active_confinement("PidsLimited", "limit of its user"),
            _ => missing_confinement("PidsLimited", "needs cgroup v2 or a user of its own"),
        },
        if has_group {
            active_confinement("CpuLimited", "cgroup")
        } else if is_off {
            missing_confinement("CpuLimited", "turned off")
        } else {
            missing_confinement("CpuLimited", &format!("niceness {niceness} only"))
        },
        user,
    ];
    Ok(IsolationDecision {
        plan: LaunchPlan {
            program: paths.program.to_owned(),
            arguments: paths.arguments.to_vec(),
            home: launch.home.clone(),
            sandbox,
            filters_calls: !is_off && support.seccomp,
            rights,
            most_processes,
            niceness,
            cgroup: group,
        },
        confinement,
        is_watched: !has_group && !is_off,
        confines_commands: !is_off && support.landlock.is_some(),
    })
}

/// The directory that keeps tenants of a Hub at this place from having users of their own.
pub fn directory_closed_to_users(data_dir: &Path) -> Option<&Path> {
    users::closed_directory(data_dir)
}

/// A user of its own, if that one can get at its home and at the program.
fn choose_own_user(
    launch: &AgentLaunch,
    paths: &LaunchPaths<'_>,
) -> io::Result<(ProcessRights, Confinement)> {
    users::allow_traversal(paths.data_dir, &launch.home)?;
    let closed = [launch.home.as_path(), paths.program]
        .into_iter()
        .find_map(users::closed_directory);
    if let Some(directory) = closed {
        let reason = format!(
            "`{}` is closed to other users; the tenant has the Hub's user without its powers",
            directory.display()
        );
        return Ok((
            ProcessRights::WithoutPowers,
            missing_confinement("OwnUser", &reason),
        ));
    }
    let user = paths.users.assign_user(&launch.tenant)?;
    Ok((
        ProcessRights::Own(user),
        active_confinement("OwnUser", &format!("uid {user}")),
    ))
}

fn sandbox_confinement(mode: ConfinementMode, support: &IsolationSupport) -> Confinement {
    let calls = if support.seccomp { ", seccomp" } else { "" };
    match support.landlock {
        _ if mode == ConfinementMode::Off => missing_confinement("Sandboxed", "turned off"),
        None => missing_confinement("Sandboxed", "this machine has no Landlock"),
        Some(1..6) => active_confinement("Sandboxed", &format!("landlock, files only{calls}")),
        Some(_) => active_confinement("Sandboxed", &format!("landlock{calls}")),
    }
}

fn active_confinement(support: &'static str, reason: &str) -> Confinement {
    Confinement {
        means: support,
        in_force: true,
        reason: reason.to_owned(),
    }
}

fn missing_confinement(support: &'static str, reason: &str) -> Confinement {
    Confinement {
        means: support,
        in_force: false,
        reason: reason.to_owned(),
    }
}
