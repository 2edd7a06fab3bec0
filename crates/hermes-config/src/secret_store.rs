//! Secrets by name, for `${keyring:NAME}`: in the system's keyring where there is one, else encrypted in a file of the home.
//!
//! `secrets.json` lists every name and says where its value is. Encrypted values need `secrets.key`, which is made
//! when it is first needed: the list alone, in a backup or a synchronised folder, discloses nothing.

use crate::private_file::write_private;
use std::{collections::BTreeMap, fmt, fs, io, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Home, Secret, Variables};

mod encryption;
mod keyring;

use crate::secret_store::{encryption::EncryptionKey, keyring::SystemKeyring};

const MAX_NAME_LENGTH: usize = 128;

#[derive(Debug)]
pub struct SecretStore {
    home: Home,
    keyring: Option<SystemKeyring>,
}

/// Where a secret is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretLocation {
    /// In the system's keyring.
    Keyring,
    /// In the home, sealed.
    File,
}

impl fmt::Display for SecretLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keyring => "the system's keyring",
            Self::File => "an encrypted file of the home",
        })
    }
}

/// Why a secret cannot be kept or read. No variant holds a value.
#[derive(Debug, thiserror::Error)]
pub enum SecretStoreError {
    #[error("there is no secret of that name; `hermes secret set {name}` stores one")]
    Missing { name: String },
    /// The name cannot be written in a reference.
    #[error(
        "`{name}` is not a name for a secret: use letters, digits and `_ - . / @`, at most {MAX_NAME_LENGTH} of them"
    )]
    BadName { name: String },
    /// The value is empty.
    #[error("the secret is empty")]
    Empty,
    /// The system's keyring does not answer.
    #[error("the system's keyring did not answer: {reason}; unlock it, or set the secret again")]
    Keyring { reason: String },
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
    #[error("`{}` does not contain a key: 64 hexadecimal digits are expected; put the right file back", path.display())]
    InvalidKeyFile { path: PathBuf },
    /// The value was damaged, moved to another name, or sealed with another key.
    #[error(
        "the secret cannot be decrypted with the home's key; `hermes secret set {name}` stores it again"
    )]
    Damaged { name: String },
    /// The list cannot be understood.
    #[error("`{}` is not a list of secrets: {reason}; repair or remove it", path.display())]
    InvalidList { path: PathBuf, reason: String },
    /// A file cannot be read or written.
    #[error("`{}`: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// The system gives no random bytes.
    #[error("the system's random generator failed: {0}")]
    Random(#[from] getrandom::Error),
}

/// One line of the list.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredSecret {
    Keyring,
    Sealed(String),
}

type SecretList = BTreeMap<String, StoredSecret>;

impl SecretStore {
    /// For a home of the user's own: with the system's keyring, if there is one.
    pub fn for_user(home: &Home, variables: &Variables) -> Self {
        Self {
            home: home.clone(),
            keyring: SystemKeyring::find(variables),
        }
    }

    /// The home's file alone.
    pub fn file_only(home: &Home) -> Self {
        Self {
            home: home.clone(),
            keyring: None,
        }
    }

    /// The value kept under a name. The system's keyring may take a while to answer, or ask its user.
    pub fn get(&self, name: &str) -> Result<Secret<String>, SecretStoreError> {
        match self.read_list()?.get(name) {
            Some(StoredSecret::Sealed(sealed)) => self.decrypt(name, sealed),
            // What another program keeps for us is not on the list.
            Some(StoredSecret::Keyring) | None => self.get_from_keyring(name),
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
    pub fn set(
        &self,
        name: &str,
        value: &Secret<String>,
    ) -> Result<SecretLocation, SecretStoreError> {
        Self::check_name(name)?;
        if value.expose().is_empty() {
            return Err(SecretStoreError::Empty);
        }
        let _one_at_a_time = self.lock()?;
        let mut list = self.read_list()?;
        let (kept, place) = if let Some(system) = &self.keyring {
            system
                .set(name, value)
                .map_err(|reason| SecretStoreError::Keyring { reason })?;
            (StoredSecret::Keyring, SecretLocation::Keyring)
        } else {
            let has_sealed = list
                .values()
                .any(|kept| matches!(kept, StoredSecret::Sealed(_)));
            let key = self.encryption_key(has_sealed)?;
            (
                StoredSecret::Sealed(key.encrypt(name, value)?),
                SecretLocation::File,
            )
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
            Some(StoredSecret::Sealed(_)) => {}
            Some(StoredSecret::Keyring) => match &self.keyring {
                Some(system) => system
                    .remove(name)
                    .map_err(|reason| SecretStoreError::Keyring { reason })?,
                None => return Err(no_keyring_error()),
            },
        }
        self.write_list(&list)?;
        Ok(true)
    }

    /// All names, in order, and where their values are.
    pub fn list(&self) -> Result<Vec<(String, SecretLocation)>, SecretStoreError> {
        let list = self.read_list()?.into_iter();
        Ok(list
            .map(|(name, kept)| match kept {
                StoredSecret::Keyring => (name, SecretLocation::Keyring),
                StoredSecret::Sealed(_) => (name, SecretLocation::File),
            })
            .collect())
    }

    fn get_from_keyring(&self, name: &str) -> Result<Secret<String>, SecretStoreError> {
        match &self.keyring {
            Some(system) => system
                .get(name)
                .map_err(|reason| SecretStoreError::Keyring { reason })?
                .ok_or_else(|| SecretStoreError::Missing { name: name.into() }),
            None if self.read_list()?.contains_key(name) => Err(no_keyring_error()),
            None => Err(SecretStoreError::Missing { name: name.into() }),
        }
    }

    fn decrypt(&self, name: &str, sealed: &str) -> Result<Secret<String>, SecretStoreError> {
        let path = self.home.secret_key_file();
        let key = EncryptionKey::read(&path)?.ok_or(SecretStoreError::KeyMissing { path })?;
        key.decrypt(name, sealed)
            .ok_or_else(|| SecretStoreError::Damaged { name: name.into() })
    }

    /// A lost key is not replaced while there is something that only it opens.
    fn encryption_key(&self, has_sealed: bool) -> Result<EncryptionKey, SecretStoreError> {
        let path = self.home.secret_key_file();
        match EncryptionKey::read(&path)? {
            Some(key) => Ok(key),
            None if has_sealed => Err(SecretStoreError::KeyMissing { path }),
            None => EncryptionKey::generate(&path),
        }
    }

    fn read_list(&self) -> Result<SecretList, SecretStoreError> {
        let path = self.home.secrets_file();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(SecretList::new()),
            Err(source) => return Err(SecretStoreError::File { path, source }),
        };
        serde_json::from_slice(&text).map_err(|error| SecretStoreError::InvalidList {
            path,
            reason: error.to_string(),
        })
    }

    fn write_list(&self, list: &SecretList) -> Result<(), SecretStoreError> {
        let path = self.home.secrets_file();
        let text = serde_json::to_vec_pretty(list).unwrap_or_default();
        write_private(&path, &text).map_err(|source| SecretStoreError::File { path, source })
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

fn no_keyring_error() -> SecretStoreError {
    SecretStoreError::Keyring {
        reason: "there is none in this session".into(),
    }
}

fn is_name(name: &str) -> bool {
    let is_fine = |letter: char| letter.is_ascii_alphanumeric() || "_-./@".contains(letter);
    !name.is_empty() && name.len() <= MAX_NAME_LENGTH && name.chars().all(is_fine)
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
