//! The environment of a command: that of Hermes without secrets.
//!
//! A variable is omitted if the home's `.env` sets it, if its name marks a secret, or if its value looks like
//! one. The user can pass single variables by name.

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    fs,
    path::Path,
};

use hermes_config::Redactor;

use super::{TerminalSettings, child::CommandIo};

/// Parts of names, separated by `_`, that mark a secret.
const SECRET_PARTS: [&str; 10] = [
    "TOKEN",
    "TOKENS",
    "SECRET",
    "SECRETS",
    "KEY",
    "KEYS",
    "PASS",
    "AUTH",
    "CREDENTIAL",
    "CREDENTIALS",
];
/// Texts anywhere in a name that mark a secret.
const SECRET_SUBSTRINGS: [&str; 4] = ["PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY"];
/// Not secrets, in spite of their names.
const NOT_SECRET: [&str; 2] = ["SSH_AUTH_SOCK", "SSH_ASKPASS"];

pub(super) fn child_variables(
    settings: &TerminalSettings,
    home: &Path,
    connection: CommandIo,
) -> Vec<(OsString, OsString)> {
    let names = names_in_env_file(home);
    let redactor = Redactor::default();
    let mut environment: Vec<(OsString, OsString)> = settings
        .environment
        .iter()
        .filter(|(name, value)| {
            let Some(name) = name.to_str() else {
                return true;
            };
            let is_allowed = settings.passthrough.iter().any(|allowed| allowed == name);
            is_allowed
                || !(names.iter().any(|secret| secret == name) || is_secret(name, value, &redactor))
        })
        .cloned()
        .collect();
    if connection == CommandIo::Pipes {
        // A pager would wait for input.
        for (name, value) in [("TERM", "dumb"), ("PAGER", "cat"), ("GIT_PAGER", "cat")] {
            environment.retain(|(present, _)| present != name);
            environment.push((name.into(), value.into()));
        }
    }
    environment
}

fn is_secret(name: &str, value: &OsStr, redactor: &Redactor) -> bool {
    let upper = name.to_ascii_uppercase();
    if NOT_SECRET.contains(&&*upper) {
        return false;
    }
    let has_part = upper
        .split('_')
        .any(|part| SECRET_PARTS.contains(&part) || part.ends_with("TOKEN"));
    let has_text = SECRET_SUBSTRINGS.iter().any(|text| upper.contains(text));
    has_part || has_text || matches!(redactor.redact(&value.to_string_lossy()), Cow::Owned(_))
}

/// The names that the home's `.env` sets.
fn names_in_env_file(home: &Path) -> Vec<String> {
    let text = fs::read(home.join(".env")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let names = text.lines().filter_map(|line| {
        let line = line.trim_start_matches('\u{feff}').trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, _) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
        Some(name.trim().to_owned())
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(pairs: &[(&str, &str)], env_file: &str, passthrough: &[&str]) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(".env"), env_file).unwrap();
        let environment = pairs
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        let document = json!({"terminal": {"env_passthrough": passthrough}});
        let settings = TerminalSettings::from_document(&document, environment);
        let child = child_variables(&settings, directory.path(), CommandIo::Terminal);
        child
            .into_iter()
            .map(|(name, _)| name.into_string().unwrap())
            .collect()
    }

    #[test]
    fn secrets_are_left_out_by_name_and_by_value() {
        let pairs = [
            ("PATH", "/bin"),
            ("OPENAI_API_KEY", "x"),
            ("TELEGRAM_BOT_TOKEN", "x"),
            ("AWS_ACCESS_KEY_ID", "x"),
            ("PGPASSWORD", "x"),
            ("GITHUBTOKEN", "x"),
            ("INNOCENT", "sk-abcdefghijklmnopqrstuvwxyz"),
            ("DATABASE_URL", "postgres://me:hunter2@host/db"),
            ("SSH_AUTH_SOCK", "/tmp/agent"),
            ("TOKENIZERS_PARALLELISM", "false"),
            ("KEYBOARD", "de"),
            ("PWD", "/home"),
        ];
        let expected = [
            "PATH",
            "SSH_AUTH_SOCK",
            "TOKENIZERS_PARALLELISM",
            "KEYBOARD",
            "PWD",
        ];
        assert_eq!(names(&pairs, "", &[]), expected);
    }

    #[test]
    fn everything_in_the_env_file_is_left_out() {
        let pairs = [("PLAIN", "x"), ("OTHER", "x"), ("KEPT", "x")];
        assert_eq!(
            names(&pairs, "\u{feff}PLAIN=x\n# KEPT=1\nexport OTHER = y\n", &[]),
            ["KEPT"]
        );
    }

    #[test]
    fn the_user_lets_single_variables_through() {
        let pairs = [("GITHUB_TOKEN", "x"), ("GITLAB_TOKEN", "x")];
        assert_eq!(
            names(&pairs, "GITHUB_TOKEN=x", &["GITHUB_TOKEN"]),
            ["GITHUB_TOKEN"]
        );
    }
}
