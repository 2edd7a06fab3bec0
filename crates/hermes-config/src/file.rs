//! Editing `config.yaml` while every byte outside the edit stays: comments, order, quoting, references.
//!
//! Each edit is checked at once: the new text must read as the old document with exactly that change. An edit that
//! cannot be made so leaves the text alone, and [`ConfigFile::save`] then refuses.

use crate::private_file::replace_file;
use std::{fs, io, path::PathBuf};

use serde_json::Value;

use crate::{
    Home, Variables,
    settings::{Settings, SettingsError},
    yaml,
};

mod document;
mod edit;

use edit::Rendering;

const SERVERS_KEY: &str = "mcp_servers";

/// A home's `config.yaml`, to be changed and saved.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    path: PathBuf,
    text: String,
    /// What `text` says.
    document: Value,
    /// The first edit that could not be made.
    failed_key: Option<String>,
}

/// Why a configuration file could not be opened or saved.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    /// The file cannot be read or written.
    #[error("`{}` cannot be read or written: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// What is in the file, or would be written to it, is not a valid configuration.
    #[error(transparent)]
    Malformed(#[from] SettingsError),
    /// An edit could not be made without touching other parts of the file, such as behind an alias.
    #[error("`{}`: `{key}` cannot be changed by command; edit the file by hand", path.display())]
    NotEditable {
        path: PathBuf,
        /// The key, dotted.
        key: String,
    },
}

impl ConfigFile {
    /// Reads the file; a missing one is an empty document.
    pub fn open(home: &Home) -> Result<Self, ConfigFileError> {
        let path = home.config_file();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(ConfigFileError::Io { path, source }),
        };
        Self::with_text(path, text)
    }

    /// One whose text was read by other means.
    pub fn with_text(path: PathBuf, text: String) -> Result<Self, ConfigFileError> {
        let document =
            yaml::parse(&text).map_err(|error| SettingsError::from(error).in_file(path.clone()))?;
        Ok(Self {
            path,
            text,
            document,
            failed_key: None,
        })
    }

    /// The value at a path of keys, as it is written.
    pub fn get(&self, path: &[&str]) -> Option<&Value> {
        document::get(&self.document, path)
    }

    /// Adds an entry under `mcp_servers`, or makes an existing one say this. Keys that say it already keep their
    /// bytes and comments.
    pub fn set_server(&mut self, name: &str, entry: &Value) {
        self.change(&[SERVERS_KEY, name], entry);
    }

    /// Makes the value at a path say this, key by key: those that say it already keep their bytes and comments.
    pub fn change(&mut self, path: &[&str], value: &Value) {
        let mut wanted = self.document.clone();
        let known = document::set(&mut wanted, path, value.clone());
        let edited = known.then(|| {
            let old = document::get(&self.document, path);
            self.render_verified(&wanted, |text, rendering| {
                edit::change(text, path, old, value, rendering)
            })
            // Keys that come in through an alias cannot be changed one by one.
            .or_else(|| {
                self.render_verified(&wanted, |text, rendering| {
                    edit::set(text, path, value, rendering)
                })
            })
        });
        self.apply_edit(path, edited.flatten());
    }

    /// Removes an entry and the comment lines directly above it; `false` if there was none.
    pub fn remove_server(&mut self, name: &str) -> bool {
        self.unset(&[SERVERS_KEY, name])
    }

    /// Sets one key of an entry, such as `["tools", "include"]`.
    pub fn set_server_key(&mut self, name: &str, path: &[&str], value: Value) {
        self.set(&[&[SERVERS_KEY, name], path].concat(), value);
    }

    /// Removes one key of an entry and the comment lines directly above it; `false` if there was none.
    pub fn unset_server_key(&mut self, name: &str, path: &[&str]) -> bool {
        self.unset(&[&[SERVERS_KEY, name], path].concat())
    }

    /// Sets the value at a path of keys, making the mappings that lead to it.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers build the value for this call"
    )]
    pub fn set(&mut self, path: &[&str], value: Value) {
        if document::get(&self.document, path) == Some(&value) {
            return;
        }
        let mut wanted = self.document.clone();
        let edited = document::set(&mut wanted, path, value.clone()).then(|| {
            self.render_verified(&wanted, |text, rendering| {
                edit::set(text, path, &value, rendering)
            })
        });
        self.apply_edit(path, edited.flatten());
    }

    /// Removes the value at a path of keys and the comment lines directly above it; `false` if there was none.
    pub fn unset(&mut self, path: &[&str]) -> bool {
        let mut wanted = self.document.clone();
        if !document::remove(&mut wanted, path) {
            return false;
        }
        let edited = edit::remove(&self.text, path).and_then(|text| verify_text(text, &wanted));
        let removed = edited.is_some();
        self.apply_edit(path, edited);
        removed
    }

    /// The first way of writing the values that gives the wanted document.
    fn render_verified(
        &self,
        wanted: &Value,
        edit: impl Fn(&str, Rendering) -> Option<String>,
    ) -> Option<(String, Value)> {
        [Rendering::Block, Rendering::Flow]
            .into_iter()
            .find_map(|rendering| verify_text(edit(&self.text, rendering)?, wanted))
    }

    fn apply_edit(&mut self, path: &[&str], edited: Option<(String, Value)>) {
        match edited {
            Some((text, document)) => {
                self.text = text;
                self.document = document;
            }
            None => self.failed_key = self.failed_key.take().or(Some(path.join("."))),
        }
    }

    /// The text as it would be saved.
    pub fn text(&self) -> String {
        self.text.clone()
    }

    /// Writes the text in one step, after making sure that it loads. A link is followed and the mode kept.
    pub fn save(&self) -> Result<(), ConfigFileError> {
        let path = &self.path;
        self.checked_text()?;
        replace_file(path, self.text.as_bytes()).map_err(|source| ConfigFileError::Io {
            path: path.clone(),
            source,
        })
    }

    /// The text that would be saved, after making sure that it loads: for whoever writes the file by other means.
    pub fn checked_text(&self) -> Result<&str, ConfigFileError> {
        if let Some(key) = &self.failed_key {
            return Err(ConfigFileError::NotEditable {
                path: self.path.clone(),
                key: key.clone(),
            });
        }
        Settings::parse(&self.text, Variables::default())
            .map_err(|error| error.in_file(self.path.clone()))?;
        Ok(&self.text)
    }
}

/// The text with what it says, if that is what was wanted.
fn verify_text(text: String, wanted: &Value) -> Option<(String, Value)> {
    let document = yaml::parse(&text).ok()?;
    document::is_equivalent(&document, wanted).then_some((text, document))
}

#[cfg(test)]
mod tests;
