//! Package runners, which fetch a server before they run it: which package, by the arguments, and whether it is still
//! being fetched.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use hermes_config::StdioSettings;

use crate::process;

/// Those that start the server as a child of theirs once it is fetched.
const PARENT_RUNNERS: [&str; 7] = ["npx", "npm", "pnpm", "pnpx", "yarn", "uvx", "uv"];
/// Those that become the server, or have it run by somebody else.
const OTHER_RUNNERS: [&str; 4] = ["bunx", "pipx", "docker", "podman"];

/// A package of a public registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// As the database calls the registry.
    pub(crate) ecosystem: &'static str,
    pub(crate) name: String,
    /// Where one is named exactly.
    pub(crate) version: Option<String>,
}

/// Options of `uvx` and `pipx` that take the next word with them.
const PYTHON_OPTIONS: [&str; 13] = [
    "-p",
    "--python",
    "--with",
    "-w",
    "--with-editable",
    "--with-requirements",
    "--index",
    "--default-index",
    "-i",
    "--index-url",
    "--extra-index-url",
    "--find-links",
    "--pip-args",
];
/// The same of `npx`.
const NODE_OPTIONS: [&str; 5] = ["--registry", "--cache", "--userconfig", "-w", "--workspace"];

impl Package {
    /// The package that a local server is fetched from; `None` where it is not fetched, or not from a registry.
    pub(crate) fn from_command(stdio: &StdioSettings) -> Option<Self> {
        let runner = Path::new(stdio.command.trim()).file_name()?.to_str()?;
        let runner = runner.to_lowercase();
        let runner = runner
            .strip_suffix(".cmd")
            .or_else(|| runner.strip_suffix(".exe"))
            .unwrap_or(&runner);
        let mut arguments = stdio.args.as_slice();
        match runner {
            "npx" => parse_npm(package_argument(
                arguments,
                &["--package", "-p"],
                &NODE_OPTIONS,
            )?),
            "uvx" => parse_pypi(package_argument(arguments, &["--from"], &PYTHON_OPTIONS)?),
            "pipx" => {
                if arguments.first()? == "run" {
                    arguments = &arguments[1..];
                }
                parse_pypi(package_argument(arguments, &["--spec"], &PYTHON_OPTIONS)?)
            }
            _ => None,
        }
    }
}

/// What an option names, or else the first word that is not an option.
fn package_argument<'a>(
    arguments: &'a [String],
    named_by: &[&str],
    with_value: &[&str],
) -> Option<&'a str> {
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        if named_by.contains(&argument) {
            return arguments.next();
        }
        if let Some((option, value)) = argument.split_once('=')
            && named_by.contains(&option)
        {
            return Some(value);
        }
        if with_value.contains(&argument) {
            arguments.next();
        } else if !argument.starts_with('-') {
            return Some(argument);
        }
    }
    None
}

/// `name`, `name@1.2.3`, `@scope/name@1.2.3`.
fn parse_npm(text: &str) -> Option<Package> {
    let (scope, rest) = match text.strip_prefix('@') {
        Some(rest) => {
            let (scope, rest) = rest.split_once('/')?;
            (Some(scope), rest)
        }
        None => (None, text),
    };
    let (name, version) = match rest.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (rest, None),
    };
    // Paths, addresses and repositories have more in them than a name.
    let is_plain = |text: &str| !text.is_empty() && !text.contains(['/', ':', '\\', ' ', '#']);
    if !is_plain(name) || name.starts_with('.') || !scope.is_none_or(is_plain) {
        return None;
    }
    let name = match scope {
        Some(scope) => format!("@{scope}/{name}"),
        None => name.to_owned(),
    };
    Some(Package {
        ecosystem: "npm",
        name,
        version: version.and_then(exact_version),
    })
}

