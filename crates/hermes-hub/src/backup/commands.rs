//! Finds commands in restored files, so that somebody who restores a foreign archive sees them before anything runs
//! them.

use std::{fs::File, io::Read, path::Path};

use serde::Serialize;
use serde_json::Value;

use super::{BackupError, Content, Manifest, file_error};

const COMMAND: &str = "${cmd:";
/// File names that may contain references.
const NAMES: [&str; 2] = ["hub.yaml", "config.yaml"];
const LARGEST: u64 = 4 * 1024 * 1024;
const LONGEST: usize = 500;
const MOST: usize = 1_000;

/// A command that a restored file would run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RestoredCommand {
    /// Which file, below the data directory.
    pub file: String,
    /// Without control characters.
    pub command: String,
}

/// Finds the commands in the unpacked files of an archive.
pub(super) fn find(stage: &Path, manifest: &Manifest) -> Result<Vec<RestoredCommand>, BackupError> {
    let mut commands = Vec::new();
    for file in &manifest.files {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let is_file = matches!(file.content, Content::File { .. });
        let Some(place) = file.place().filter(|_| is_file && NAMES.contains(&name)) else {
            continue;
        };
        let path = stage.join(place);
        let mut text = Vec::new();
        let opened = File::open(&path).map_err(file_error(&path))?;
        let read = opened.take(LARGEST).read_to_end(&mut text);
        read.map_err(file_error(&path))?;
        for command in in_text(&String::from_utf8_lossy(&text)) {
            if commands.len() < MOST {
                let file = shown(&file.path);
                commands.push(RestoredCommand { file, command });
            }
        }
    }
    Ok(commands)
}

/// Finds the commands that a configuration refers to. In a damaged file, comments are searched too.
fn in_text(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    match hermes_config::read_yaml(text) {
        Ok(document) => in_value(&document, &mut found),
        Err(_) => in_string(text, &mut found),
    }
    found
}

fn in_value(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => in_string(text, found),
        Value::Array(items) => items.iter().for_each(|item| in_value(item, found)),
        Value::Object(members) => members.values().for_each(|item| in_value(item, found)),
        _ => {}
    }
}

fn in_string(text: &str, found: &mut Vec<String>) {
    let mut rest = text;
    while let Some(at) = rest.find(COMMAND) {
        rest = &rest[at + COMMAND.len()..];
        let end = closing_brace(rest);
        found.push(shown(&rest[..end]));
    }
}

/// The index of the brace that closes the one before this text, or the end of the text.
fn closing_brace(text: &str) -> usize {
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
fn shown(text: &str) -> String {
    let plain = text.chars().map(|letter| match letter {
        letter if letter.is_control() => '\u{fffd}',
        letter => letter,
    });
    plain.take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_wherever_they_stand() {
        let text = "# ${cmd:no}\na: x${cmd:echo '{a}' | cat}y\nb: [{c: \"${cmd:b\\e]52}\"}]\nd: ${env:X}\n";
        assert_eq!(in_text(text), ["echo '{a}' | cat", "b\u{fffd}]52"]);
        assert_eq!(in_text("a: [\n# ${cmd:maybe}"), ["maybe"]);
        assert!(in_text("a: 1\n").is_empty());
    }
}
