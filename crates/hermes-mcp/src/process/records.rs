//! Which server processes a home has: one file per host in `run/`, for `mcp ps` and for clearing up after a crash.
//!
//! A pid alone says nothing, since pids are used again. Every record carries the start time, every file the boot it
//! belongs to, and nothing is signalled unless all of them still hold.
//!
//! A file is a line with all there is at first, and one for each change since: replacing a whole file for every server
//! that starts would take longer than many servers need to start.

use std::{
    fs::File,
    io,
    io::Write,
    os::fd::AsFd,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use futures::future::BoxFuture;
use hermes_config::{
    ServerName, clock,
    private_file::{
        ExistingFile, FileDurability, NewFileMode, TempFile, WriteOptions, create_private_dir,
        write_file,
    },
    sync::Mutex,
};
use rustix::process::{Signal, kill_process, kill_process_group};
use serde::{Deserialize, Serialize};

use super::{
    ServerProcess, process_table,
    process_table::{ProcessRow, is_running, may_be_running, to_pid},
};

/// How long a process may take to end after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_secs(2);

/// How often to look whether it has.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Changes after which a file is rewritten, to keep it small.
const MAX_APPENDED_CHANGES: usize = 200;

/// What one host has written down.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct HostFile {
    boot_id: String,
    host_pid: u32,
    host_start_time: u64,
    servers: Vec<ProcessEntry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct ProcessEntry {
    server: ServerName,
    pid: u32,
    pgid: u32,
    start_time: u64,
    started_at: String,
}

/// What happens to the servers of a host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecordChange {
    Started(ProcessEntry),
    Gone { pid: u32 },
}

impl HostFile {
    fn for_this_process() -> Self {
        let host_pid = std::process::id();
        Self {
            boot_id: process_table::boot_id(),
            host_pid,
            host_start_time: process_table::start_time(host_pid).unwrap_or(0),
            servers: Vec::new(),
        }
    }

    fn read(path: &Path) -> Option<Self> {
        let text = std::fs::read(path).ok()?;
        let mut lines = text.split(|byte| *byte == b'\n');
        let mut file: Self = serde_json::from_slice(lines.next()?).ok()?;
        // A last line that is half written is none.
        for change in lines.map_while(|line| serde_json::from_slice(line).ok()) {
            file.apply(change);
        }
        Some(file)
    }

    fn apply(&mut self, change: RecordChange) {
        match change {
            RecordChange::Started(entry) => self.servers.push(entry),
            RecordChange::Gone { pid } => self.servers.retain(|entry| entry.pid != pid),
        }
    }

    fn is_of_this_boot(&self) -> bool {
        self.boot_id == process_table::boot_id()
    }

    fn host_is_running(&self) -> bool {
        self.is_of_this_boot() && may_be_running(self.host_pid, self.host_start_time)
    }

    /// Readers see the old file or the new one, nothing between. Changes are to be written to the result.
    fn write(&self, path: &Path) -> io::Result<File> {
        let (directory, name) = path
            .parent()
            .zip(path.file_name())
            .ok_or(io::ErrorKind::InvalidInput)?;
        let directory = File::open(directory)?;
        let mut new = TempFile::create(directory.as_fd(), ".host-", NewFileMode::Private)?;
        new.file.write_all(&line(self)?)?;
        let file = new.file.try_clone()?;
        new.persist(name)?;
        Ok(file)
    }
}

fn line(content: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(content)?;
    line.push(b'\n');
    Ok(line)
}

/// The records of one host: `run/host-<pid>.json`, kept up to date and removed with it.
#[derive(Debug)]
pub struct ProcessRecords {
    path: PathBuf,
    written: Mutex<RecordWriter>,
}

#[derive(Debug)]
struct RecordWriter {
    content: HostFile,
    file: File,
    /// Lines in the file after the first.
    changes: usize,
}

