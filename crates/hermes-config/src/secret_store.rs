//! Secrets by name, for `${keyring:NAME}`: in the system's keyring where there is one, else encrypted in a file of the home.
//!
//! `secrets.json` lists every name and says where its value is. Encrypted values need `secrets.key`, which is made
//! when it is first needed: the list alone, in a backup or a synchronised folder, discloses nothing.

use std::{collections::BTreeMap, fmt, fs, io, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Home, Secret, Variables, atomic};

mod seal;
mod system;

use seal::Key;
use system::SystemKeyring;

const LONGEST_NAME: usize = 128;

#[derive(Debug)]
pub struct SecretStore {
    home: Home,
    system: Option<SystemKeyring>,
}

/// Where a secret is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretPlace {
    /// In the system's keyring.
    Keyring,
    /// In the home, sealed.
    File,
}

impl fmt::Display for SecretPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keyring => "the system's keyring",
            Self::File => "a sealed file of the home",
        })
    }
}

/// Why a secret cannot be kept or read. No variant holds a value.
#[derive(Debug, thiserror::Error)]
pub enum SecretStoreError {
    #[error("there is no secret of that name; `hermes secret set {name}` stores one")]
    Missing {
        name: String,
    },
    /// The name cannot be written in a reference.
    #[error(
        "`{name}` is not a name for a secret: use letters, digits and `_ - . / @`, at most {LONGEST_NAME} of them"
    )]
    BadName {
        name: String,
    },
    /// The value is empty.
    #[error("the secret is empty")]
    Empty,
    /// The system's keyring does not answer.
    #[error("the system's keyring did not answer: {reason}; unlock it, or set the secret again")]
    Keyring {
        reason: String,
    },
    /// The key's file is gone.
    #[error(
        "`{}` is missing, and only it decrypts the stored secrets; put it back, or set the secrets again",
        path.display()
    )]
    KeyMissing {
        /// Where it would be.
        path: PathBuf,
    },
    /// The file holds no key.
    #[error("`{}` holds no key: 64 hexadecimal digits are expected; put the right file back", path.display())]
    NoKey {
        path: PathBuf,
    },
    /// The value was damaged, moved to another name, or sealed with another key.
    #[error(
        "the secret cannot be decrypted with the home's key; `hermes secret set {name}` stores it again"
    )]
    Damaged {
        name: String,
    },
    /// The list cannot be understood.
    #[error("`{}` is not a list of secrets: {reason}; repair or remove it", path.display())]
    BadList {
        path: PathBuf,
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("`{}`: {source}", path.display())]
    File {
        path: PathBuf,
        source: io::Error,
    },
    /// The system gives no random bytes.
    #[error("the system did not give random bytes: {0}")]
    Random(#[from] getrandom::Error),
}

/// One line of the list.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kept {
    Keyring,
    Sealed(String),
}

type List = BTreeMap<String, Kept>;

impl SecretStore {
    /// For a home of the user's own: with the system's keyring, if there is one.
    pub fn of_user(home: &Home, variables: &Variables) -> Self {
        Self {
            home: home.clone(),
            system: SystemKeyring::find(variables),
        }
    }

    /// The home's file alone.
    pub fn sealed(home: &Home) -> Self {
        Self {
            home: home.clone(),
            system: None,
        }
    }

    /// The value kept under a name. The system's keyring may take a while to answer, or ask its user.
    pub fn get(&self, name: &str) -> Result<Secret<String>, SecretStoreError> {
        match self.read_list()?.get(name) {
            Some(Kept::Sealed(sealed)) => self.open(name, sealed),
            // What another program keeps for us is not on the list.
            Some(Kept::Keyring) | None => self.get_from_system(name),
        }
    }

    /// Whether a value can be kept under this name.
    pub fn check_name(name: &str) -> Result<(), SecretStoreError> {
        if is_name(name) {
            return Ok(());
        }
        Err(SecretStoreError::BadName { name: name.into() })
    }

