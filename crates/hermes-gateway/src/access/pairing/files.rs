//! The pairing files: where they are, reading them leniently, writing them private and whole.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use hermes_config::{
    Home,
    private_file::{FileOwner, create_private_dirs, open_lock_file, write_private},
};
use hermes_store::lock_with_timeout;
use serde_json::{Map, Value};

use super::PairingError;

/// How long another process may hold the files.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

const LIMITS: &str = "_rate_limits.json";

#[derive(Debug, Clone)]
pub(super) struct PairingFiles {
    home: PathBuf,
}

impl PairingFiles {
    pub(super) fn new(home: &Home) -> Self {
        Self {
            home: home.path().to_owned(),
        }
    }

    /// `pairing`; or `platforms/pairing` where Hermes 0.19 keeps them there and nothing is in the former.
    fn directory(&self) -> PathBuf {
        let [usual, other] = self.directories();
        if !has_files(&usual) && has_files(&other) {
            return other;
        }
        usual
    }

    fn directories(&self) -> [PathBuf; 2] {
        [
            self.home.join("pairing"),
            self.home.join("platforms").join("pairing"),
        ]
    }

    /// Keeps other processes from writing until it is dropped.
    pub(super) fn lock(&self) -> Result<fs::File, PairingError> {
        let directory = self.directory();
        lock_directory(&directory).map_err(|source| storage_error(&directory, source))
    }

    pub(super) fn read_pending(&self, account: &str) -> Map<String, Value> {
        read_json(&self.directory().join(file_name(account, "pending")))
    }

    pub(super) fn read_approved(&self, account: &str) -> Map<String, Value> {
        read_json(&self.directory().join(file_name(account, "approved")))
    }

    pub(super) fn read_limits(&self) -> Map<String, Value> {
        read_json(&self.directory().join(LIMITS))
    }

    pub(super) fn write_pending(
        &self,
        account: &str,
        content: &Map<String, Value>,
    ) -> Result<(), PairingError> {
        self.write(&file_name(account, "pending"), content)
    }

    pub(super) fn write_approved(
        &self,
        account: &str,
        content: &Map<String, Value>,
    ) -> Result<(), PairingError> {
        self.write(&file_name(account, "approved"), content)
    }

    pub(super) fn write_limits(&self, content: &Map<String, Value>) -> Result<(), PairingError> {
        self.write(LIMITS, content)
    }

    fn write(&self, name: &str, content: &Map<String, Value>) -> Result<(), PairingError> {
        let directory = self.directory();
        write_json(&directory.join(name), content)
            .map_err(|source| storage_error(&directory, source))
    }

    /// Takes a user out of both directories: 0.19 would merge one that is left in the other.
    pub(super) fn remove_approved(
        &self,
        account: &str,
        user_id: &str,
    ) -> Result<bool, PairingError> {
        let mut was_there = false;
        for directory in self.directories() {
            let path = directory.join(file_name(account, "approved"));
            let mut approved = read_json(&path);
            if approved.remove(user_id).is_some() {
                write_json(&path, &approved).map_err(|source| storage_error(&directory, source))?;
                was_there = true;
            }
        }
        Ok(was_there)
    }

    /// The accounts that have a file of that kind, in order.
    pub(super) fn accounts(&self, kind: &str) -> Vec<String> {
        let ending = format!("-{kind}.json");
        let names = fs::read_dir(self.directory()).into_iter().flatten();
        let mut accounts: Vec<String> = names
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(&ending).map(str::to_owned))
            .filter(|account| !account.starts_with('_'))
            .collect();
        accounts.sort();
        accounts
    }
}

fn lock_directory(directory: &Path) -> io::Result<fs::File> {
    create_private_dirs(directory, FileOwner::Writer)?;
    let file = open_lock_file(&directory.join(".lock"), FileOwner::Writer)?;
    lock_with_timeout(&file, LOCK_TIMEOUT)?;
    Ok(file)
}

/// Labels of accounts have no character that leads out of the directory; anything else is replaced.
fn file_name(account: &str, kind: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '@' | '_' | '-');
    let account: String = account
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect();
    format!("{account}-{kind}.json")
}

/// Whether a directory has a pairing file.
fn has_files(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        Path::new(&name)
            .extension()
            .is_some_and(|end| end == "json")
    })
}

/// A file that is missing or cannot be read lets nobody in.
fn read_json(path: &Path) -> Map<String, Value> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "a pairing file cannot be read");
            }
            return Map::new();
        }
    };
    let Ok(Value::Object(map)) = serde_json::from_str(text.trim_start_matches('\u{feff}')) else {
        tracing::warn!(path = %path.display(), "a pairing file is not a JSON object and is ignored");
        return Map::new();
    };
    map
}

fn write_json(path: &Path, content: &Map<String, Value>) -> io::Result<()> {
    let text = serde_json::to_string_pretty(content).map_err(io::Error::other)?;
    write_private(path, text.as_bytes())
}

fn storage_error(directory: &Path, source: io::Error) -> PairingError {
    PairingError::Storage {
        directory: directory.display().to_string(),
        source,
    }
}
