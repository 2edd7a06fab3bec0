//! Marks, by which the guard tells to which server a detached process belongs.
//!
//! Such a process has another parent, group and session, and perhaps an empty environment. What it still has are its
//! resource limits, which pass through `fork`, `exec` and `setsid`. The limit of file locks has meant nothing to Linux
//! since version 2.4, so its soft value is free to carry a number: anybody may set it, and nobody does.

use rustix::process::{Pid, getpid};

/// The upper 16 bits of every mark, to tell it from a limit that is meant as one.
const MARK_TAG: u64 = 0x4d43;

/// Bits for the number of a server; as many hold a pid.
const NUMBER_BITS: u32 = 24;

/// What a process of a guarded tree carries: which guard, and which of its servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TreeMark(u64);

impl TreeMark {
    /// The mark of this guard's server with that number.
    pub(super) fn new(number: u32) -> Self {
        let guard = u64::from(getpid().as_raw_nonzero().get().unsigned_abs());
        let number = u64::from(number) & ((1 << NUMBER_BITS) - 1);
        Self((MARK_TAG << NUMBER_BITS | guard) << NUMBER_BITS | number)
    }

    /// Reads what a process carries.
    pub(super) fn read_from(pid: Pid) -> Option<Self> {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_nonzero()));
        Self::parse_limits(&limits.ok()?)
    }

    fn parse_limits(limits: &str) -> Option<Self> {
        let line = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max file locks"))?;
        let value: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        (value >> (2 * NUMBER_BITS) == MARK_TAG).then_some(Self(value))
    }

    /// Whether two marks are of the same guard.
    pub(super) fn same_guard(self, other: Self) -> bool {
        self.0 >> NUMBER_BITS == other.0 >> NUMBER_BITS
    }

    /// Does something that starts a process, which will carry this mark.
    ///
    /// Where the limit cannot be set the process goes without, and what detaches itself from it ends with the guard.
    #[cfg(target_os = "linux")]
    pub(super) fn apply_to<T>(self, start: impl FnOnce() -> T) -> T {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

        let own = getrlimit(Resource::Locks);
        let marked = Rlimit {
            current: Some(self.0),
            maximum: own.maximum,
        };
        let _ = setrlimit(Resource::Locks, marked);
        let started = start();
        // Guards may be nested: this one keeps the mark it was given itself.
        let _ = setrlimit(Resource::Locks, own);
        started
    }

    /// Without marks, only a server's group is known.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn apply_to<T>(self, start: impl FnOnce() -> T) -> T {
        start()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(soft: &str) -> String {
        format!(
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max locked memory         8388608              8388608              bytes     \n\
             Max file locks            {soft:<20} unlimited            locks     \n"
        )
    }

    #[test]
    fn a_mark_is_read_back_and_a_common_limit_is_none() {
        let mark = TreeMark::new(7);
        assert_eq!(
            TreeMark::parse_limits(&limits(&mark.0.to_string())),
            Some(mark)
        );
        for other in ["unlimited", "0", "1024", "4611686018427387904"] {
            assert_eq!(TreeMark::parse_limits(&limits(other)), None);
        }
    }

    #[test]
    fn servers_of_one_guard_have_marks_of_their_own() {
        assert_ne!(TreeMark::new(1), TreeMark::new(2));
        assert!(TreeMark::new(1).same_guard(TreeMark::new(2)));
        assert!(!TreeMark::new(1).same_guard(TreeMark(TreeMark::new(1).0 ^ 1 << NUMBER_BITS)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_mark_passes_through_a_new_session_and_leaves_the_marking_process_alone() {
        // Limits belong to a process, so no other test here may read this one's at the same time.
        let before = TreeMark::read_from(getpid());
        let mut child = TreeMark::new(3)
            .apply_to(|| {
                std::process::Command::new("setsid")
                    .args(["env", "-i", "sleep", "60"])
                    .spawn()
            })
            .unwrap();
        let pid = Pid::from_child(&child);
        assert_eq!(TreeMark::read_from(pid), Some(TreeMark::new(3)));
        assert_eq!(TreeMark::read_from(getpid()), before);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
