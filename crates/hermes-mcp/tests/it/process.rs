//! Servers as real processes: started, stopped, and never left behind.

mod environment;
mod host_death;
mod isolation;
mod log_and_records;
mod orphans;
pub(crate) mod sandbox;
mod spawning;
mod stopping;

use std::{
    ffi::OsString,
    path::Path,
    time::{Duration, Instant},
};

use hermes_config::ServerName;
use hermes_mcp::process::{GuardHandle, GuardProgram, SpawnRequest, SpawnedServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Far longer than anything here takes, so that a busy machine fails no test.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The variable by which a test recognises every process of its servers' trees.
const MARK: &str = "HERMES_TEST_MARK";

fn guard() -> GuardHandle {
    GuardHandle::new(GuardProgram {
        path: env!("CARGO_BIN_EXE_hermes-mcp-guard").into(),
        args: Vec::new(),
    })
}

/// Processes that carry one mark.
struct MarkedProcess(String);

impl MarkedProcess {
    fn new(test: &str) -> Self {
        Self(format!("{test}-{}", std::process::id()))
    }

    /// A server that is a shell script.
    fn script(&self, script: &str) -> SpawnRequest {
        self.program("/bin/sh", &["-c", script])
    }

    fn program(&self, program: &str, args: &[&str]) -> SpawnRequest {
        SpawnRequest {
            server: ServerName::new("srv"),
            program: program.into(),
            args: args.iter().map(Into::into).collect(),
            environment: vec![
                ("PATH".into(), std::env::var_os("PATH").unwrap()),
                (MARK.into(), self.0.clone().into()),
            ],
            cwd: None,
            sandbox: None,
        }
    }

    /// The pids of all living processes with this mark.
    fn pids(&self) -> Vec<u32> {
        let wanted = format!("{MARK}={}", self.0);
        std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|pid| {
                let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environment
                    .split(|byte| *byte == 0)
                    .any(|variable| variable == wanted.as_bytes())
            })
            .collect()
    }

    async fn wait_for(&self, count: usize) {
        let done = || self.pids().len() == count;
        assert!(
            within(TIMEOUT, done).await,
            "{count} processes expected, there are {:?}",
            self.pids()
        );
    }
}

/// Whether `done` holds before the time is up.
async fn within(limit: Duration, done: impl Fn() -> bool) -> bool {
    hermes_testkit::eventually(limit, done).await
}

/// A field of `/proc/<pid>/status`.
fn status(pid: u32, field: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim_start_matches(':').trim().to_owned())
}

fn parent(pid: u32) -> u32 {
    status(pid, "PPid").unwrap().parse().unwrap()
}

/// Living children of a process, zombies included.
fn children(pid: u32) -> Vec<u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|candidate| {
            status(*candidate, "PPid").is_some_and(|parent| parent == pid.to_string())
        })
        .collect()
}

/// The guard itself, which is the only child of the watchdog that the host has started.
fn below_watchdog(guard: &GuardHandle) -> u32 {
    let below = children(guard.pid().unwrap());
    assert_eq!(below.len(), 1);
    below[0]
}

fn signal(pid: u32, name: &str) {
    let ended = std::process::Command::new("kill")
        .args([format!("-{name}"), pid.to_string()])
        .status()
        .unwrap();
    assert!(ended.success());
}

/// Everything the server prints until it closes stdout.
async fn output(child: &mut SpawnedServer) -> String {
    let mut text = String::new();
    child.stdout.read_to_string(&mut text).await.unwrap();
    text
}

/// Returns when a `cat` has answered: it is past loading its libraries then.
async fn echo(child: &mut SpawnedServer) {
    child.stdin.write_all(b"x").await.unwrap();
    child.stdout.read_exact(&mut [0]).await.unwrap();
}

fn os(text: &str) -> OsString {
    text.into()
}

/// Whether this is the process that runs nothing but `test`; if not, starts it and waits for it to pass.
///
/// For tests that look at the memory, the open files or the children of the whole process.
fn runs_alone(test: &str) -> bool {
    const ALONE: &str = "HERMES_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let ended = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&ended.stdout);
    assert!(printed.contains("1 passed"), "{printed}");
    false
}

/// Waits until a server's script has created `file`.
async fn created(file: &Path) {
    assert!(within(TIMEOUT, || file.exists()).await);
}