    /// Keeps a value, in the place of an earlier one.
    pub fn set(&self, name: &str, value: &Secret<String>) -> Result<SecretPlace, SecretStoreError> {
        Self::check_name(name)?;
        if value.expose().is_empty() {
            return Err(SecretStoreError::Empty);
        }
        let _one_at_a_time = self.lock()?;
        let mut list = self.read_list()?;
        let (kept, place) = if let Some(system) = &self.system {
            system
                .set(name, value)
                .map_err(|reason| SecretStoreError::Keyring { reason })?;
            (Kept::Keyring, SecretPlace::Keyring)
        } else {
            let has_sealed = list.values().any(|kept| matches!(kept, Kept::Sealed(_)));
            let key = self.key_for_sealing(has_sealed)?;
            (Kept::Sealed(key.seal(name, value)?), SecretPlace::File)
        };
        list.insert(name.to_owned(), kept);
        self.write_list(&list)?;
        Ok(place)
    }

    /// Forgets a value. `false`: there was none.
    pub fn remove(&self, name: &str) -> Result<bool, SecretStoreError> {
        let _one_at_a_time = self.lock()?;
        let mut list = self.read_list()?;
        match list.remove(name) {
            None => return Ok(false),
            Some(Kept::Sealed(_)) => {}
            Some(Kept::Keyring) => match &self.system {
                Some(system) => system
                    .remove(name)
                    .map_err(|reason| SecretStoreError::Keyring { reason })?,
                None => return Err(no_system_keyring()),
            },
        }
        self.write_list(&list)?;
        Ok(true)
    }

    /// All names, in order, and where their values are.
    pub fn list(&self) -> Result<Vec<(String, SecretPlace)>, SecretStoreError> {
        let list = self.read_list()?.into_iter();
        Ok(list
            .map(|(name, kept)| match kept {
                Kept::Keyring => (name, SecretPlace::Keyring),
                Kept::Sealed(_) => (name, SecretPlace::File),
            })
            .collect())
    }

    fn get_from_system(&self, name: &str) -> Result<Secret<String>, SecretStoreError> {
        match &self.system {
            Some(system) => system
                .get(name)
                .map_err(|reason| SecretStoreError::Keyring { reason })?
                .ok_or_else(|| SecretStoreError::Missing { name: name.into() }),
            None if self.read_list()?.contains_key(name) => Err(no_system_keyring()),
            None => Err(SecretStoreError::Missing { name: name.into() }),
        }
    }

    fn open(&self, name: &str, sealed: &str) -> Result<Secret<String>, SecretStoreError> {
        let path = self.home.secret_key_file();
        let key = Key::read(&path)?.ok_or(SecretStoreError::KeyMissing { path })?;
        key.open(name, sealed)
            .ok_or_else(|| SecretStoreError::Damaged { name: name.into() })
    }

    /// A lost key is not replaced while there is something that only it opens.
    fn key_for_sealing(&self, has_sealed: bool) -> Result<Key, SecretStoreError> {
        let path = self.home.secret_key_file();
        match Key::read(&path)? {
            Some(key) => Ok(key),
            None if has_sealed => Err(SecretStoreError::KeyMissing { path }),
            None => Key::make(&path),
        }
    }

    fn read_list(&self) -> Result<List, SecretStoreError> {
        let path = self.home.secrets_file();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(List::new()),
            Err(source) => return Err(SecretStoreError::File { path, source }),
        };
        serde_json::from_slice(&text).map_err(|error| SecretStoreError::BadList {
            path,
            reason: error.to_string(),
        })
    }

    fn write_list(&self, list: &List) -> Result<(), SecretStoreError> {
        let path = self.home.secrets_file();
        let text = serde_json::to_vec_pretty(list).unwrap_or_default();
        atomic::write(&path, &text).map_err(|source| SecretStoreError::File { path, source })
    }

    /// Held while the list is changed, also against other processes.
    fn lock(&self) -> Result<fs::File, SecretStoreError> {
        let lock = || -> io::Result<fs::File> {
            self.home.create()?;
            let directory = fs::File::open(self.home.path())?;
            directory.lock()?;
            Ok(directory)
        };
        lock().map_err(|source| SecretStoreError::File {
            path: self.home.path().to_owned(),
            source,
        })
    }
}

fn no_system_keyring() -> SecretStoreError {
    SecretStoreError::Keyring {
        reason: "there is none in this session".into(),
    }
}

fn is_name(name: &str) -> bool {
    let is_fine = |letter: char| letter.is_ascii_alphanumeric() || "_-./@".contains(letter);
    !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(is_fine)
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