impl ProcessRecords {
    /// Begins the file of this process in `run_dir`.
    pub fn create(run_dir: &Path) -> io::Result<Self> {
        create_private_dir(run_dir)?;
        let content = HostFile::for_this_process();
        let path = claim_path(run_dir, &content)?;
        let written = RecordWriter {
            file: content.write(&path)?,
            content,
            changes: 0,
        };
        Ok(Self {
            path,
            written: Mutex::new(written),
        })
    }

    /// Writes down a server that has just started.
    pub fn add(&self, process: &ServerProcess) -> io::Result<()> {
        self.change(RecordChange::Started(ProcessEntry {
            server: process.server().clone(),
            pid: process.pid(),
            pgid: process.pgid(),
            start_time: process.start_time(),
            started_at: clock::timestamp(SystemTime::now()),
        }))
    }

    /// Strikes out a server that is gone.
    pub fn remove(&self, pid: u32) -> io::Result<()> {
        self.change(RecordChange::Gone { pid })
    }

    fn change(&self, change: RecordChange) -> io::Result<()> {
        // Written under the lock, so that lines follow each other in the order of the changes.
        let mut written = self.written.lock();
        let line = line(&change)?;
        written.content.apply(change);
        if written.changes < MAX_APPENDED_CHANGES {
            written.changes += 1;
            written.file.write_all(&line)
        } else {
            written.changes = 0;
            written.file = written.content.write(&self.path)?;
            Ok(())
        }
    }
}

