//! Runs the real program in a home of its own, and finds programs that others wrote, which `scripts/equipment` installs.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use hermes_testkit::{Behaviour, TemporaryHome, Tool, binary};
use serde_json::{Value, json};

/// A home and the program to run in it.
pub(crate) struct Hermes {
    pub(crate) home: TemporaryHome,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Hermes {
    pub(crate) fn new() -> Self {
        let home = TemporaryHome::new();
        fs::create_dir(home.path().join("user")).unwrap();
        Self { home }
    }

    pub(crate) fn with_config(yaml: &str) -> Self {
        let hermes = Self::new();
        hermes.home.write_config(yaml);
        hermes
    }

    /// The command, with an environment in which nothing of the machine shows.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hermes"));
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            // A Hub that `hermes up` runs takes a port that is free.
            .env("HERMES_HUB_LISTEN", "127.0.0.1:0")
            .env("HERMES_HUB_METRICS__LISTEN", "off")
            .env("OSV_ENDPOINT", "off")
            .env("HERMES_HOME", self.home.path())
            .env("HOME", self.user())
            .env("TERM", "xterm")
            .env("TZ", "UTC")
            .env("NO_COLOR", "1")
            .current_dir(self.user());
        command
    }

    /// Runs it without a terminal and with nothing on stdin.
    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        self.run_with_input(args, "")
    }

    pub(crate) fn run_with_input(&self, args: &[&str], input: &str) -> CommandOutput {
        run(self.command(args), input)
    }

    /// The user's own directory, where other programs keep their files.
    pub(crate) fn user(&self) -> PathBuf {
        self.home.path().join("user")
    }

    pub(crate) fn config(&self) -> String {
        self.read("config.yaml")
    }

    pub(crate) fn env(&self) -> String {
        self.read(".env")
    }

    /// A file of the home; an absent one is empty.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.home.path().join(name)).unwrap_or_default()
    }

    /// The configuration as the program understands it.
    pub(crate) fn entry(&self, name: &str) -> Value {
        let home = hermes_config::Home::at(self.home.path());
        let settings = hermes_config::Settings::load(&home).unwrap();
        let entry = settings.server(name);
        entry.map_or(Value::Null, |entry| entry.template.clone())
    }
}

pub(crate) fn run(mut command: Command, input: &str) -> CommandOutput {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that reads nothing may be gone by now.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl CommandOutput {
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        self.exits_with(0)
    }

    #[track_caller]
    pub(crate) fn exits_with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// The one object on stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let json = serde_json::from_str(&self.stdout);
        json.unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Ends with a code and says the same in `--json` output.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, word: &str) -> Self {
        let ran = self.exits_with(code);
        let json = ran.json();
        assert_eq!(json["ok"], false, "{json}");
        assert_eq!(json["error"]["code"], word, "{json}");
        ran
    }

    /// A call whose `--json` output says that somebody has to log in, as a model is told it.
    #[track_caller]
    pub(crate) fn wants_login(self) -> Self {
        let ran = self.exits_with(4);
        let json = ran.json();
        assert_eq!(json["ok"], false, "{json}");
        assert!(json["error"].is_string(), "{json}");
        assert_eq!(json["needs_reauth"], true, "{json}");
        ran
    }

    /// None of the texts is anywhere in the output.
    #[track_caller]
    pub(crate) fn hides(self, secrets: &[&str]) -> Self {
        for secret in secrets {
            let is_shown = self.stdout.contains(secret) || self.stderr.contains(secret);
            assert!(!is_shown, "{self:#?}");
        }
        self
    }
}

/// A local server with these tools: its program and the one argument that describes it.
pub(crate) fn local(behaviour: &Behaviour) -> (String, String) {
    let (command, mut args) = behaviour.stdio_command(&binary("testkit-stdio"));
    (command, args.remove(0))
}

/// A server whose tools have these names and a description each.
pub(crate) fn with_tools(names: &[&str]) -> Behaviour {
    Behaviour::new().tools(names.iter().map(|name| {
        Tool::defined(json!({
            "name": name,
            "description": format!("Does {name}"),
            "inputSchema": {"type": "object", "properties": {"x": {"type": ["string", "null"]}}},
        }))
    }))
}

/// The entry of a local server, in the form that stands in `config.yaml`.
pub(crate) fn entry(behaviour: &Behaviour) -> Value {
    let (command, argument) = local(behaviour);
    json!({"command": command, "args": [argument]})
}

#[cfg(unix)]
#[track_caller]
pub(crate) fn assert_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "{}", path.display());
}

/// A program in the place that a variable names, or without one that place itself; `None` when these tests are to be
/// skipped.
///
/// # Panics
///
/// If the variable is missing: a test that silently does nothing is worse than one that fails.
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
pub(crate) fn installed(variable: &str, program: &str) -> Option<PathBuf> {
    if std::env::var_os("HERMES_TEST_SKIP_REAL").is_some_and(|value| value == "1") {
        println!("SKIPPED: HERMES_TEST_SKIP_REAL is set, so nothing is tested with {program}");
        return None;
    }
    let Some(place) = std::env::var_os(variable) else {
        panic!(
            "{variable} is not set: `./test` installs what is needed and sets it; for a single test run \
             `scripts/equipment install` and `eval \"$(scripts/equipment env)\"`, or set HERMES_TEST_SKIP_REAL=1"
        );
    };
    let mut path = PathBuf::from(place);
    if !program.is_empty() {
        path.push(program);
    }
    assert!(path.exists(), "{} is missing", path.display());
    Some(path)
}
