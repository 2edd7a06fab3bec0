//! A chat that gets another id: the settings that name it.

use std::io;

use hermes_config::{ConfigFile, ConfigFileError, Home, Platform, Variables, write_variable};
use serde_json::Value;

#[derive(Debug, thiserror::Error)]
pub enum ChatMigrationError {
    #[error("`.env` cannot be written: {0}")]
    Variables(#[from] io::Error),
    #[error(transparent)]
    Config(#[from] ConfigFileError),
}

/// Replaces the id of a chat in `.env` and `config.yaml`: the home channel, allow-lists and rules of groups. Returns the
/// variables and keys that were changed.
pub fn rename_chat(
    home: &Home,
    platform: Platform,
    old: &str,
    new: &str,
) -> Result<Vec<String>, ChatMigrationError> {
    let mut changed = rename_in_variables(home, platform, old, new)?;
    changed.extend(rename_in_config(home, platform, old, new)?);
    Ok(changed)
}

fn rename_in_variables(
    home: &Home,
    platform: Platform,
    old: &str,
    new: &str,
) -> Result<Vec<String>, io::Error> {
    let text = match std::fs::read_to_string(home.env_file()) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let no_pairs: [(String, String); 0] = [];
    let written = Variables::from_pairs_and_text(no_pairs, &text);
    let prefix = platform.variable("");
    let mut changed = Vec::new();
    for (name, value) in written.iter() {
        if !name.starts_with(&prefix) || is_secret_name(name) {
            continue;
        }
        if let Some(renamed) = rename_in_list(value, old, new) {
            write_variable(home, name, &renamed)?;
            changed.push(name.to_owned());
        }
    }
    Ok(changed)
}

fn is_secret_name(name: &str) -> bool {
    ["TOKEN", "SECRET", "URL"]
        .iter()
        .any(|part| name.contains(part))
}

fn rename_in_config(
    home: &Home,
    platform: Platform,
    old: &str,
    new: &str,
) -> Result<Vec<String>, ConfigFileError> {
    let mut file = ConfigFile::open(home)?;
    let places: [&[&str]; 3] = [&[], &["platforms"], &["gateway", "platforms"]];
    let mut changes = ConfigChanges::default();
    for place in places {
        let mut path: Vec<String> = place.iter().map(|&key| key.to_owned()).collect();
        path.push(platform.name().to_owned());
        if let Some(section) = file.get(&borrow_path(&path)).cloned() {
            changes.collect(&section, &mut path, old, new);
        }
    }
    for (path, value) in &changes.values {
        file.set(&borrow_path(path), value.clone());
    }
    if !changes.values.is_empty() {
        file.save()?;
    }
    let values = changes.values.iter().map(|(path, _)| path.join("."));
    let mut rewritten: Vec<String> = values.collect();
    for rules in &changes.rules {
        // A file that is too intricate for this still has the other changes.
        match rules.apply(home) {
            Ok(()) => rewritten.push(rules.new.join(".")),
            Err(error) => {
                let key = rules.old.join(".");
                tracing::warn!(%error, key, old, new, "chat id changed; rename its rules in config.yaml");
            }
        }
    }
    Ok(rewritten)
}

fn borrow_path(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

/// What has to be written so that the settings name the new id.
#[derive(Default)]
struct ConfigChanges {
    values: Vec<(Vec<String>, Value)>,
    rules: Vec<MovedRules>,
}

/// Rules of a chat or topic, whose key is the chat.
struct MovedRules {
    old: Vec<String>,
    new: Vec<String>,
}

impl MovedRules {
    /// Moves them. Rules that the new id has already stay.
    fn apply(&self, home: &Home) -> Result<(), ConfigFileError> {
        let mut file = ConfigFile::open(home)?;
        let (old, new) = (borrow_path(&self.old), borrow_path(&self.new));
        if file.get(&new).is_none()
            && let Some(rules) = file.get(&old).cloned()
        {
            file.set(&new, rules);
        }
        file.unset(&old);
        file.save()
    }
}

impl ConfigChanges {
    fn collect(&mut self, value: &Value, path: &mut Vec<String>, old: &str, new: &str) {
        match value {
            Value::Object(map) => {
                let is_rules = path.last().is_some_and(|last| last == "chats");
                for (key, value) in map {
                    if is_rules && let Some(renamed) = rename_in_list(key, old, new) {
                        let at = |key: &str| [path.as_slice(), &[key.to_owned()]].concat();
                        self.rules.push(MovedRules {
                            old: at(key),
                            new: at(&renamed),
                        });
                        continue;
                    }
                    path.push(key.clone());
                    self.collect(value, path, old, new);
                    path.pop();
                }
            }
            Value::Array(items) => {
                let renamed: Vec<Value> = items
                    .iter()
                    .map(|item| rename_value(item, old, new).unwrap_or_else(|| item.clone()))
                    .collect();
                if renamed != *items {
                    self.values.push((path.clone(), renamed.into()));
                }
            }
            other => {
                if let Some(renamed) = rename_value(other, old, new) {
                    self.values.push((path.clone(), renamed));
                }
            }
        }
    }
}

/// The new id in the kind of value that the old one was.
fn rename_value(value: &Value, old: &str, new: &str) -> Option<Value> {
    match value {
        Value::Number(number) if number.to_string() == old => {
            Some(new.parse::<i64>().map_or_else(|_| new.into(), Value::from))
        }
        Value::String(text) => rename_in_list(text, old, new).map(Value::from),
        _ => None,
    }
}

/// A comma list with the new id, if it had the old one; `chat:topic` counts too.
fn rename_in_list(text: &str, old: &str, new: &str) -> Option<String> {
    let mut is_changed = false;
    let parts: Vec<String> = text
        .split(',')
        .map(|part| {
            let id = part.trim();
            let rest = id
                .strip_prefix(old)
                .filter(|rest| rest.is_empty() || rest.starts_with(':'));
            match rest {
                Some(rest) => {
                    is_changed = true;
                    part.replace(id, &format!("{new}{rest}"))
                }
                None => part.to_owned(),
            }
        })
        .collect();
    is_changed.then(|| parts.join(","))
}

#[cfg(test)]
mod tests;
