//! The pairing files: where they are, reading them leniently, writing them private and whole.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hermes_config::{
    Home,
    private_file::{FileOwner, create_private_dirs, open_lock_file, write_private},
};
use serde_json::{Map, Value};

use super::{PairingDirectory, PairingError, PairingLocation};
use crate::lock_with_timeout;

/// How long another process may hold the files.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

const LOCK: &str = ".lock";
const LIMITS: &str = "_rate_limits.json";

/// The files of the process's own home.
pub(super) struct HomeFiles {
    home: PathBuf,
}

impl HomeFiles {
    pub(super) fn new(home: &Home) -> Self {
        Self {
            home: home.path().to_owned(),
        }
    }

    fn directory(&self, place: PairingLocation) -> PathBuf {
        self.home.join(place.path())
    }
}

impl PairingDirectory for HomeFiles {
    fn read(&self, place: PairingLocation, name: &str) -> io::Result<Option<String>> {
        match fs::read_to_string(self.directory(place).join(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&self, place: PairingLocation, name: &str, content: &[u8]) -> io::Result<()> {
        write_private(&self.directory(place).join(name), content)
    }

    fn names(&self, place: PairingLocation) -> Vec<String> {
        let entries = fs::read_dir(self.directory(place)).into_iter().flatten();
        entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect()
    }

    fn lock(&self, place: PairingLocation) -> io::Result<fs::File> {
        let directory = self.directory(place);
        create_private_dirs(&directory, FileOwner::Writer)?;
        let file = open_lock_file(&directory.join(LOCK), FileOwner::Writer)?;
        lock_with_timeout(&file, LOCK_TIMEOUT)?;
        Ok(file)
    }
}

#[derive(Clone)]
pub(super) struct PairingFiles(Arc<dyn PairingDirectory>);

impl PairingFiles {
    pub(super) fn new(directory: Arc<dyn PairingDirectory>) -> Self {
        Self(directory)
    }

    /// The usual one; or the other where Hermes 0.19 keeps them there and nothing is in the former.
    fn place(&self) -> PairingLocation {
        if !self.has_files(PairingLocation::Usual) && self.has_files(PairingLocation::Other) {
            return PairingLocation::Other;
        }
        PairingLocation::Usual
    }

    /// Keeps other processes from writing until it is dropped.
    pub(super) fn lock(&self) -> Result<fs::File, PairingError> {
        let place = self.place();
        self.0
            .lock(place)
            .map_err(|source| storage_error(place, source))
    }

    pub(super) fn read_pending(&self, account: &str) -> Map<String, Value> {
        self.read_json(self.place(), &file_name(account, "pending"))
    }

    pub(super) fn read_approved(&self, account: &str) -> Map<String, Value> {
        self.read_json(self.place(), &file_name(account, "approved"))
    }

    pub(super) fn read_limits(&self) -> Map<String, Value> {
        self.read_json(self.place(), LIMITS)
    }

    pub(super) fn write_pending(
        &self,
        account: &str,
        content: &Map<String, Value>,
    ) -> Result<(), PairingError> {
        self.write_json(self.place(), &file_name(account, "pending"), content)
    }

    pub(super) fn write_approved(
        &self,
        account: &str,
        content: &Map<String, Value>,
    ) -> Result<(), PairingError> {
        self.write_json(self.place(), &file_name(account, "approved"), content)
    }

    pub(super) fn write_limits(&self, content: &Map<String, Value>) -> Result<(), PairingError> {
        self.write_json(self.place(), LIMITS, content)
    }

    /// Takes a user out of both directories: 0.19 would merge one that is left in the other.
    pub(super) fn remove_approved(
        &self,
        account: &str,
        user_id: &str,
    ) -> Result<bool, PairingError> {
        let mut was_there = false;
        for place in PairingLocation::ALL {
            let name = file_name(account, "approved");
            let mut approved = self.read_json(place, &name);
            if approved.remove(user_id).is_some() {
                self.write_json(place, &name, &approved)?;
                was_there = true;
            }
        }
        Ok(was_there)
    }

    /// The accounts that have a file of that kind, in order.
    pub(super) fn accounts(&self, kind: &str) -> Vec<String> {
        let ending = format!("-{kind}.json");
        let names = self.0.names(self.place()).into_iter();
        let mut accounts: Vec<String> = names
            .filter_map(|name| name.strip_suffix(&ending).map(str::to_owned))
            .filter(|account| !account.starts_with('_'))
            .collect();
        accounts.sort();
        accounts
    }

    /// Whether a directory has a pairing file.
    fn has_files(&self, place: PairingLocation) -> bool {
        let names = self.0.names(place);
        let is_json = |name: &String| Path::new(name).extension().is_some_and(|end| end == "json");
        names.iter().any(is_json)
    }

    /// A file that is missing or cannot be read lets nobody in.
    fn read_json(&self, place: PairingLocation, name: &str) -> Map<String, Value> {
        let text = match self.0.read(place, name) {
            Ok(Some(text)) => text,
            Ok(None) => return Map::new(),
            Err(error) => {
                tracing::warn!(file = name, %error, "a pairing file cannot be read");
                return Map::new();
            }
        };
        let Ok(Value::Object(map)) = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        else {
            tracing::warn!(
                file = name,
                "a pairing file is not a JSON object and is ignored"
            );
            return Map::new();
        };
        map
    }

    fn write_json(
        &self,
        place: PairingLocation,
        name: &str,
        content: &Map<String, Value>,
    ) -> Result<(), PairingError> {
        let written = serde_json::to_string_pretty(content)
            .map_err(io::Error::other)
            .and_then(|text| self.0.write(place, name, text.as_bytes()));
        written.map_err(|source| storage_error(place, source))
    }
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

fn storage_error(place: PairingLocation, source: io::Error) -> PairingError {
    PairingError::Storage {
        directory: place.path().to_owned(),
        source,
    }
}
