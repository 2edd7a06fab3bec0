//! Landlock's part: files, signals and, where that is asked for, TCP.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::{
    NetworkAccess, SandboxError,
    system::{MACHINE_PATHS, PROGRAM_PATHS, SETTINGS_PATHS},
};

/// The newest rules we know; an older kernel enforces those it knows.
const NEWEST_ABI: ABI = ABI::V9;

/// Which version of Landlock the kernel has, if any.
pub(super) fn landlock_version() -> Option<u32> {
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
        let ruleset = match AccessNet::from_all(abi) {
            none if none.is_empty() => ruleset,
            network => ruleset.and_then(|ruleset| ruleset.handle_access(network)),
        };
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

/// Rules for one process. What no rule allows is closed.
pub struct LandlockRules(RulesetCreated);

impl LandlockRules {
    /// Leaves the system's programs and what the machine tells about itself, all of it to read.
    pub fn new(network: NetworkAccess) -> Result<Self, SandboxError> {
        let mut rules = Self::empty(network).map_err(SandboxError::new)?;
        rules = rules.allow_path(
            Path::new("/dev/null"),
            AccessFs::ReadFile | AccessFs::WriteFile,
        )?;
        for path in PROGRAM_PATHS {
            rules = rules.allow_read(Path::new(path))?;
        }
        for path in SETTINGS_PATHS.into_iter().chain(MACHINE_PATHS) {
            rules = rules.allow_path(Path::new(path), AccessFs::ReadFile | AccessFs::ReadDir)?;
        }
        Ok(rules)
    }

    fn empty(network: NetworkAccess) -> Result<Self, RulesetError> {
        let mut rules = Ruleset::default()
            // Without files there is no sandbox. The rest is as much as the kernel knows.
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(ABI::V1))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST_ABI))?
            .scope(Scope::from_all(NEWEST_ABI))?;
        if network == NetworkAccess::Denied {
            rules = rules.handle_access(AccessNet::from_all(NEWEST_ABI))?;
        }
        Ok(Self(rules.create()?))
    }

    /// Allows to read and execute.
    pub fn allow_read(self, path: &Path) -> Result<Self, SandboxError> {
        self.allow_path(path, AccessFs::from_read(NEWEST_ABI))
    }

    /// Allows everything but to make devices.
    pub fn allow_write(self, path: &Path) -> Result<Self, SandboxError> {
        let devices = AccessFs::MakeChar | AccessFs::MakeBlock;
        self.allow_path(path, AccessFs::from_all(NEWEST_ABI) & !devices)
    }

    /// Allows to connect to a socket.
    pub fn allow_connect(self, path: &Path) -> Result<Self, SandboxError> {
        self.allow_path(path, AccessFs::ResolveUnix.into())
    }

    /// Allows something, if it is there.
    fn allow_path(self, path: &Path, access: BitFlags<AccessFs>) -> Result<Self, SandboxError> {
        let Ok(opened) = PathFd::new(path) else {
            return Ok(self);
        };
        let access = if path.is_dir() {
            access
        } else {
            access & AccessFs::from_file(NEWEST_ABI)
        };
        let rules = self.0.add_rule(PathBeneath::new(opened, access));
        Ok(Self(rules.map_err(SandboxError::new)?))
    }

    /// Puts the rules in force for this thread and all that it starts, for good.
    pub fn enter(self) -> Result<(), SandboxError> {
        let status = self.0.restrict_self().map_err(SandboxError::new)?;
        match status.ruleset {
            RulesetStatus::NotEnforced => Err(SandboxError::new("the kernel has no Landlock")),
            _ => Ok(()),
        }
    }
}
