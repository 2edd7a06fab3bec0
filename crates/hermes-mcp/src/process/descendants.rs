//! Whether a process descends from what this one has started.
//!
//! Parents tell only as long as nobody detaches itself. What passes through `fork`, `exec` and `setsid`, as the marks of
//! the guard do, are resource limits: the hard limit of file locks, which means nothing to Linux any more, is one lower
//! for everything that this process starts. Nobody without the powers of root can raise it again.

#[cfg(target_os = "linux")]
pub use self::linux::{is_descendant, lower_lock_limit, mark_descendants};

/// Where there are no limits to be read, nobody is known to descend from us.
#[cfg(not(target_os = "linux"))]
pub fn is_descendant(_: u32) -> bool {
    false
}

/// Lets what a command starts be known as a descendant of this process.
#[cfg(not(target_os = "linux"))]
pub fn mark_descendants(_: &mut tokio::process::Command) {}

/// Lets all that this process starts be known as descendants of the one that started it.
#[cfg(not(target_os = "linux"))]
pub fn lower_lock_limit() -> std::io::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::super::process_table;

    /// Where to begin where there is no limit yet: above all marks of guards.
    const INITIAL_LOCK_LIMIT: u64 = i64::MAX.cast_unsigned();
    /// Processes change while their parents are read; this ends it.
    const MAX_GENERATIONS: usize = 10_000;

    /// Whether a process was started by this one, or by something that was: its parents say so, or its limit. One that
    /// is gone might have been.
    pub fn is_descendant(pid: u32) -> bool {
        let own = std::process::id();
        if pid == own {
            return false;
        }
        let Some(hard) = hard_limit(pid) else {
            return true;
        };
        hard < getrlimit(Resource::Locks).maximum.unwrap_or(u64::MAX) || has_ancestor(pid, own)
    }

    fn has_ancestor(pid: u32, ancestor: u32) -> bool {
        let mut pid = pid;
        for _ in 0..MAX_GENERATIONS {
            match process_table::row(pid).map(|row| row.parent) {
                Some(parent) if parent == ancestor => return true,
                Some(parent) if parent != 0 => pid = parent,
                _ => return false,
            }
        }
        false
    }

    /// The hard limit of file locks.
    fn hard_limit(pid: u32) -> Option<u64> {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        parse_hard_limit(&limits)
    }

    fn parse_hard_limit(limits: &str) -> Option<u64> {
        let line = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max file locks"))?;
        match line.split_ascii_whitespace().nth(1)? {
            "unlimited" => Some(u64::MAX),
            number => number.parse().ok(),
        }
    }

    /// Lets what a command starts be known as a descendant of this process.
    #[expect(unsafe_code, reason = "pre_exec has no safe form")]
    pub fn mark_descendants(command: &mut tokio::process::Command) {
        // SAFETY: plain system calls; nothing is allocated and no lock is taken.
        unsafe { command.pre_exec(lower_lock_limit) };
    }

    /// Lets all that this process starts be known as descendants of the one that started it. For good.
    pub fn lower_lock_limit() -> io::Result<()> {
        let Rlimit { current, maximum } = getrlimit(Resource::Locks);
        let maximum = maximum.map_or(INITIAL_LOCK_LIMIT, |maximum| maximum.saturating_sub(1));
        let limit = Rlimit {
            // The mark of a guard stays.
            current: Some(current.map_or(maximum, |current| current.min(maximum))),
            maximum: Some(maximum),
        };
        Ok(setrlimit(Resource::Locks, limit)?)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        async fn pid_of(script: &str) -> (tokio::process::Child, u32) {
            let mut command = tokio::process::Command::new("sh");
            command
                .args(["-c", script])
                .stdout(std::process::Stdio::piped())
                .kill_on_drop(true);
            mark_descendants(&mut command);
            let mut child = command.spawn().unwrap();
            let mut stdout = tokio::io::BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            tokio::io::AsyncBufReadExt::read_line(&mut stdout, &mut line)
                .await
                .unwrap();
            (child, line.trim().parse().unwrap())
        }

        #[tokio::test]
        async fn what_detaches_itself_is_known_by_its_limit() {
            let (_direct, pid) = pid_of("echo $$; exec sleep 60").await;
            assert!(is_descendant(pid));
            // It has another parent, session and environment, and has tried to get rid of the limit.
            let detached = "ulimit -S -x 0; setsid env -i sh -c 'echo $$; exec sleep 60' & wait $!";
            let (mut parent, pid) = pid_of(detached).await;
            parent.kill().await.unwrap();
            assert!(is_descendant(pid));
            let pid = process_table::to_pid(pid).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }

        #[tokio::test]
        async fn this_process_and_strangers_are_not() {
            assert!(!is_descendant(std::process::id()));
            let parent = process_table::row(std::process::id()).unwrap().parent;
            assert!(!is_descendant(parent));
            assert!(is_descendant(u32::MAX), "nobody knows who that was");
        }

        #[test]
        fn the_hard_limit_is_the_second_number() {
            let line = "Max file locks            42                   43                   locks";
            assert_eq!(parse_hard_limit(line), Some(43));
            let line = "Max file locks            unlimited            unlimited            locks";
            assert_eq!(parse_hard_limit(line), Some(u64::MAX));
            assert_eq!(parse_hard_limit("Max processes 1 2 processes"), None);
        }
    }
}
