//! One node: `hermes hub serve` as a process, with a proxy between it and the database, and one between it and the
//! objects.

#![allow(
    clippy::expect_used,
    reason = "a test without its equipment ends here, and says which part of it"
)]

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{ChaosProxy, descendants};

/// How a node is started.
#[derive(Debug, Clone)]
pub(super) struct NodeSetup {
    pub(super) program: PathBuf,
    pub(super) id: String,
    /// Its own directory.
    pub(super) directory: PathBuf,
    /// `name=value`.
    pub(super) settings: Vec<String>,
    /// What its processes find in their environment.
    pub(super) variables: Vec<(String, String)>,
}

impl NodeSetup {
    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }
}

fn node_command(setup: &NodeSetup) -> Command {
    let directory: &Path = &setup.directory;
    let mut command = Command::new(&setup.program);
    command
        .args(["hub", "serve", "--json", "--listen", "127.0.0.1:0"])
        .arg("--data-dir")
        .arg(setup.data())
        .env_clear()
        .env("HOME", directory)
        .env("HERMES_HOME", directory.join("home"))
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("OSV_ENDPOINT", "off")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test");
    for setting in &setup.settings {
        command.args(["--set", setting]);
    }
    command.envs(setup.variables.iter().cloned());
    command
}

pub struct HubNode {
    setup: NodeSetup,
    /// Between this node and the database.
    pub database: ChaosProxy,
    /// Between this node and object storage.
    pub objects: ChaosProxy,
    process: Option<Child>,
    port: u16,
    starts: u32,
}

impl HubNode {
    pub(super) fn start(setup: NodeSetup, database: ChaosProxy, objects: ChaosProxy) -> Self {
        let mut node = Self {
            setup,
            database,
            objects,
            process: None,
            port: 0,
            starts: 0,
        };
        node.start_process();
        node
    }

    pub fn id(&self) -> &str {
        &self.setup.id
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The files of its tenants' locks, which are held while a process of a tenant is there.
    pub(super) fn data(&self) -> PathBuf {
        self.setup.data()
    }

    /// What its processes have said, all starts together.
    pub fn log(&self) -> String {
        let mut text = String::new();
        for start in 1..=self.starts {
            text += &fs::read_to_string(self.stderr_file(start)).unwrap_or_default();
        }
        text + &fs::read_to_string(self.data().join("logs/hub.log")).unwrap_or_default()
    }

    fn stderr_file(&self, start: u32) -> PathBuf {
        self.setup.directory.join(format!("stderr-{start}"))
    }

    /// Starts it again.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start_process(&mut self) {
        self.starts += 1;
        let stderr = File::create(self.stderr_file(self.starts)).expect("a file for stderr");
        let mut process = node_command(&self.setup)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("`hermes hub serve`");
        let stdout = process.stdout.take().expect("stdout");
        self.process = Some(process);
        let mut lines = BufReader::new(stdout);
        let mut text = String::new();
        // One document, over several lines or on one.
        let said: Value = loop {
            let length = lines.read_line(&mut text).unwrap_or_default();
            assert!(
                length > 0,
                "the node {} does not start: {text}{}",
                self.id(),
                self.log()
            );
            if let Ok(said) = serde_json::from_str(&text) {
                break said;
            }
        };
        let url = said["url"].as_str().unwrap_or_default();
        let port = url.rsplit(':').next().and_then(|port| port.parse().ok());
        self.port = port.unwrap_or_else(|| panic!("no port in {said}"));
    }

    /// Has the next process believe that it is so much later, by the library of faketime.
    pub fn set_clock_ahead(&mut self, library: &Path, days: u32) {
        let variables = [
            ("LD_PRELOAD", library.display().to_string()),
            ("FAKETIME", format!("+{days}d")),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        self.setup.variables = variables.to_vec();
    }

    /// Starts another process with the same settings and another directory, which must not work. Returns what it says.
    ///
    /// # Panics
    ///
    /// If it starts.
    pub fn start_twin(&self) -> String {
        let mut setup = self.setup.clone();
        setup.directory = setup.directory.join("twin");
        fs::create_dir_all(setup.directory.join("home")).expect("a directory");
        let output = node_command(&setup).output().expect("`hermes hub serve`");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(!output.status.success(), "a second node works: {said}");
        said
    }

    fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Ends it as a machine that fails.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Asks it to stop, and waits until it has.
    ///
    /// # Panics
    ///
    /// If it does not stop as it should.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            signal(process.id(), Signal::TERM);
            let status = process.wait().expect("a child");
            assert!(
                status.success(),
                "{} ended with {status}: {}",
                self.id(),
                self.log()
            );
        }
    }

    /// Has it and all processes below it stand still, as a machine that is suspended.
    pub fn pause(&self) {
        let Some(pid) = self.pid() else { return };
        signal(pid, Signal::STOP);
        for below in descendants(pid) {
            signal(below, Signal::STOP);
        }
    }

    /// Lets them go on.
    pub fn resume(&self) {
        let Some(pid) = self.pid() else { return };
        for below in descendants(pid) {
            signal(below, Signal::CONT);
        }
        signal(pid, Signal::CONT);
    }
}

impl Drop for HubNode {
    fn drop(&mut self) {
        self.resume();
        self.kill();
    }
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ = kill_process(pid, signal);
    }
}
