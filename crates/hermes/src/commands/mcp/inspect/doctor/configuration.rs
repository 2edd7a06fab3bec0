//! Whether `config.yaml` says what can be used, and whether files with secrets are for their owner only.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use hermes_config::{Home, ReferencePolicy, ServerEntryError, Settings, SettingsError};

use super::{Check, CheckLevel};

const FILE: &str = "config";
const KEYS: &str = "keys";
const ENTRY: &str = "entry";
const REFERENCE: &str = "reference";

pub(super) fn unreadable(error: &SettingsError) -> Check {
    Check::fail(FILE, error.to_string()).split_advice()
}

pub(super) fn check(home: &Home, settings: &Settings) -> Vec<Check> {
    let path = home.config_file();
    let mut checks = vec![if path.exists() {
        Check::ok(FILE, format!("`{}` can be read", path.display()))
    } else {
        Check::warn(FILE, format!("`{}` does not exist", path.display()))
            .fix("`hermes up` writes one with examples, `hermes mcp add` one with a server")
    }];
    for warning in &settings.warnings {
        checks.push(
            Check::warn(KEYS, warning.to_string())
                .fix("correct it; docs/reference/configuration.md lists every key"),
        );
    }
    for entry in &settings.servers {
        match &entry.server {
            // That is told apart from mistakes.
            Err(ServerEntryError::Suspicious(_)) => {}
            Err(problem) => {
                checks.push(
                    Check::fail(ENTRY, problem.to_string())
                        .split_advice()
                        .about(&entry.name),
                );
            }
            Ok(server) if server.enabled => {
                let resolved = server.resolve(home, &settings.variables, ReferencePolicy::owner());
                match resolved {
                    Err(error) => {
                        checks.push(Check::fail(REFERENCE, error.to_string()).about(&entry.name));
                    }
                    Ok(resolved) => {
                        checks.extend(resolved.warnings.iter().map(|warning| {
                            Check::warn(REFERENCE, warning.to_string())
                                .split_advice()
                                .about(&entry.name)
                        }));
                    }
                }
            }
            Ok(_) => {}
        }
    }
    checks
}

const ID: &str = "mode";

pub(super) fn check_permissions(home: &Home) -> Vec<Check> {
    let tokens = home.tokens_dir();
    let mut files = vec![
        // References keep secrets out of the configuration, but not everybody uses them.
        (home.config_file(), CheckLevel::Warn),
        (home.env_file(), CheckLevel::Fail),
        (home.secrets_file(), CheckLevel::Fail),
        (home.secret_key_file(), CheckLevel::Fail),
        (tokens.clone(), CheckLevel::Fail),
    ];
    files.extend(files_in(&tokens).map(|file| (file, CheckLevel::Fail)));
    let problems: Vec<Check> = files
        .iter()
        .filter_map(|(path, level)| check_file(path, *level))
        .collect();
    if problems.is_empty() {
        return vec![Check::ok(
            ID,
            "configuration, `.env`, secrets and tokens are for their owner alone",
        )];
    }
    problems
}

fn check_file(path: &Path, level: CheckLevel) -> Option<Check> {
    let metadata = std::fs::metadata(path).ok()?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode.is_multiple_of(0o100) {
        // Neither the group nor others have any right.
        return None;
    }
    let right = if metadata.is_dir() { "700" } else { "600" };
    let message = format!("others may use `{}` (mode {mode:03o})", path.display());
    Some(Check::new(ID, level, message).fix(format!("run `chmod {right} {}`", path.display())))
}

fn files_in(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
}
