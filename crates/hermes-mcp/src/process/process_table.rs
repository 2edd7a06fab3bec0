//! What the kernel says about processes: who is whose child, in which group, since when, and how large.
//!
//! Only Linux answers. Elsewhere nothing is known, and whoever asks then leaves strange processes alone.

use std::collections::{BTreeMap, HashMap};

use rustix::process::Pid;

/// One line of the process table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessRow {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) session: u32,
    /// Clock ticks from boot to the start of the process: with the pid, an identity.
    pub(super) start_time: u64,
    pub(super) resident_pages: u64,
    pub(super) has_ended: bool,
    pub(super) is_exiting: bool,
}

/// A flag of the kernel: the process is on its way to its end.
const PF_EXITING: u64 = 0x4;

impl ProcessRow {
    /// Reads `/proc/<pid>/stat`.
    fn parse(text: &str) -> Option<Self> {
        // The second field is the program's name in parentheses, and may itself hold spaces and parentheses.
        let (pid, rest) = text.split_once(" (")?;
        let (_, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Self {
            pid: pid.parse().ok()?,
            has_ended: matches!(*fields.first()?, "Z" | "X"),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            start_time: fields.get(19)?.parse().ok()?,
            resident_pages: fields.get(21)?.parse().ok()?,
            is_exiting: fields.get(6)?.parse::<u64>().ok()? & PF_EXITING != 0,
        })
    }
}

/// The row of a process, zombies included.
pub(super) fn row(pid: u32) -> Option<ProcessRow> {
    // A line of a few hundred bytes, which the kernel gives out in one piece.
    let mut line = [0; 1024];
    let mut file = std::fs::File::open(format!("/proc/{pid}/stat")).ok()?;
    let count = std::io::Read::read(&mut file, &mut line).ok()?;
    ProcessRow::parse(&String::from_utf8_lossy(&line[..count]))
}

/// The rows of all processes.
pub(super) fn rows() -> Vec<ProcessRow> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(row)
        .collect()
}

/// A process and all its descendants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessTree {
    /// How large they are. Pages that several of them share are counted for each.
    pub resident_bytes: u64,
    /// The sessions they belong to, each with one of its processes: those that began below, so not the one of who
    /// asks, in which a process is until it has opened another.
    pub sessions: BTreeMap<u32, u32>,
}

/// The trees below these processes, in the order given.
pub fn trees(roots: &[u32]) -> Vec<ProcessTree> {
    let rows = rows();
    let parents: HashMap<u32, u32> = rows.iter().map(|row| (row.pid, row.parent)).collect();
    let page = rustix::param::page_size() as u64;
    // The kernel says 0 of a session that began outside our namespace of pids.
    let is_theirs = {
        let me = std::process::id();
        let own = rows.iter().find(|row| row.pid == me);
        let own = own.map_or(0, |row| row.session);
        move |session: u32| session != 0 && session != own
    };
    let mut trees = vec![ProcessTree::default(); roots.len()];
    for row in &rows {
        let mut ancestor = row.pid;
        // Rows are read one after the other, so that they may even form a circle.
        for _ in 0..rows.len() {
            if let Some(at) = roots.iter().position(|root| *root == ancestor) {
                trees[at].resident_bytes += row.resident_pages * page;
                if is_theirs(row.session) {
                    trees[at].sessions.insert(row.session, row.pid);
                }
                break;
            }
            match parents.get(&ancestor) {
                Some(parent) if *parent != 0 => ancestor = *parent,
                _ => break,
            }
        }
    }
    trees
}

/// Whether a process has children that run.
pub(crate) fn has_children(pid: u32) -> bool {
    rows().iter().any(|row| row.parent == pid && !row.has_ended)
}

/// Whether the calling process is in a session that its parent has opened, as guards do: nobody else is in it.
pub fn is_in_session_of_parent() -> bool {
    row(std::process::id()).is_some_and(|row| row.session == row.parent && row.session != 0)
}

/// When a process started, if there is one with this pid.
pub fn start_time(pid: u32) -> Option<u64> {
    Some(row(pid)?.start_time)
}

/// Whether the process that had `pid` and `start_time` still runs. A zombie does not.
pub(super) fn is_running(pid: u32, start_time: u64) -> bool {
    row(pid).is_some_and(|row| row.start_time == start_time && !row.has_ended)
}

