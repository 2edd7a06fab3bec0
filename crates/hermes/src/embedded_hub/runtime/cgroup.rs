//! Control groups, version 2, where this process was given a part of the tree to itself: the kernel then counts and
//! limits memory, processes and processors of each tenant.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use hermes_hub::{TenantId, tenants::runtime::ResourceLimits};

const ROOT: &str = "/sys/fs/cgroup";

/// What must be available for all three limits.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// The part of the tree that is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroups {
    base: PathBuf,
}

impl Cgroups {
    /// Takes over the group of this process, if nobody else is in it and it may be divided.
    pub(super) fn take_delegated() -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
        let base = Path::new(ROOT).join(path.trim_start_matches('/'));
        Self::at(&base, std::process::id()).ok()
    }

    /// Moves the process into a leaf, because a group with processes of its own cannot be divided.
    fn at(base: &Path, own: u32) -> io::Result<Self> {
        let unusable = || io::Error::from(io::ErrorKind::Unsupported);
        let offered = fs::read_to_string(base.join("cgroup.controllers"))?;
        let is_offered = |name: &&str| offered.split_ascii_whitespace().any(|word| word == *name);
        let inside = fs::read_to_string(base.join("cgroup.procs"))?;
        let is_alone = inside
            .split_ascii_whitespace()
            .all(|pid| pid == own.to_string());
        if !CONTROLLERS.iter().all(is_offered) || !is_alone {
            return Err(unusable());
        }
        let leaf = base.join("hub");
        create_group(&leaf)?;
        fs::write(leaf.join("cgroup.procs"), own.to_string())?;
        let wanted = CONTROLLERS.map(|name| format!("+{name}")).join(" ");
        fs::write(base.join("cgroup.subtree_control"), wanted)?;
        Ok(Self {
            base: base.to_owned(),
        })
    }

    /// Makes the group of a tenant, with its limits.
    pub(super) fn make(&self, tenant: &TenantId, limits: ResourceLimits) -> io::Result<PathBuf> {
        let group = self.group(tenant);
        create_group(&group)?;
        let set = |file: &str, value: String| fs::write(group.join(file), value);
        set("memory.max", limits.memory_bytes.to_string())?;
        // All or nothing: half a tenant is of no use to anybody.
        set("memory.oom.group", "1".into())?;
        set("pids.max", limits.pids.to_string())?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "processors are few"
        )]
        let quota = (limits.cpu * 100_000.0).max(1_000.0) as u64;
        set("cpu.max", format!("{quota} 100000"))?;
        // Kernels may be without swap accounting.
        let _ = set("memory.swap.max", "0".into());
        Ok(group)
    }

    /// Removes the group of a tenant whose processes are gone.
    pub(super) fn remove(&self, tenant: &TenantId) {
        let _ = fs::remove_dir(self.group(tenant));
    }

    /// Whether the kernel has ended a process of the tenant for its memory.
    pub(super) fn has_hit_memory_limit(&self, tenant: &TenantId) -> bool {
        let events = fs::read_to_string(self.group(tenant).join("memory.events"));
        let kills = events.unwrap_or_default();
        let kills = kills
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "));
        kills.is_some_and(|count| count.trim() != "0")
    }

    fn group(&self, tenant: &TenantId) -> PathBuf {
        self.base.join(format!("tenant-{tenant}"))
    }
}

fn create_group(group: &Path) -> io::Result<()> {
    match fs::create_dir(group) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with the files of a group; the kernel's part is not played.
    fn tree(controllers: &str, inside: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("cgroup.controllers"), controllers).unwrap();
        fs::write(directory.path().join("cgroup.procs"), inside).unwrap();
        directory
    }

    #[test]
    fn the_limits_of_a_tenant_are_written_to_its_group() {
        let tree = tree("cpuset cpu io memory pids\n", "42\n");
        let groups = Cgroups::at(tree.path(), 42).unwrap();
        let control = fs::read_to_string(tree.path().join("cgroup.subtree_control")).unwrap();
        assert_eq!(control, "+memory +pids +cpu");
        let limits = ResourceLimits {
            memory_bytes: 1 << 30,
            pids: 256,
            cpu: 1.5,
        };
        let group = groups.make(&TenantId::parse("a").unwrap(), limits).unwrap();
        let read = |file: &str| fs::read_to_string(group.join(file)).unwrap();
        assert_eq!(read("memory.max"), "1073741824");
        assert_eq!(read("pids.max"), "256");
        assert_eq!(read("cpu.max"), "150000 100000");
    }

    #[test]
    fn a_kill_for_memory_is_told_from_others() {
        let tree = tree("cpu memory pids", "42");
        let groups = Cgroups::at(tree.path(), 42).unwrap();
        let tenant = TenantId::parse("a").unwrap();
        assert!(!groups.has_hit_memory_limit(&tenant));
        let limits = ResourceLimits {
            memory_bytes: 1 << 20,
            pids: 16,
            cpu: 1.0,
        };
        let group = groups.make(&tenant, limits).unwrap();
        for (events, has_hit) in [
            ("low 0\nhigh 0\nmax 3\noom 0\noom_kill 0\n", false),
            ("low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n", true),
        ] {
            fs::write(group.join("memory.events"), events).unwrap();
            assert_eq!(groups.has_hit_memory_limit(&tenant), has_hit, "{events}");
        }
    }

    #[test]
    fn a_group_with_others_or_without_controllers_is_left_alone() {
        assert!(Cgroups::at(tree("cpu memory pids", "42 43").path(), 42).is_err());
        assert!(Cgroups::at(tree("hugetlb", "42").path(), 42).is_err());
    }
}
