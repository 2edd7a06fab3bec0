//! The program while it runs: in the background, with servers, watched from outside.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::program::{CommandOutput, run};

/// Timeout of anything that should happen, on a loaded machine.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// A home in a temporary directory, and place beside it.
pub(crate) struct TestHome {
    directory: TempDir,
}

impl CommandOutput {
    /// One of the servers that `--json` printed.
    #[track_caller]
    pub(crate) fn server(&self, name: &str) -> Value {
        let json = self.json();
        let servers = json["servers"].as_array().into_iter().flatten();
        let mut named = servers.filter(|server| server["name"] == name);
        named
            .next()
            .unwrap_or_else(|| panic!("no server {name}: {json}"))
            .clone()
    }
}

impl TestHome {
    /// A home that does not exist yet.
    pub(crate) fn fresh() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory }
    }

    /// A home with these servers, in order.
    pub(crate) fn with_servers(servers: &[(&str, Value)]) -> Self {
        let home = Self::fresh();
        fs::create_dir(home.path()).unwrap();
        home.write_servers(servers);
        home
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// A path beside the home.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path().join("config.yaml")
    }

    pub(crate) fn write_servers(&self, servers: &[(&str, Value)]) {
        let map: serde_json::Map<String, Value> = servers
            .iter()
            .map(|(name, entry)| ((*name).to_owned(), entry.clone()))
            .collect();
        self.write_config(&json!({ "mcp_servers": map }).to_string());
    }

    /// Writes as editors do: a new file takes the place of the old one.
    pub(crate) fn write_config(&self, text: &str) {
        let new = self.path().join("config.yaml.new");
        fs::write(&new, text).unwrap();
        set_mode(&new, 0o600);
        fs::rename(&new, self.config()).unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hermes"));
        command
            .args(arguments)
            .env_clear()
            // A Hub that `hermes up` runs takes a port that is free.
            .env("HERMES_HUB_LISTEN", "127.0.0.1:0")
            .env("HERMES_HUB_METRICS__LISTEN", "off")
            .env("OSV_ENDPOINT", "off")
            .env("HERMES_HOME", self.path())
            .env("HOME", self.directory.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TERM", "xterm-256color")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        run(self.command(arguments), "")
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> BackgroundProcess {
        BackgroundProcess::start(self.command(arguments))
    }

    /// Starts `hermes up` and waits for these states.
    pub(crate) fn up(&self, states: &[&str]) -> BackgroundProcess {
        let mut up = self.start(&["up"]);
        for state in states {
            if !up.seen.iter().any(|line| line.contains(state)) {
                up.wait_for(state);
            }
        }
        up
    }
}

/// A process that runs on; killed when dropped.
pub(crate) struct BackgroundProcess {
    child: Child,
    lines: Receiver<String>,
    pub(crate) seen: Vec<String>,
}

impl BackgroundProcess {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let streams: [Box<dyn std::io::Read + Send>; 2] = [
            Box::new(child.stdout.take().unwrap()),
            Box::new(child.stderr.take().unwrap()),
        ];
        for stream in streams {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        Self {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line with this text, on either stream.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no line with {text:?}, only {:#?}", self.seen);
            };
            self.seen.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Waits for a line with each of these texts, in whatever order they come: the two streams are not in step.
    pub(crate) fn wait_for_each(&mut self, texts: &[&str]) {
        let mut missing = texts.to_vec();
        while !missing.is_empty() {
            let Ok(line) = self.lines.recv_timeout(TIMEOUT) else {
                panic!("no line with {missing:?}, only {:#?}", self.seen);
            };
            missing.retain(|text| !line.contains(text));
            self.seen.push(line);
        }
    }

    /// What is printed during this time.
    pub(crate) fn lines_within(&mut self, time: Duration) -> Vec<String> {
        let deadline = Instant::now() + time;
        let mut lines = Vec::new();
        while let Ok(line) = self
            .lines
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            lines.push(line);
        }
        lines
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        signal_process(self.pid(), signal);
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The exit code, `None` after a deadly signal.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let status = hermes_testkit::wait_for(TIMEOUT, || self.child.try_wait().unwrap());
        match status {
            Some(status) => status.code(),
            None => panic!("it does not end; it said {:#?}", self.seen),
        }
    }
}

impl Drop for BackgroundProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn signal_process(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Stops a process where it is: the signal takes a moment to reach all of its threads.
pub(crate) fn stop_process(pid: u32) {
    signal_process(pid, rustix::process::Signal::STOP);
    wait_until("all threads stand still", || {
        // Somebody who noticed may have ended it already.
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
            return true;
        };
        threads.flatten().all(|thread| {
            let state = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // Behind the name, which may hold anything.
            state.rsplit(')').next().unwrap().trim().starts_with('T')
        })
    });
}

/// Whether a process runs; one that only waits to be collected does not.
pub(crate) fn is_running(pid: u32) -> bool {
    let output = Command::new("ps")
        .args(["-o", "stat=", "-p", &pid.to_string()])
        .output()
        .unwrap();
    let state = String::from_utf8_lossy(&output.stdout);
    !state.trim().is_empty() && !state.trim().starts_with('Z')
}

/// The pids in a file that a testkit server writes at its start.
pub(crate) fn read_pids(file: &Path) -> Vec<u32> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Waits until none of them runs.
pub(crate) fn assert_gone(pids: &[u32], limit: Duration) {
    assert!(!pids.is_empty());
    let gone = hermes_testkit::wait_until(limit, || !pids.iter().any(|pid| is_running(*pid)));
    assert!(gone, "some of {pids:?} still run");
}

pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let held = hermes_testkit::wait_until(TIMEOUT, &mut holds);
    assert!(held, "it never came: {what}");
}

/// What takes so long at most on a machine that does nothing else. Others may keep this one busy, so it is tried until it
/// was once as quick.
#[track_caller]
pub(crate) fn assert_once_within(limit: Duration, mut attempt: impl FnMut() -> Duration) {
    let mut took = Vec::new();
    while took.len() < 12 {
        took.push(attempt());
        if took.last().is_some_and(|last| *last < limit) {
            return;
        }
    }
    panic!("never within {limit:?}: {took:?}");
}

pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
