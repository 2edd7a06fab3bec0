//! Finds commands in restored files, so that somebody who restores a foreign archive sees them before anything runs
//! them.

use std::{fs::File, io::Read, path::Path};

use serde::Serialize;
use serde_json::Value;

use super::{BackupContent, BackupError, BackupManifest, file_error};

const COMMAND_PREFIX: &str = "${cmd:";
/// File names that may contain references.
const CONFIG_FILE_NAMES: [&str; 2] = ["hub.yaml", "config.yaml"];
const MAX_CONFIG_BYTES: u64 = 4 * 1024 * 1024;
const MAX_SHOWN_CHARS: usize = 500;
const MAX_COMMANDS: usize = 1_000;

/// A command that a restored file would run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RestoredCommand {
    /// Which file, below the data directory.
    pub file: String,
    /// Without control characters.
    pub command: String,
}

/// Finds the commands in the unpacked files of an archive.
pub(super) fn find_commands(
    stage: &Path,
    manifest: &BackupManifest,
) -> Result<Vec<RestoredCommand>, BackupError> {
    let mut commands = Vec::new();
    for file in &manifest.files {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let is_file = matches!(file.content, BackupContent::File { .. });
        let Some(original_path) = file
            .original_path()
            .filter(|_| is_file && CONFIG_FILE_NAMES.contains(&name))
        else {
            continue;
        };
        let path = stage.join(original_path);
        let mut text = Vec::new();
        let opened = File::open(&path).map_err(file_error(&path))?;
        let read = opened.take(MAX_CONFIG_BYTES).read_to_end(&mut text);
        read.map_err(file_error(&path))?;
        for command in find_in_text(&String::from_utf8_lossy(&text)) {
            if commands.len() < MAX_COMMANDS {
                let file = printable(&file.path);
                commands.push(RestoredCommand { file, command });
            }
        }
    }
    Ok(commands)
}

/// Finds the commands that a configuration refers to. In a damaged file, comments are searched too.
fn find_in_text(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    match hermes_config::read_yaml(text) {
        Ok(document) => find_in_value(&document, &mut commands),
        Err(_) => find_in_string(text, &mut commands),
    }
    commands
}

fn find_in_value(value: &Value, commands: &mut Vec<String>) {
    match value {
        Value::String(text) => find_in_string(text, commands),
        Value::Array(items) => items.iter().for_each(|item| find_in_value(item, commands)),
        Value::Object(members) => members
            .values()
            .for_each(|item| find_in_value(item, commands)),
        _ => {}
    }
}

fn find_in_string(text: &str, commands: &mut Vec<String>) {
    let mut rest = text;
    while let Some(at) = rest.find(COMMAND_PREFIX) {
        rest = &rest[at + COMMAND_PREFIX.len()..];
        let end = find_closing_brace(rest);
        commands.push(printable(&rest[..end]));
    }
}

/// The index of the brace that closes the one before this text, or the end of the text.
fn find_closing_brace(text: &str) -> usize {
    let mut depth = 1_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => return at,
            '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Removes control characters from an untrusted text.
fn printable(text: &str) -> String {
    let plain = text.chars().map(|letter| match letter {
        letter if letter.is_control() => '\u{fffd}',
        letter => letter,
    });
    plain.take(MAX_SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_wherever_they_stand() {
        let text = "# ${cmd:no}\na: x${cmd:echo '{a}' | cat}y\nb: [{c: \"${cmd:b\\e]52}\"}]\nd: ${env:X}\n";
        assert_eq!(find_in_text(text), ["echo '{a}' | cat", "b\u{fffd}]52"]);
        assert_eq!(find_in_text("a: [\n# ${cmd:maybe}"), ["maybe"]);
        assert!(find_in_text("a: 1\n").is_empty());
    }
}
