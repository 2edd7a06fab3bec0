//! A Hub in the background, with the runtime that runs no agents, and commands that ask it.

use std::{fs, path::PathBuf, process::Command};

use serde_json::Value;

use crate::{
    program::{Ran, run},
    running::{Background, TestHome, wait_until},
};

pub(super) struct Served {
    pub(super) home: TestHome,
    pub(super) process: Background,
    pub(super) url: String,
}

impl Served {
    pub(super) fn new() -> Self {
        let home = TestHome::fresh();
        fs::create_dir(home.path()).unwrap();
        Self::in_home(home)
    }

    pub(super) fn in_home(home: TestHome) -> Self {
        let mut process = home.start(&["hub", "serve", "--set", "runtime=mock"]);
        let line = process.wait_for("listens on http://");
        let url = line.split_whitespace().last().unwrap().to_owned();
        process.wait_for("Isolation:");
        Self { home, process, url }
    }

    pub(super) fn data(&self) -> PathBuf {
        self.home.beside(".local/share/hermes-hub")
    }

    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command
            .env("HERMES_HUB_URL", &self.url)
            .env("NO_COLOR", "1");
        command
    }

    pub(super) fn run(&self, args: &[&str]) -> Ran {
        self.run_with_input(args, "")
    }

    pub(super) fn run_with_input(&self, args: &[&str], input: &str) -> Ran {
        let mut command = self.command(args);
        command.stdin(std::process::Stdio::piped());
        run(command, input)
    }

    /// The answer of a command that worked.
    #[track_caller]
    pub(super) fn json(&self, args: &[&str]) -> Value {
        self.run(&[args, &["--json"]].concat()).ok().json()
    }

    /// Makes the group `team` and its member `acme`.
    pub(super) fn with_acme() -> Self {
        let hub = Self::new();
        hub.run(&["group", "create", "team"]).ok();
        hub.run(&[
            "tenant",
            "create",
            "acme",
            "--name",
            "Acme",
            "--group",
            "team:write",
        ])
        .ok();
        // Its home is made in the background.
        wait_until("the tenant is ready", || {
            hub.json(&["tenant", "get", "acme"])["status"] == "ready"
        });
        hub
    }
}
