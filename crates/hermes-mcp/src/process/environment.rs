//! What a server process gets from its host: a short list of variables, and the program that its `command` means.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

/// A child's variables. No name occurs twice.
pub type Environment = Vec<(OsString, OsString)>;

/// Passed on from the host, besides `XDG_*`.
const INHERITED: [&str; 8] = [
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "SHELL", "TMPDIR",
];

/// Without these, programs on Windows hardly start.
#[cfg(windows)]
const INHERITED_ON_WINDOWS: [&str; 27] = [
    "ALLUSERSPROFILE",
    "APPDATA",
    "COMMONPROGRAMFILES",
    "COMMONPROGRAMFILES(X86)",
    "COMMONPROGRAMW6432",
    "COMPUTERNAME",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "PROGRAMW6432",
    "PUBLIC",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERDOMAIN",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// Node.js is often installed where a service's PATH does not look.
const NODE_PROGRAMS: [&str; 3] = ["npx", "npm", "node"];

/// Searched when the child has no PATH, as the system itself does.
#[cfg(unix)]
const DEFAULT_PATH: &str = "/usr/bin:/bin";
#[cfg(not(unix))]
const DEFAULT_PATH: &str = "";

/// The variables of a server: the few that are passed on from `host`, and over them `overlay`, the server's `env`.
pub fn build_environment(
    host: impl IntoIterator<Item = (OsString, OsString)>,
    overlay: &[(String, String)],
) -> Environment {
    let mut environment: Environment = host
        .into_iter()
        .filter(|(name, _)| is_inherited(name))
        .collect();
    for (name, value) in overlay {
        set_variable(&mut environment, OsStr::new(name), value.into());
    }
    environment
}

fn is_inherited(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    // Windows itself does not tell `Path` from `PATH`.
    #[cfg(windows)]
    if INHERITED
        .iter()
        .chain(&INHERITED_ON_WINDOWS)
        .any(|inherited| name.eq_ignore_ascii_case(inherited))
    {
        return true;
    }
    INHERITED.contains(&name) || name.starts_with("XDG_")
}

pub(crate) fn set_variable(environment: &mut Environment, name: &OsStr, value: OsString) {
    match environment
        .iter_mut()
        .find(|(present, _)| same_name(present, name))
    {
        Some((_, present)) => *present = value,
        None => environment.push((name.to_owned(), value)),
    }
}

pub(crate) fn get_variable<'a>(environment: &'a Environment, name: &str) -> Option<&'a OsStr> {
    environment
        .iter()
        .find(|(present, _)| same_name(present, OsStr::new(name)))
        .map(|(_, value)| value.as_os_str())
}

fn same_name(one: &OsStr, other: &OsStr) -> bool {
    if cfg!(windows) {
        one.eq_ignore_ascii_case(other)
    } else {
        one == other
    }
}

/// Why a `command` names no program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// Nothing but white space.
    #[error("`command` is empty; name the program that starts the server")]
    Empty,
    /// It is in none of the directories.
    #[error(
        "`{command}` was not found in the PATH of the server; {}",
        install_advice(Path::new(command))
    )]
    NotFound { command: String },
    /// A file of that name is there, but may not be run.
    #[error(
        "`{}` is not executable; run `chmod +x` on it or correct `command`",
        path.display()
    )]
    NotExecutable { path: PathBuf },
}

/// Finds the program that `command` means to a child with this environment. `home` is the Hermes home.
///
/// A command with a separator is taken as it is: whether it can be run shows when it is started.
pub fn find_program(
    command: &str,
    environment: &Environment,
    home: &Path,
) -> Result<PathBuf, ProgramError> {
    let command = command.trim();
    if command.is_empty() {
        return Err(ProgramError::Empty);
    }
    let user_home =
        get_variable(environment, "HOME").map_or_else(std::env::home_dir, |h| Some(h.into()));
    let expanded = expand_tilde(command, user_home.as_deref());
    if expanded.components().count() > 1 || command.contains(std::path::is_separator) {
        return Ok(expanded);
    }

    let path = get_variable(environment, "PATH").unwrap_or(OsStr::new(DEFAULT_PATH));
    let mut directories: Vec<PathBuf> = std::env::split_paths(path)
        .filter(|directory| !directory.as_os_str().is_empty())
        .collect();
    if NODE_PROGRAMS.contains(&command) {
        directories.push(home.join("node").join("bin"));
        directories.extend(user_home.map(|user_home| user_home.join(".local").join("bin")));
        directories.push("/usr/local/bin".into());
    }
    search_path(command, &directories)
}

