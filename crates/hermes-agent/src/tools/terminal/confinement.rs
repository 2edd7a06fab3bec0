//! The sandbox of commands, around their working directory.
//!
//! Classifying command lines only catches what is written plainly. The kernel enforces the rest: a command and
//! its children can write to the working directory and to temporary files, read the system, and nothing else. In
//! the home, configuration, memories and credentials are closed.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};

use hermes_config::private_file::{FileOwner, create_private_dirs};
use hermes_mcp::process::sandbox::{
    NetworkAccess, SandboxPlan, SandboxSupport, UnixSocketAccess, is_system_path,
};
use serde_json::Value;

use super::child::CommandIo;
use crate::approval::protected::hub_directories;

/// How much commands are confined, in increasing order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum CommandSandbox {
    /// Not at all: commands can do what the user can do.
    #[default]
    Off,
    /// To the working directory and temporary files.
    Workspace,
    /// The same without a network.
    Strict,
}

impl CommandSandbox {
    /// Reads `terminal.sandbox` from the whole configuration. An invalid value is the strictest.
    pub fn from_document(document: &Value) -> Self {
        match &document["terminal"]["sandbox"] {
            Value::Null | Value::Bool(false) => Self::Off,
            Value::String(word) if word == "off" => Self::Off,
            Value::String(word) if word == "workspace" => Self::Workspace,
            _ => Self::Strict,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Workspace => "workspace",
            Self::Strict => "strict",
        }
    }
}

/// The machine owner's limits for commands, whatever the agent's own configuration says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandBounds {
    /// The minimum confinement.
    pub min_level: CommandSandbox,
    /// The only working directory; the session's own if there is none.
    pub workspace: Option<PathBuf>,
    /// Readable paths besides the system's.
    pub readable: Vec<PathBuf>,
}

/// How commands of one agent are confined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement {
    level: CommandSandbox,
    bounds: CommandBounds,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
}

impl Confinement {
    /// By the configuration, within these bounds.
    pub fn new(document: &Value, bounds: CommandBounds) -> Self {
        let section = &document["terminal"];
        let paths = |key: &str| {
            let items = section[key].as_array().into_iter().flatten();
            let items = items
                .filter_map(Value::as_str)
                .filter(|item| !item.is_empty());
            items.map(expand_home).collect()
        };
        // With limits, the agent's own configuration cannot open further paths.
        let is_bounded = bounds.min_level > CommandSandbox::Off;
        Self {
            level: CommandSandbox::from_document(document).max(bounds.min_level),
            read: if is_bounded {
                Vec::new()
            } else {
                paths("sandbox_read")
            },
            write: if is_bounded {
                Vec::new()
            } else {
                paths("sandbox_write")
            },
            bounds,
        }
    }

    pub fn level(&self) -> CommandSandbox {
        self.level
    }

    /// Whether the kernel enforces it.
    pub fn is_enforced(&self) -> bool {
        self.level > CommandSandbox::Off && SandboxSupport::detect().landlock.is_some()
    }

    /// Whether this machine could hold commands in a sandbox.
    pub fn is_supported(&self) -> bool {
        let support = SandboxSupport::detect();
        support.landlock.is_some() && support.seccomp
    }

    /// The effective sandbox, in one line for people.
    pub fn describe(&self) -> String {
        describe(self.level, SandboxSupport::detect())
    }

    /// Prepares a sandbox for a command that works in a directory. `None` where commands are not confined.
    ///
    /// Fails if a sandbox is configured but not supported: the command must not run.
    pub(crate) fn prepare_sandbox(
        &self,
        sandbox: &SandboxContext<'_>,
        environment: &mut Vec<(OsString, OsString)>,
    ) -> io::Result<Option<SandboxPlan>> {
        if self.level == CommandSandbox::Off {
            return Ok(None);
        }
        let support = SandboxSupport::detect();
        if support.landlock.is_none() || !support.seccomp {
            return Err(io::Error::other(format!(
                "`terminal.sandbox` is `{}`, and this machine has no Landlock or no seccomp (Linux 5.13 or later has \
                 both); set it to `off` to run commands without a sandbox",
                self.level.as_str()
            )));
        }
        let paths = self.sandbox_paths(sandbox)?;
        set_variable(environment, "TMPDIR", paths.temporary.as_os_str());
        if let Some(home) = &paths.home {
            set_variable(environment, "HOME", home.as_os_str());
        }
        let path = get_variable(environment, "PATH");
        let mut read = self.read.clone();
        read.extend(self.bounds.readable.iter().cloned());
        read.extend(sandbox.extra_readable.iter().map(|path| path.to_path_buf()));
        read.extend(installed_programs(&path, sandbox));
        // Git does nothing where it may not read its own settings.
        if let Some(home) = sandbox.user_home.filter(|_| paths.home.is_none()) {
            read.extend([".gitconfig", ".config/git"].map(|name| home.join(name)));
        }
        let mut write = paths.open;
        write.push(paths.temporary);
        write.extend(self.write.iter().cloned());
        if sandbox.io == CommandIo::Terminal {
            // The terminal of its own new session.
            write.push("/dev/tty".into());
        }
        Ok(Some(SandboxPlan {
            support,
            read,
            write,
            network: match self.level {
                CommandSandbox::Strict => NetworkAccess::Denied,
                _ => NetworkAccess::Allowed,
            },
            unix_sockets: UnixSocketAccess::Denied,
        }))
    }

