//! Whether a tenant has processes on two nodes at once. A node holds the lock of a tenant while any process of it is
//! there; the kernel lists the locks.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::script::lock;

const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// One lease. Processes are killed before their lease ends, but their node lets go of the lock only when it has noticed, which
/// takes a while on a machine that is busy. A process that is left behind stays.
const TOLERANCE: Duration = Duration::from_secs(5);

/// Watches until it is stopped.
pub(super) struct AgentLocks {
    state: Arc<LockWatch>,
    thread: Option<JoinHandle<()>>,
}

struct LockWatch {
    /// Node and the directory of its locks.
    nodes: Vec<(String, PathBuf)>,
    is_over: AtomicBool,
    /// Nodes whose processes stand still, or did until just now: until when that is so.
    excused: Mutex<HashMap<String, Instant>>,
    /// What is doubled now, and since when.
    doubled: Mutex<BTreeMap<String, Instant>>,
    overlaps: Mutex<Vec<String>>,
}

impl AgentLocks {
    pub(super) fn watch(nodes: Vec<(String, PathBuf)>) -> Self {
        let state = Arc::new(LockWatch::new(nodes));
        let watched = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            while !watched.is_over.load(Ordering::Relaxed) {
                watched.look(Instant::now());
                std::thread::sleep(SAMPLE_INTERVAL);
            }
        });
        Self {
            state,
            thread: Some(thread),
        }
    }

    /// Does not count processes of a node for this long.
    pub(super) fn excuse(&self, node: &str, time: Duration) {
        lock(&self.state.excused).insert(node.to_owned(), Instant::now() + time);
    }

    /// What was seen.
    pub(super) fn finish(mut self) -> Vec<String> {
        self.state.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        std::mem::take(&mut lock(&self.state.overlaps))
    }
}

impl LockWatch {
    fn new(nodes: Vec<(String, PathBuf)>) -> Self {
        Self {
            nodes,
            is_over: AtomicBool::new(false),
            excused: Mutex::default(),
            doubled: Mutex::default(),
            overlaps: Mutex::default(),
        }
    }

    fn look(&self, now: Instant) {
        let held = held_inodes();
        let mut holders: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (node, directory) in &self.nodes {
            let is_excused = lock(&self.excused).get(node).copied();
            if is_excused.is_some_and(|until| now < until) {
                continue;
            }
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let (Some(tenant), Ok(file)) = (name.strip_suffix(".lock"), entry.metadata())
                else {
                    continue;
                };
                if held.contains(&file.ino()) {
                    holders.entry(tenant.to_owned()).or_default().push(node);
                }
            }
        }
        let seen = holders.into_iter().filter(|(_, nodes)| nodes.len() > 1);
        let seen = seen
            .map(|(tenant, nodes)| format!("{tenant} has processes on {}", nodes.join(" and ")));
        let mut doubled = lock(&self.doubled);
        let before = std::mem::take(&mut *doubled);
        for overlap in seen {
            let since = before.get(&overlap).copied().unwrap_or(now);
            let mut overlaps = lock(&self.overlaps);
            if now.duration_since(since) >= TOLERANCE && !overlaps.contains(&overlap) {
                overlaps.push(overlap.clone());
            }
            doubled.insert(overlap, since);
        }
    }
}

/// The files of this machine that are locked.
fn held_inodes() -> Vec<u64> {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let is_flock = words.clone().any(|word| word == "FLOCK");
        let file = words.find(|word| word.matches(':').count() == 2)?;
        is_flock.then(|| file.rsplit(':').next()?.parse().ok())?
    };
    locks.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// The directories of two nodes, and the locks of a tenant that both hold.
    fn hold_twice() -> ([TempDir; 2], Vec<fs::File>) {
        let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let hold = |directory: &TempDir| {
            let file = fs::File::create(directory.path().join("acme.lock")).unwrap();
            file.lock().unwrap();
            file
        };
        let locks = directories.iter().map(hold).collect();
        (directories, locks)
    }

    fn watch(directories: &[TempDir; 2]) -> LockWatch {
        let nodes = ["n1", "n2"].into_iter().zip(directories);
        let nodes = nodes.map(|(node, directory)| (node.to_owned(), directory.path().to_owned()));
        LockWatch::new(nodes.collect())
    }

    fn overlaps(watch: &LockWatch) -> Vec<String> {
        let now = Instant::now();
        for time in [now, now + TOLERANCE, now + TOLERANCE * 2] {
            watch.look(time);
        }
        lock(&watch.overlaps).clone()
    }

    #[test]
    fn a_tenant_with_processes_on_two_nodes_is_seen_once() {
        let (directories, _held) = hold_twice();
        let watch = watch(&directories);
        assert_eq!(overlaps(&watch), ["acme has processes on n1 and n2"]);
    }

    #[test]
    fn processes_that_are_being_stopped_do_not_count() {
        let (directories, mut held) = hold_twice();
        let watch = watch(&directories);
        let now = Instant::now();
        watch.look(now);
        held.pop();
        watch.look(now + TOLERANCE);
        assert!(lock(&watch.overlaps).is_empty());
    }

    #[test]
    fn processes_that_stand_still_and_locks_that_nobody_holds_do_not_count() {
        let (directories, mut held) = hold_twice();
        let excused = watch(&directories);
        let until = Instant::now() + Duration::from_mins(10);
        lock(&excused.excused).insert("n2".into(), until);
        assert!(overlaps(&excused).is_empty());
        held.pop();
        assert!(overlaps(&watch(&directories)).is_empty());
    }
}
