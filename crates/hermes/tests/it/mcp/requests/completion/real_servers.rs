//! Completion in the shells that people use.

use std::{path::PathBuf, process::Command};

use super::home;
use crate::harness::{program::run, terminal::Terminal, test_home::TestHome};

/// A shell of the system; `None` when these tests are to be skipped.
fn shell(name: &str) -> Option<PathBuf> {
    if std::env::var_os("HERMES_TEST_SKIP_REAL").is_some_and(|value| value == "1") {
        return None;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|place| place.join(name))
        .find(|path| path.is_file());
    assert!(
        found.is_some(),
        "`{name}` is not installed: `scripts/equipment install packages` does it"
    );
    found
}

/// The shell with `hermes` on its path.
fn command(home: &TestHome, shell: PathBuf, arguments: &[&str]) -> Command {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_hermes"));
    let mut path = vec![program.parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    let mut command = Command::new(shell);
    let hermes = home.command(&[]);
    for (name, value) in hermes.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command
        .args(arguments)
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("TERM", "dumb")
        .env("PS1", "$ ");
    command
}

#[test]
fn bash_completes_servers_and_tools() {
    let Some(bash) = shell("bash") else { return };
    let home = home();
    let mut terminal = Terminal::start(command(&home, bash, &["--norc", "--noprofile", "-i"]));
    terminal
        .send("source <(hermes completions bash); echo read''y\n")
        .wait_for("ready");
    terminal.send("echo hermes mcp call github.cr; hermes mcp call github.cr\t");
    terminal.wait_for("hermes mcp call github.create_issue");
    // The terminal drops what is typed before the shell has taken the interrupt.
    terminal.send("\u{3}").wait_for("$ ");
    terminal
        .send("hermes mcp test git\t\t")
        .wait_for("github")
        .wait_for("gitlab");
    terminal.send("\u{3}exit\n");
}

#[test]
fn zsh_completes_servers_and_tools() {
    let Some(zsh) = shell("zsh") else { return };
    let home = home();
    let mut terminal = Terminal::start(command(&home, zsh, &["-f", "-i"]));
    terminal.send(
        "autoload -U compinit; compinit -u -D; source <(hermes completions zsh); echo read''y\n",
    );
    terminal.wait_for("ready");
    terminal
        .send("hermes mcp call github.cr\t")
        .wait_for("github.create_issue");
    // The terminal drops what is typed before the shell has taken the interrupt.
    terminal.send("\u{3}").wait_for("$ ");
    terminal
        .send("hermes mcp test git\t\t")
        .wait_for("gitlab")
        .wait_for("github");
    terminal.send("\u{3}exit\n");
}

#[test]
fn fish_completes_servers_and_tools() {
    let Some(fish) = shell("fish") else { return };
    let home = home();
    let script = "hermes completions fish | source; complete -C 'hermes mcp call github.'; complete -C 'hermes mcp test git'";
    let ran = run(command(&home, fish, &["--no-config", "-c", script]), "").ok();
    for wanted in [
        "github.create_issue",
        "github.list_issues",
        "github",
        "gitlab",
    ] {
        let mut words = ran
            .stdout
            .lines()
            .filter_map(|line| line.split('\t').next());
        assert!(words.any(|word| word == wanted), "{wanted}: {ran:?}");
    }
}
