//! Looking at processes from outside, and waiting until something can be seen.

use std::time::{Duration, Instant};

/// A line of the process table.
#[derive(Debug, Clone)]
struct ProcessEntry {
    pid: u32,
    parent: u32,
    name: String,
    is_zombie: bool,
}

/// Whether a process runs. One that ended and was not yet waited for does not.
pub fn process_exists(pid: u32) -> bool {
    process_table()
        .iter()
        .any(|entry| entry.pid == pid && !entry.is_zombie)
}

/// All running processes below this one, children first.
pub fn descendants(pid: u32) -> Vec<u32> {
    let table = process_table();
    let mut found = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        for entry in table.iter().filter(|entry| entry.parent == parent) {
            parents.push(entry.pid);
            if !entry.is_zombie {
                found.push(entry.pid);
            }
        }
    }
    found
}

/// The running children of a process whose program has this name.
pub fn children_named(pid: u32, name: &str) -> Vec<u32> {
    process_table()
        .into_iter()
        .filter(|entry| entry.parent == pid && !entry.is_zombie && entry.name == name)
        .map(|entry| entry.pid)
        .collect()
}

/// The children of a process that ended and were not waited for.
pub fn zombies(pid: u32) -> Vec<u32> {
    process_table()
        .into_iter()
        .filter(|entry| entry.parent == pid && entry.is_zombie)
        .map(|entry| entry.pid)
        .collect()
}

/// How often a condition is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Waits until the condition holds; `false` when the time is over. Blocks its thread: where the condition depends on
/// tasks of the same runtime, use [`eventually`].
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    wait_for(limit, || condition().then_some(())).is_some()
}

/// Waits until there is something to return; `None` when the time is over.
pub fn wait_for<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        let found = look();
        if found.is_some() || Instant::now() >= deadline {
            return found;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// [`wait_until`] for asynchronous tests.
pub async fn eventually(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        let holds = condition();
        if holds || Instant::now() >= deadline {
            return holds;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// [`wait_for`] for asynchronous tests, where looking may take a while itself. The future cannot be sent to another
/// thread.
pub async fn eventually_some<T>(
    limit: Duration,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        let found = look().await;
        if found.is_some() || Instant::now() >= deadline {
            return found;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[cfg(target_os = "linux")]
fn process_table() -> Vec<ProcessEntry> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // `pid (name) state parent …`; the name may hold spaces and parentheses.
            let (identity, rest) = stat.rsplit_once(')')?;
            let mut fields = rest.split_whitespace();
            let is_zombie = matches!(fields.next()?, "Z" | "X");
            Some(ProcessEntry {
                pid,
                parent: fields.next()?.parse().ok()?,
                name: identity.split_once('(')?.1.to_owned(),
                is_zombie,
            })
        })
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn process_table() -> Vec<ProcessEntry> {
    let listing = std::process::Command::new("ps")
        .args(["-A", "-o", "pid=,ppid=,stat=,comm="])
        .output();
    let text = listing.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    );
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let pid = fields.next()?.parse().ok()?;
            let parent = fields.next()?.parse().ok()?;
            let is_zombie = fields.next()?.starts_with('Z');
            let command = fields.collect::<Vec<_>>().join(" ");
            Some(ProcessEntry {
                pid,
                parent,
                name: command.rsplit('/').next()?.to_owned(),
                is_zombie,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_is_seen_while_it_runs() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let own = std::process::id();
        assert!(wait_until(Duration::from_secs(30), || {
            children_named(own, "sleep").contains(&child.id())
        }));
        assert!(process_exists(child.id()));
        assert!(descendants(own).contains(&child.id()));

        child.kill().unwrap();
        assert!(wait_until(Duration::from_secs(30), || {
            zombies(own).contains(&child.id())
        }));
        assert!(!process_exists(child.id()));
        assert!(!descendants(own).contains(&child.id()));
        child.wait().unwrap();
        assert!(!zombies(own).contains(&child.id()));
    }

    #[test]
    fn waiting_ends_with_the_condition_or_the_time() {
        let mut looks = 0;
        assert!(wait_until(Duration::from_secs(5), || {
            looks += 1;
            looks == 3
        }));
        assert!(!wait_until(Duration::from_millis(30), || false));
    }
}
