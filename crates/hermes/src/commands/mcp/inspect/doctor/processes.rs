//! Whether the programs of local servers are there, and whether an ended process left something behind.

use std::{io::ErrorKind, os::unix::net::UnixStream, path::Path};

use hermes_config::{
    Home, ReferencePolicy, Server, ServerName, Settings, StdioSettings, TransportSettings,
};
use hermes_mcp::process::{
    environment,
    environment::Environment,
    records::{self, ProcessState},
};

use super::{Check, CheckLevel};
use crate::commands::state::pluralize;

const PROCESS: &str = "process";
const SOCKET: &str = "socket";

pub(super) fn check(home: &Home) -> Vec<Check> {
    let run_dir = home.run_dir();
    let mut checks = Vec::new();
    let processes = records::list_processes(&run_dir);
    for orphan in processes
        .iter()
        .filter(|process| process.state == ProcessState::Orphaned)
    {
        let message = format!(
            "process {} still runs although hermes process {} is gone",
            orphan.pid, orphan.host_pid
        );
        checks.push(
            Check::warn(PROCESS, message)
                .about(&orphan.server)
                .fix(format!("run `hermes mcp ps --kill {}`", orphan.server)),
        );
    }
    if checks.is_empty() {
        let message = match processes.len() {
            0 => "no local server runs".to_owned(),
            number => format!(
                "{} running, none orphaned",
                pluralize(number, "local server")
            ),
        };
        checks.push(Check::ok(PROCESS, message));
    }
    for path in std::fs::read_dir(&run_dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
    {
        let is_socket = path
            .extension()
            .is_some_and(|extension| extension == "sock");
        if is_socket && is_dead(&path) {
            checks.push(
                Check::warn(
                    SOCKET,
                    format!("no process answers at `{}`", path.display()),
                )
                .fix("`hermes mcp status` removes it"),
            );
        }
    }
    checks
}

fn is_dead(path: &Path) -> bool {
    let target = std::fs::read_link(path).unwrap_or_else(|_| path.to_owned());
    UnixStream::connect(target).is_err_and(|error| {
        matches!(
            error.kind(),
            ErrorKind::ConnectionRefused | ErrorKind::NotFound
        )
    })
}

const PROGRAM: &str = "program";
const DIRECTORY: &str = "cwd";

/// Programs that are nothing without another one.
const NEEDS: [(&str, &str); 3] = [("npx", "node"), ("npm", "node"), ("uvx", "uv")];

pub(super) fn check_programs(home: &Home, settings: &Settings) -> Vec<Check> {
    let enabled = settings
        .servers
        .iter()
        .filter_map(|entry| entry.server.as_ref().ok())
        .filter(|server| server.enabled);
    enabled
        .filter_map(|server| Some((server, stdio(home, settings, server)?)))
        .flat_map(|(server, stdio)| check_server(home, &server.name, &stdio))
        .collect()
}

/// How a local server is started; `None` for remote ones and where a reference fails, which is told elsewhere.
fn stdio(home: &Home, settings: &Settings, server: &Server) -> Option<StdioSettings> {
    let resolved = server.resolve(home, &settings.variables, ReferencePolicy::owner());
    match resolved.ok()?.transport {
        TransportSettings::Stdio(stdio) => Some(stdio),
        TransportSettings::Http(_) | TransportSettings::Sse(_) => None,
    }
}

fn check_server(home: &Home, name: &ServerName, stdio: &StdioSettings) -> Vec<Check> {
    let environment = environment::build_environment(std::env::vars_os(), &stdio.env);
    let mut checks = vec![check_program(home, &stdio.command, &environment).about(name)];
    let needed = NEEDS
        .iter()
        .find(|(program, _)| *program == stdio.command.trim())
        .filter(|_| checks[0].level == CheckLevel::Ok);
    if let Some((program, needed)) = needed {
        let lookup = environment::find_program(needed, &environment, home.path());
        checks.extend(lookup.err().map(|error| {
            Check::fail(PROGRAM, format!("`{program}` needs `{needed}`: {error}"))
                .split_advice()
                .about(name)
        }));
    }
    if let Some(cwd) = &stdio.cwd {
        let directory = environment::expand_home(cwd, &environment);
        if !directory.is_dir() {
            let message = format!("`cwd` is not a directory: `{}`", directory.display());
            checks.push(Check::fail(DIRECTORY, message).about(name));
        }
    }
    checks
}

fn check_program(home: &Home, command: &str, environment: &Environment) -> Check {
    match environment::find_program(command, environment, home.path()) {
        Err(error) => Check::fail(PROGRAM, error.to_string()).split_advice(),
        Ok(path) if path.is_file() || !path.is_absolute() => {
            Check::ok(PROGRAM, format!("`{}`", path.display()))
        }
        Ok(path) => Check::fail(PROGRAM, format!("`{}` does not exist", path.display()))
            .fix("install it, or correct `command`"),
    }
}