/// `name`, `name==1.2.3`, `name[extra]==1.2.3`, `name@1.2.3`.
fn parse_pypi(text: &str) -> Option<Package> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let end = text.find(|letter| !is_of_name(letter));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    if name.is_empty() || name.starts_with('.') {
        return None;
    }
    let rest = match rest.strip_prefix('[') {
        Some(extras) => extras.split_once(']')?.1,
        None => rest,
    };
    let rest = rest.trim_start();
    if rest.starts_with([':', '+', '/', '\\']) || rest.contains("://") {
        return None;
    }
    let version = rest.strip_prefix("==").or_else(|| rest.strip_prefix('@'));
    Some(Package {
        ecosystem: "PyPI",
        name: name.to_owned(),
        version: version.and_then(exact_version),
    })
}

/// A version, unless it is a word such as `latest` or a range.
fn exact_version(version: &str) -> Option<String> {
    let version = version.trim();
    let is_exact = version.starts_with(|letter: char| letter.is_ascii_digit())
        && !version.contains([' ', ',', '*', '|', 'x', '<', '>']);
    is_exact.then(|| version.to_owned())
}

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

    fn package(command: &str, args: &[&str]) -> Option<(&'static str, String, Option<String>)> {
        let stdio = StdioSettings {
            command: command.into(),
            args: args.iter().map(ToString::to_string).collect(),
            ..StdioSettings::default()
        };
        let package = Package::from_command(&stdio)?;
        Some((package.ecosystem, package.name, package.version))
    }

    #[track_caller]
    fn is(command: &str, args: &[&str], ecosystem: &str, name: &str, version: Option<&str>) {
        let expected = (ecosystem, name.to_owned(), version.map(str::to_owned));
        assert_eq!(package(command, args), Some(expected), "{args:?}");
    }

    #[test]
    fn packages_of_npx() {
        is("npx", &["-y", "server"], "npm", "server", None);
        is(
            "/usr/bin/npx",
            &["server@1.2.3"],
            "npm",
            "server",
            Some("1.2.3"),
        );
        is(
            "npx.cmd",
            &["@scope/name@1"],
            "npm",
            "@scope/name",
            Some("1"),
        );
        is("npx", &["@scope/name@latest"], "npm", "@scope/name", None);
        is("npx", &["a@^1.0"], "npm", "a", None);
        is("npx", &["-p", "pack@2", "binary"], "npm", "pack", Some("2"));
        is("npx", &["--package=pack", "-c", "x"], "npm", "pack", None);
        is("npx", &["--registry", "http://r", "a"], "npm", "a", None);
    }

    #[test]
    fn packages_of_uvx_and_pipx() {
        is("uvx", &["mcp-server-time"], "PyPI", "mcp-server-time", None);
        is("uvx", &["name==1.0"], "PyPI", "name", Some("1.0"));
        is("uvx", &["name[cli,x]==2"], "PyPI", "name", Some("2"));
        is("uvx", &["name@3.1"], "PyPI", "name", Some("3.1"));
        is("uvx", &["name>=1,<2"], "PyPI", "name", None);
        is(
            "uvx",
            &["--from", "pack==4", "tool"],
            "PyPI",
            "pack",
            Some("4"),
        );
        is("uvx", &["-p", "3.12", "name"], "PyPI", "name", None);
        is("pipx", &["run", "name"], "PyPI", "name", None);
        is(
            "pipx",
            &["run", "--spec", "pack==1", "x"],
            "PyPI",
            "pack",
            Some("1"),
        );
    }

    #[test]
    fn what_is_not_fetched_from_a_registry_is_not_a_package() {
        for (command, args) in [
            ("node", &["server.js"] as &[&str]),
            ("npx", &[]),
            ("npx", &["-y"]),
            ("npx", &["./server"]),
            ("npx", &["github:me/server"]),
            ("npx", &["https://x/y.tgz"]),
            ("uvx", &["git+https://x/y"]),
            ("uvx", &["--from", "./here", "tool"]),
            ("uvx", &["name @ https://x/y"]),
            ("docker", &["run", "image"]),
        ] {
            assert_eq!(package(command, args), None, "{command} {args:?}");
        }
    }

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
        let description = describe_fetch(&settings("npx", &["-y", "@scope/server@1"]));
        assert_eq!(description.unwrap(), "`npx` to fetch `@scope/server`");
        let description = describe_fetch(&settings("docker", &["run", "-i", "image"]));
        assert_eq!(description.unwrap(), "`docker` to fetch it");
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
