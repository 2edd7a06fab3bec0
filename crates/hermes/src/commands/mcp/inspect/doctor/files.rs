//! Whether files with secrets are for their owner only.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use hermes_config::Home;

use super::{Check, CheckLevel};

const ID: &str = "mode";

pub(super) fn check(home: &Home) -> Vec<Check> {
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
