//! Programs that fetch a server before they run it.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use hermes_config::StdioSettings;

use crate::{packages::osv::Package, process};

/// Those that start the server as a child of theirs once it is fetched.
const PARENT_RUNNERS: [&str; 7] = ["npx", "npm", "pnpm", "pnpx", "yarn", "uvx", "uv"];
/// Those that become the server, or have it run by somebody else.
const OTHER_RUNNERS: [&str; 4] = ["bunx", "pipx", "docker", "podman"];

/// The package runner that a server's command is, if it is one.
fn runner(command: &str) -> Option<&str> {
    let program = Path::new(command.trim()).file_stem()?.to_str()?;
    (PARENT_RUNNERS.contains(&program) || OTHER_RUNNERS.contains(&program)).then_some(program)
}

/// Whether a server's command is a package runner.
pub(crate) fn is_package_runner(command: &str) -> bool {
    runner(command).is_some()
}

/// What a server that is fetched before it runs is fetched by, and which package it is, in words for people.
pub(crate) fn describe_fetch(settings: &StdioSettings) -> Option<String> {
    let runner = runner(&settings.command)?;
    Some(match Package::from_command(settings) {
        Some(package) => format!("`{runner}` to fetch `{}`", package.name),
        None => format!("`{runner}` to fetch it"),
    })
}

/// Whether a package runner may still be fetching its server.
#[derive(Default)]
pub(crate) struct PackageFetch {
    /// It was fetched once, so that it should be there.
    was_fetched: AtomicBool,
    is_runner: AtomicBool,
    /// The runner, if its server becomes its child; 0 if there is none.
    parent: AtomicU32,
}

impl PackageFetch {
    /// The server was connected before.
    pub(crate) fn mark_fetched(&self) {
        self.was_fetched.store(true, Ordering::Relaxed);
    }

    /// A process was started.
    pub(crate) fn record_start(&self, command: &str, pid: u32) {
        let Some(runner) = runner(command) else {
            return;
        };
        self.is_runner.store(true, Ordering::Relaxed);
        if PARENT_RUNNERS.contains(&runner) {
            self.parent.store(pid, Ordering::Relaxed);
        }
    }

    /// Whether it is worth waiting longer than usual.
    pub(crate) fn is_in_progress(&self) -> bool {
        if !self.is_runner.load(Ordering::Relaxed) {
            return false;
        }
        let parent = self.parent.load(Ordering::Relaxed);
        !self.was_fetched.load(Ordering::Relaxed) || parent != 0 && !process::has_children(parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_runner_is_known_by_its_name() {
        for command in ["npx", "/usr/bin/uvx", "docker", " npx.cmd "] {
            assert!(is_package_runner(command), "{command}");
        }
        for command in ["node", "python3", "npxx", ""] {
            assert!(!is_package_runner(command), "{command}");
        }
    }

    #[test]
    fn what_is_fetched_is_told_where_it_is_known() {
        let settings = |command: &str, args: &[&str]| StdioSettings {
            command: command.into(),
            args: args.iter().map(ToString::to_string).collect(),
            ..StdioSettings::default()
        };
        let told = describe_fetch(&settings("npx", &["-y", "@scope/server@1"]));
        assert_eq!(told.unwrap(), "`npx` to fetch `@scope/server`");
        let told = describe_fetch(&settings("docker", &["run", "-i", "image"]));
        assert_eq!(told.unwrap(), "`docker` to fetch it");
        assert_eq!(describe_fetch(&settings("node", &["server.js"])), None);
    }

    #[test]
    fn a_runner_that_was_used_before_is_waited_for_only_while_it_runs_nothing() {
        let fetch = PackageFetch::default();
        assert!(!fetch.is_in_progress(), "nothing was started");
        fetch.record_start("node", std::process::id());
        assert!(!fetch.is_in_progress(), "a server is not fetched by itself");
        fetch.record_start("npx", u32::MAX);
        assert!(fetch.is_in_progress());
        fetch.mark_fetched();
        assert!(fetch.is_in_progress(), "it has no child yet");
        fetch.record_start("npx", std::process::id());
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let has_begun = !fetch.is_in_progress();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(has_begun || !cfg!(target_os = "linux"));
    }
}