    fn sandbox_paths(&self, sandbox: &SandboxContext<'_>) -> io::Result<SandboxPaths> {
        if let Some(workspace) = &self.bounds.workspace {
            let temporary = sandbox.hermes_home.join("tmp");
            let home = temporary.join("home");
            create_private_dirs(&home, FileOwner::Writer)?;
            return Ok(SandboxPaths {
                open: vec![workspace.clone()],
                temporary,
                home: Some(home),
            });
        }
        let temporary = sandbox.hermes_home.join("cache/sandbox/terminal");
        create_private_dirs(&temporary, FileOwner::Writer)?;
        let mut open = Vec::new();
        open_paths_around(sandbox.root, sandbox, &mut open);
        let shared = Path::new("/tmp");
        let hubs = hub_directories();
        let hubs = hubs.iter().map(PathBuf::as_path);
        if !sandbox
            .homes()
            .chain(hubs)
            .any(|held| held.starts_with(shared))
        {
            open.push(shared.to_owned());
        }
        Ok(SandboxPaths {
            open,
            temporary,
            home: None,
        })
    }
}

struct SandboxPaths {
    open: Vec<PathBuf>,
    temporary: PathBuf,
    /// A replacement home for programs, if the real one is the agent's.
    home: Option<PathBuf>,
}

pub(crate) struct SandboxContext<'a> {
    pub(crate) root: &'a Path,
    pub(crate) hermes_home: &'a Path,
    pub(crate) user_home: Option<&'a Path>,
    pub(crate) io: CommandIo,
    pub(crate) extra_readable: &'a [&'a Path],
}

impl SandboxContext<'_> {
    fn homes(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.hermes_home).chain(self.user_home)
    }
}

/// Opens a directory, but not the agent's home in it, nor the data of a Hub, nor the user's hidden files: those decide
/// what runs at the next login, and hold keys. Landlock rules have no exceptions, so the siblings are opened one by one.
fn open_paths_around(directory: &Path, sandbox: &SandboxContext<'_>, open: &mut Vec<PathBuf>) {
    let directory = canonicalize_or_keep(directory);
    let hermes = canonicalize_or_keep(sandbox.hermes_home);
    if directory.starts_with(&hermes) {
        // Of the home, only directories meant for work.
        let workspace = hermes.join("workspace");
        if directory.starts_with(&workspace) {
            open.push(directory);
        }
        return;
    }
    let hubs = hub_directories();
    if hubs.iter().any(|hub| directory.starts_with(hub)) {
        return;
    }
    let user = sandbox.user_home.map(canonicalize_or_keep);
    let is_above_user = user
        .as_ref()
        .is_some_and(|user| user.starts_with(&directory));
    let is_above_hub = hubs.iter().any(|hub| hub.starts_with(&directory));
    if !is_above_user && !is_above_hub && !hermes.starts_with(&directory) {
        open.push(directory);
        return;
    }
    for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if is_hidden || is_link {
            continue;
        }
        open_paths_around(&path, sandbox, open);
    }
}

fn canonicalize_or_keep(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Programs in the PATH outside the system's directories, and their libraries.
fn installed_programs(path: &OsStr, sandbox: &SandboxContext<'_>) -> Vec<PathBuf> {
    const BESIDE_BIN: [&str; 4] = ["lib", "lib64", "libexec", "pyvenv.cfg"];
    let mut paths = Vec::new();
    for directory in std::env::split_paths(path).filter(|entry| entry.is_absolute()) {
        let directory = canonicalize_or_keep(&directory);
        if is_system_path(&directory) {
            continue;
        }
        if directory.ends_with("bin")
            && let Some(prefix) = directory.parent()
        {
            paths.extend(BESIDE_BIN.map(|name| prefix.join(name)));
            // Rust programs are links into this directory.
            if prefix.ends_with(".cargo") {
                paths.push(prefix.with_file_name(".rustup"));
            }
        }
        paths.push(directory);
    }
    let is_above = |path: &PathBuf| {
        sandbox
            .homes()
            .any(|home| canonicalize_or_keep(home).starts_with(path))
    };
    let is_in_home = |path: &PathBuf| path.starts_with(canonicalize_or_keep(sandbox.hermes_home));
    paths.retain(|path| !is_above(path) && !is_in_home(path));
    paths
}

fn describe(level: CommandSandbox, support: SandboxSupport) -> String {
    let words = match level {
        CommandSandbox::Off => {
            return "off: commands have all your rights; the approval rules are only a heuristic"
                .into();
        }
        CommandSandbox::Workspace => "workspace: the working directory and temporary files",
        CommandSandbox::Strict => "strict: the working directory and temporary files, no network",
    };
    match support {
        SandboxSupport {
            landlock: Some(version),
            seccomp: true,
        } => format!("{words} (Landlock {version}, seccomp)"),
        _ => format!(
            "{}: not in force, this machine has no Landlock or no seccomp, so no command runs",
            level.as_str()
        ),
    }
}

fn expand_home(path: &str) -> PathBuf {
    let home = std::env::home_dir();
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => path.into(),
    }
}

fn get_variable(environment: &[(OsString, OsString)], name: &str) -> OsString {
    let variable = environment.iter().find(|(key, _)| key == name);
    variable.map(|(_, value)| value.clone()).unwrap_or_default()
}

fn set_variable(environment: &mut Vec<(OsString, OsString)>, name: &str, value: &OsStr) {
    environment.retain(|(key, _)| key != name);
    environment.push((name.into(), value.to_owned()));
}

#[cfg(test)]
mod tests;