/// Whether that process has ended, or is about to: its files are closed before it is gone from the table.
pub(super) fn is_ending(pid: u32, start_time: u64) -> bool {
    !row(pid).is_some_and(|row| row.start_time == start_time && !row.has_ended && !row.is_exiting)
}

/// Whether that process may still run: unlike `is_running`, yes where the system does not tell start times.
pub fn may_be_running(pid: u32, start_time: u64) -> bool {
    if cfg!(target_os = "linux") {
        is_running(pid, start_time)
    } else {
        to_pid(pid).is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
    }
}

/// Whether a process is gone that somebody wrote down, with its start if that was known.
pub fn is_gone(pid: i64, start_time: Option<i64>) -> bool {
    let Ok(pid) = u32::try_from(pid) else {
        return true;
    };
    let written = start_time.and_then(|start| u64::try_from(start).ok());
    match written.or_else(|| self::start_time(pid)) {
        Some(start_time) => !may_be_running(pid, start_time),
        // Where start times are not told, a process of that number will do.
        None => cfg!(target_os = "linux") || !may_be_running(pid, 0),
    }
}

/// Names the present run of the machine: pids and start times of another one say nothing.
pub(super) fn boot_id() -> String {
    read("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// The children of the calling process, which has one thread.
pub(super) fn own_children() -> Vec<Pid> {
    let pids: Vec<u32> = match read("/proc/thread-self/children") {
        Some(list) => list
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect(),
        // Kernels can be built without that file.
        None => rows()
            .iter()
            .filter(|row| row.parent == std::process::id())
            .map(|row| row.pid)
            .collect(),
    };
    pids.into_iter().filter_map(to_pid).collect()
}

/// The kernel's type for a pid; never 0 or 1, which would mean "my own group" and "init".
pub(super) fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid)
        .ok()
        .filter(|pid| *pid > 1)
        .and_then(Pid::from_raw)
}

/// Program names are bytes, so the text may not be Unicode.
fn read(path: &str) -> Option<String> {
    let mut file = std::fs::File::open(path).ok()?;
    // The kernel does not tell how long it is; mostly this is enough.
    let mut bytes = Vec::with_capacity(4096);
    std::io::Read::read_to_end(&mut file, &mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_parentheses_does_not_shift_the_fields() {
        let line = "42 (a) b (c) S 7 40 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 9876 4096 33 18446744073709551615";
        let row = ProcessRow::parse(line).unwrap();
        assert_eq!((row.pid, row.parent), (42, 7));
        assert_eq!((row.group, row.session), (40, 41));
        assert_eq!((row.start_time, row.resident_pages), (9876, 33));
        assert!(!row.has_ended);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_runs_and_its_earlier_namesake_does_not() {
        let me = std::process::id();
        let start = start_time(me).unwrap();
        assert!(is_running(me, start));
        assert!(!is_running(me, start - 1));
        assert!(rows().iter().any(|row| row.pid == me));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_tree_is_as_large_as_its_root_and_its_children() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let [with_child, nothing] = &trees(&[std::process::id(), u32::MAX])[..] else {
            panic!("two were asked for");
        };
        child.kill().unwrap();
        child.wait().unwrap();
        let alone = &trees(&[std::process::id()])[0];
        assert!(alone.resident_bytes > 0 && with_child.resident_bytes > 0);
        assert_eq!(*nothing, ProcessTree::default());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_tree_reaches_into_other_sessions() {
        let mut command = std::process::Command::new("setsid");
        let mut child = command.args(["sleep", "60"]).spawn().unwrap();
        // It is in the session of its parent until its program has begun.
        let session = hermes_testkit::wait_for(std::time::Duration::from_secs(30), || {
            let tree = trees(&[std::process::id()]).remove(0);
            tree.sessions.get(&child.id()).copied()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(session, Some(child.id()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_session_of_who_asks_is_not_one_of_the_tree() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let tree = trees(&[child.id()]).remove(0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(tree.sessions, BTreeMap::new());
    }

    #[test]
    fn the_own_group_and_init_are_not_targets() {
        assert_eq!(to_pid(0), None);
        assert_eq!(to_pid(1), None);
        assert_eq!(to_pid(u32::MAX), None);
    }
}