fn search_path(command: &str, directories: &[PathBuf]) -> Result<PathBuf, ProgramError> {
    let mut not_executable = None;
    for directory in directories {
        let file = directory.join(command);
        if !file.is_file() {
            continue;
        }
        if may_execute(&file) {
            // The child may have another working directory.
            return Ok(std::path::absolute(&file).unwrap_or(file));
        }
        not_executable.get_or_insert(file);
    }
    Err(match not_executable {
        Some(path) => ProgramError::NotExecutable { path },
        None => ProgramError::NotFound {
            command: command.to_owned(),
        },
    })
}

/// Expands a leading `~` to the home directory of the child.
pub fn expand_home(path: &str, environment: &Environment) -> PathBuf {
    let user_home =
        get_variable(environment, "HOME").map_or_else(std::env::home_dir, |h| Some(h.into()));
    expand_tilde(path, user_home.as_deref())
}

fn expand_tilde(command: &str, user_home: Option<&Path>) -> PathBuf {
    match (command.strip_prefix('~'), user_home) {
        (Some(""), Some(user_home)) => user_home.to_owned(),
        (Some(rest), Some(user_home)) if rest.starts_with(std::path::is_separator) => {
            user_home.join(rest.trim_start_matches(std::path::is_separator))
        }
        _ => PathBuf::from(command),
    }
}

#[cfg(unix)]
fn may_execute(file: &Path) -> bool {
    rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn may_execute(_file: &Path) -> bool {
    true
}

/// Puts the directory of `program` first in the child's PATH, unless PATH names it already: `npx` has to find the
/// `node` beside it.
pub fn prepend_to_path(program: &Path, environment: &mut Environment) {
    let Some(directory) = program.parent().filter(|parent| parent.is_absolute()) else {
        return;
    };
    let path = get_variable(environment, "PATH").unwrap_or_default();
    let present: Vec<PathBuf> = std::env::split_paths(path)
        .filter(|_| !path.is_empty())
        .collect();
    if present.iter().any(|entry| entry == directory) {
        return;
    }
    let all = std::iter::once(directory.to_owned()).chain(present);
    // A directory whose name holds a colon cannot be in a PATH.
    if let Ok(path) = std::env::join_paths(all) {
        set_variable(environment, OsStr::new("PATH"), path);
    }
}

/// What to do when a program is missing.
pub(crate) fn install_advice(program: &Path) -> &'static str {
    match program.file_name().and_then(OsStr::to_str) {
        Some("npx" | "npm" | "node") => {
            "install Node.js (https://nodejs.org), or add the directory it is in to `PATH` under `env`"
        }
        Some("uvx" | "uv") => {
            "install uv (https://docs.astral.sh/uv), or add the directory it is in to `PATH` under `env`"
        }
        _ => {
            "install it, write its full path as `command`, or add its directory to `PATH` under `env`"
        }
    }
}

/// As much of the line as the kernel looks at.
const MAX_SHEBANG_BYTES: u64 = 256;

/// The words after `#!`; none if the file is not a script.
pub(crate) fn script_words(script: &Path) -> Vec<String> {
    let read = || {
        let mut line = Vec::new();
        BufReader::new(File::open(script).ok()?.take(MAX_SHEBANG_BYTES))
            .read_until(b'\n', &mut line)
            .ok()?;
        let line = String::from_utf8(line).ok()?;
        let words = line.strip_prefix("#!")?.split_ascii_whitespace();
        Some(words.map(str::to_owned).collect())
    };
    read().unwrap_or_default()
}

/// The program that runs a script: a path, or a name to look up in the PATH where the script leaves that to `env`.
pub(crate) fn script_interpreter(script: &Path) -> Option<String> {
    let mut words = script_words(script).into_iter();
    let first = words.next()?;
    if !Path::new(&first).ends_with("env") {
        return Some(first);
    }
    words.find(|word| !word.starts_with('-') && !word.contains('='))
}

#[cfg(test)]
mod tests;