impl Drop for ProcessRecords {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Finds a free name: a process may have several hosts for one home.
fn claim_path(run_dir: &Path, content: &HostFile) -> io::Result<PathBuf> {
    for number in 1.. {
        let suffix = if number == 1 {
            String::new()
        } else {
            format!("-{number}")
        };
        let path = run_dir.join(format!("host-{}{suffix}.json", content.host_pid));
        let options = WriteOptions {
            existing: ExistingFile::Refuse,
            durability: FileDurability::Unsynced,
            ..WriteOptions::default()
        };
        match write_file(&path, b"", options) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Left by an earlier process with this pid?
                if HostFile::read(&path).is_some_and(|file| !file.host_is_running()) {
                    return Ok(path);
                }
            }
            created => return created.map(|()| path),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Whether a recorded process is looked after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessState {
    /// It runs, and so does its host.
    Running,
    /// It runs although its host is dead.
    Orphaned,
}

/// One running server process, as `mcp ps` shows it.
#[derive(Debug, Clone, Serialize)]
pub struct ProcessRecord {
    pub server: ServerName,
    pub pid: u32,
    pub pgid: u32,
    /// The process that started it.
    pub host_pid: u32,
    /// When it was started, in UTC.
    pub started_at: String,
    /// Resident memory of its whole process group.
    pub rss_bytes: u64,
    /// Whether its host still runs.
    pub state: ProcessState,
    /// With the pid, its identity.
    #[serde(skip)]
    start_time: u64,
}

/// The running server processes of all hosts that write to `run_dir`, oldest first.
pub fn list_processes(run_dir: &Path) -> Vec<ProcessRecord> {
    let rows = process_table::rows();
    let page = rustix::param::page_size() as u64;
    let mut records = Vec::new();
    for (_, file) in host_files(run_dir) {
        let Some(file) = file.filter(HostFile::is_of_this_boot) else {
            continue;
        };
        let state = if file.host_is_running() {
            ProcessState::Running
        } else {
            ProcessState::Orphaned
        };
        for entry in file.servers {
            if !is_running(entry.pid, entry.start_time) {
                continue;
            }
            let group = rows.iter().filter(|row| row.group == entry.pgid);
            records.push(ProcessRecord {
                rss_bytes: group.map(|row| row.resident_pages * page).sum(),
                server: entry.server,
                pid: entry.pid,
                pgid: entry.pgid,
                host_pid: file.host_pid,
                started_at: entry.started_at,
                state,
                start_time: entry.start_time,
            });
        }
    }
    records.sort_by(|one, other| one.started_at.cmp(&other.started_at));
    records
}

/// Why a recorded process was not ended.
#[derive(Debug, thiserror::Error)]
pub enum KillError {
    /// It is not there any more.
    #[error("process {pid} of `{server}` is no longer running")]
    NotRunning {
        server: ServerName,
        /// Its pid, which may belong to somebody else now.
        pid: u32,
    },
    #[error("process {pid} of `{server}` could not be ended: {source}")]
    Refused {
        server: ServerName,
        pid: u32,
        source: io::Error,
    },
}

/// Ends a recorded process and its group: SIGTERM, up to two seconds, SIGKILL.
pub fn stop_recorded_process(record: &ProcessRecord) -> BoxFuture<'_, Result<(), KillError>> {
    Box::pin(async move {
        let (server, pid) = (record.server.clone(), record.pid);
        // Not asked of `getpgrp`, which has no name for a group that began outside our namespace of pids.
        let own_group = process_table::row(std::process::id()).map(|row| row.group);
        let target = to_pid(record.pgid)
            .filter(|_| own_group != Some(record.pgid))
            .filter(|_| is_running(pid, record.start_time));
        let Some(group) = target else {
            return Err(KillError::NotRunning { server, pid });
        };
        // From here on each member is known by pid and start time, whatever becomes of the leader.
        let members: Vec<ProcessRow> = process_table::rows()
            .into_iter()
            .filter(|row| row.group == record.pgid)
            .collect();
        kill_process_group(group, Signal::TERM).map_err(|source| KillError::Refused {
            server,
            pid,
            source: source.into(),
        })?;

        let deadline = Instant::now() + TERM_TIMEOUT;
        let is_left = |row: &&ProcessRow| is_running(row.pid, row.start_time);
        while members.iter().any(|row| is_left(&row)) && Instant::now() < deadline {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        if is_running(pid, record.start_time) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        for row in members.iter().filter(is_left) {
            if let Some(member) = to_pid(row.pid) {
                let _ = kill_process(member, Signal::KILL);
            }
        }
        Ok(())
    })
}

/// Ends what dead hosts left running and deletes their files. Returns what had to be ended.
pub fn stop_stale_processes(run_dir: &Path) -> BoxFuture<'_, Vec<ProcessRecord>> {
    Box::pin(async move {
        // Read before the processes are listed: a host that dies in between is the next one's business.
        let stale: Vec<PathBuf> = host_files(run_dir)
            .into_iter()
            .filter(|(path, file)| match file {
                Some(file) => !file.host_is_running(),
                // Half-written by a host that has ended?
                None => pid_in_name(path).is_some_and(|pid| !pid_is_taken(pid)),
            })
            .map(|(path, _)| path)
            .collect();
        if stale.is_empty() {
            return Vec::new();
        }
        let orphans: Vec<ProcessRecord> = list_processes(run_dir)
            .into_iter()
            .filter(|record| record.state == ProcessState::Orphaned)
            .collect();
        for orphan in &orphans {
            // It may just have ended by itself.
            let _ = stop_recorded_process(orphan).await;
        }
        for path in stale {
            let _ = std::fs::remove_file(path);
        }
        orphans
    })
}

fn pid_is_taken(pid: u32) -> bool {
    to_pid(pid)
        .is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

fn host_files(run_dir: &Path) -> Vec<(PathBuf, Option<HostFile>)> {
    let Ok(entries) = std::fs::read_dir(run_dir) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| pid_in_name(path).is_some())
        .map(|path| {
            let file = HostFile::read(&path);
            (path, file)
        })
        .collect()
}

/// The pid in `host-<pid>.json` and `host-<pid>-<number>.json`.
fn pid_in_name(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_prefix("host-")?.strip_suffix(".json")?;
    stem.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests;
