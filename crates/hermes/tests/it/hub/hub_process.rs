//! A Hub in the background, with the runtime that runs no agents, and commands that ask it.

use std::{fs, path::PathBuf, process::Command};

use serde_json::Value;

use crate::harness::{
    program::{CommandOutput, run},
    test_home::{BackgroundProcess, TestHome, wait_until},
};

pub(super) struct HubProcess {
    pub(super) home: TestHome,
    pub(super) process: BackgroundProcess,
    pub(super) url: String,
}

impl HubProcess {
    pub(super) fn new() -> Self {
        let home = TestHome::fresh();
        fs::create_dir(home.path()).unwrap();
        Self::in_home(home)
    }

    pub(super) fn in_home(home: TestHome) -> Self {
        Self::with_settings(home, &[])
    }

    /// With more settings, each as `key=value`.
    pub(super) fn with_settings(home: TestHome, settings: &[&str]) -> Self {
        let mut arguments = vec!["hub", "serve", "--set", "runtime=mock"];
        arguments.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        let mut process = home.start(&arguments);
        let line = process.wait_for("listens on http://");
        let url = line.split_whitespace().last().unwrap().to_owned();
        process.wait_for("Isolation:");
        Self { home, process, url }
    }

    pub(super) fn data(&self) -> PathBuf {
        self.home.beside(".local/share/hermes-hub")
    }

    /// The token that was made at the first start.
    pub(super) fn token(&self) -> String {
        let token = fs::read_to_string(self.data().join("admin.token"));
        token.unwrap().trim().to_owned()
    }

    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command
            .env("HERMES_HUB_URL", &self.url)
            .env("NO_COLOR", "1");
        command
    }

    pub(super) fn run(&self, args: &[&str]) -> CommandOutput {
        self.run_with_input(args, "")
    }

    pub(super) fn run_with_input(&self, args: &[&str], input: &str) -> CommandOutput {
        let mut command = self.command(args);
        command.stdin(std::process::Stdio::piped());
        run(command, input)
    }

    /// The answer of a command that worked.
    #[track_caller]
    pub(super) fn json(&self, args: &[&str]) -> Value {
        self.run(&[args, &["--json"]].concat()).ok().json()
    }

    /// With the tenant, group, skill, files and job that the examples of the documented contract speak of.
    pub(super) fn with_examples(settings: &[&str]) -> Self {
        let home = TestHome::fresh();
        fs::create_dir(home.path()).unwrap();
        let hub = Self::with_settings(home, settings);
        hub.run(&["group", "create", "division1"]).ok();
        let member = "division1:write";
        hub.run(&["tenant", "create", "tenant_123", "--group", member])
            .ok();
        let tenant = hub.data().join("tenants/tenant_123/home");
        crate::harness::test_home::wait_until("the home is made", || {
            hub.json(&["tenant", "get", "tenant_123"])["status"] == "ready"
        });
        let skill = tenant.join("skills/content/writer");
        fs::create_dir_all(&skill).unwrap();
        let text = "---\nname: writer\ndescription: Writes.\n---\nWrite.\n";
        fs::write(skill.join("SKILL.md"), text).unwrap();
        fs::write(tenant.join("SOUL.md"), "I am Acme's.\n").unwrap();
        for (path, text) in [
            ("notes/report.md", "an invoice\na Receipt\n"),
            ("draft.md", "draft\n"),
            ("archive/old.md", "old\n"),
        ] {
            let write = [
                "share",
                "write",
                "division1",
                path,
                "--tenant",
                "tenant_123",
            ];
            hub.run_with_input(&write, text).ok();
        }
        let job = [
            "tenant",
            "cron",
            "create",
            "tenant_123",
            "0 9 * * *",
            "Sum up",
        ];
        hub.run(&[&job[..], &["--id", "job_123"]].concat()).ok();
        hub
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
