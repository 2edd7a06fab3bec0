//! The sandbox of a tenant's process, by Landlock: which files it can reach, whom it can signal.
//!
//! **`/proc` can be read.** Runtimes look up processors and memory there, and the guard of a tenant's own MCP servers
//! finds its children in it. What would give away others stays closed even so: the kernel asks Landlock before it shows
//! memory, environment, open files or root of a process (it counts as tracing), and only processes of the same sandbox
//! may be traced. What is left are names and arguments of processes, which never hold secrets of the Hub.
//!
//! **Sockets in the file system** are covered by Landlock only since Linux 7.1. Before that, a tenant that shares its
//! user with others can connect to what that user can connect to. A user of its own closes that too.

use std::path::Path;

/// Programs and libraries.
pub(super) const SYSTEM: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/run/current-system/sw",
];

/// The parts of `/etc` that programs need: libraries, names, certificates, time. Not what is about users or services of
/// this machine.
#[cfg(target_os = "linux")]
const SETTINGS: [&str; 27] = [
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/environment",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/gitconfig",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki",
    "/etc/profile",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl",
    "/etc/timezone",
];

/// What the kernel tells about the machine, and devices that give bytes.
#[cfg(target_os = "linux")]
const MACHINE: [&str; 8] = [
    "/proc",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
];

/// Whether a directory is one of the system's, which every tenant can read.
pub(super) fn is_of_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

#[cfg(target_os = "linux")]
pub(super) use self::linux::{level, prepare};

#[cfg(not(target_os = "linux"))]
pub(super) use self::elsewhere::{level, prepare};

#[cfg(target_os = "linux")]
mod linux {
    use std::path::Path;

    use landlock::{
        ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
        RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
    };

    use super::{MACHINE, SETTINGS, SYSTEM};
    use crate::runtime::plan::{Plan, Sandbox};

    /// The newest rules we know; an older kernel enforces those it knows.
    const NEWEST: ABI = ABI::V9;

    /// Which version of Landlock the kernel has, if any.
    pub(in crate::runtime) fn level() -> Option<u32> {
        let known = [
            (9, ABI::V9),
            (6, ABI::V6),
            (5, ABI::V5),
            (4, ABI::V4),
            (3, ABI::V3),
            (2, ABI::V2),
            (1, ABI::V1),
        ];
        let is_there = |abi: ABI| {
            let ruleset = Ruleset::default()
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(AccessFs::from_all(abi));
            let ruleset = match Scope::from_all(abi) {
                none if none.is_empty() => ruleset,
                scope => ruleset.and_then(|ruleset| ruleset.scope(scope)),
            };
            ruleset.and_then(Ruleset::create).is_ok()
        };
        known
            .into_iter()
            .find(|(_, abi)| is_there(*abi))
            .map(|(level, _)| level)
    }

    /// Rules that are ready to be entered; none where the plan has no sandbox.
    pub(in crate::runtime) struct Prepared(Option<RulesetCreated>);

    /// Opens what is to be reachable. This comes before the change of user, who could not see some of it.
    pub(in crate::runtime) fn prepare(plan: &Plan) -> Result<Prepared, RulesetError> {
        let Some(Sandbox { readable, sockets }) = &plan.sandbox else {
            return Ok(Prepared(None));
        };
        let everything = AccessFs::from_all(NEWEST);
        let reading = AccessFs::from_read(NEWEST);
        let looking = AccessFs::ReadFile | AccessFs::ReadDir;
        let in_home = everything & !(AccessFs::MakeChar | AccessFs::MakeBlock);

        let mut rules = Ruleset::default()
            // Without files there is no sandbox. The rest is as much as the kernel knows.
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(ABI::V1))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(everything)?
            .scope(Scope::from_all(NEWEST))?
            .create()?;
        rules = allow(rules, &plan.home, in_home)?;
        rules = allow(
            rules,
            Path::new("/dev/null"),
            AccessFs::ReadFile | AccessFs::WriteFile,
        )?;
        rules = allow(rules, &plan.program, reading)?;
        for path in SYSTEM {
            rules = allow(rules, Path::new(path), reading)?;
        }
        for path in SETTINGS.into_iter().chain(MACHINE) {
            rules = allow(rules, Path::new(path), looking)?;
        }
        for path in readable {
            rules = allow(rules, path, reading)?;
        }
        for path in sockets {
            rules = allow(rules, path, AccessFs::ResolveUnix.into())?;
        }
        Ok(Prepared(Some(rules)))
    }

    /// Allows something, if it is there.
    fn allow(
        rules: RulesetCreated,
        path: &Path,
        access: BitFlags<AccessFs>,
    ) -> Result<RulesetCreated, RulesetError> {
        let Ok(opened) = PathFd::new(path) else {
            return Ok(rules);
        };
        let on_files = AccessFs::from_file(NEWEST);
        let access = if path.is_dir() {
            access
        } else {
            access & on_files
        };
        rules.add_rule(PathBeneath::new(opened, access))
    }

    impl Prepared {
        /// Puts the rules in force, for good.
        pub(in crate::runtime) fn enter(self) -> Result<(), String> {
            let Some(rules) = self.0 else {
                return Ok(());
            };
            let status = rules.restrict_self().map_err(|error| error.to_string())?;
            if status.ruleset == RulesetStatus::NotEnforced {
                return Err("the kernel has no Landlock; set `isolation.mode: auto`".into());
            }
            Ok(())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use crate::runtime::plan::Plan;

    pub(in crate::runtime) fn level() -> Option<u32> {
        None
    }

    pub(in crate::runtime) struct Prepared;

    pub(in crate::runtime) fn prepare(_: &Plan) -> Result<Prepared, String> {
        Ok(Prepared)
    }

    impl Prepared {
        pub(in crate::runtime) fn enter(self) -> Result<(), String> {
            Ok(())
        }
    }
}
