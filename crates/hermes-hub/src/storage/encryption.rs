//! Encryption of secrets at rest, with a key in a file outside the database.

use std::{fmt, fs, io, path::Path};

use chacha20poly1305::{
    Key, KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use hermes_config::{Secret, random::random_bytes};

use crate::storage::state::{State, StateError};

const NONCE_BYTES: usize = 24;
/// The first byte of an encrypted value.
const FORMAT_VERSION: u8 = 1;
/// The name of an encrypted value in the database, to check whether a key is the right one.
const KEY_CHECK: &str = "secret_key_check";

/// An encrypted value.
#[derive(Clone, PartialEq, Eq)]
pub struct EncryptedSecret(Vec<u8>);

impl EncryptedSecret {
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for EncryptedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealed")
    }
}

/// The associated data of a value: it cannot be decrypted in another place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncryptionContext(String);

impl EncryptionContext {
    pub fn variable(tenant_uid: &str, name: &str) -> Self {
        Self(format!("env:{tenant_uid}:{name}"))
    }

    pub fn runtime_key(tenant_uid: &str) -> Self {
        Self(format!("runtime_key:{tenant_uid}"))
    }

    /// The stored reply of a request with this idempotency key.
    pub fn reply(key: &str) -> Self {
        Self(format!("reply:{key}"))
    }

    fn key_check() -> Self {
        Self("check".into())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum EncryptionError {
    #[error(
        "the secret key `{path}` is missing, and the database has secrets that only it decrypts; put the file back, or restore a backup made with its key"
    )]
    KeyMissing { path: String },
    #[error(
        "the secret key `{path}` is not the one that encrypted the database's secrets; put the right file back"
    )]
    WrongKey { path: String },
    #[error(
        "`{path}` does not contain a secret key: 64 hexadecimal digits are expected; put the right file back"
    )]
    InvalidKey { path: String },
    #[error("the secret key `{path}`: {source}")]
    File { path: String, source: io::Error },
    /// The value is damaged, or was encrypted for another context or with another key.
    #[error("a stored secret cannot be decrypted; set it again")]
    Damaged,
    #[error("the system's random generator failed: {0}")]
    Random(#[from] hermes_config::random::RandomError),
    #[error(transparent)]
    State(#[from] StateError),
}

/// The key that encrypts and decrypts secrets.
#[derive(Clone)]
pub struct SecretKey(XChaCha20Poly1305);

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey")
    }
}

impl SecretKey {
    /// Loads the key from this file; generates it if the file is missing and nothing is encrypted yet. Checks that it
    /// is the key of the database's secrets.
    pub async fn load(path: &Path, state: &dyn State) -> Result<Self, EncryptionError> {
        let shown = path.display().to_string();
        let has_sealed = state.has_encrypted().await?;
        let key = match read_key_file(path) {
            Ok(Some(bytes)) => Self::from_bytes(bytes),
            Ok(None) => return Err(EncryptionError::InvalidKey { path: shown }),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(EncryptionError::File {
                    path: shown,
                    source: error,
                });
            }
            Err(_) if has_sealed => return Err(EncryptionError::KeyMissing { path: shown }),
            Err(_) => Self::generate(path)?,
        };
        let check = state
            .meta(KEY_CHECK)
            .await?
            .map(EncryptedSecret::from_bytes);
        let opens =
            check.is_some_and(|check| key.decrypt(&EncryptionContext::key_check(), &check).is_ok());
        if !opens {
            if has_sealed {
                return Err(EncryptionError::WrongKey { path: shown });
            }
            let sealed = key.encrypt(&EncryptionContext::key_check(), "hermes")?;
            state.set_meta(KEY_CHECK, sealed.as_bytes()).await?;
        }
        Ok(key)
    }

    pub fn encrypt(
        &self,
        context: &EncryptionContext,
        value: &str,
    ) -> Result<EncryptedSecret, EncryptionError> {
        let nonce = random_bytes::<NONCE_BYTES>()?;
        let payload = Payload {
            msg: value.as_bytes(),
            aad: context.0.as_bytes(),
        };
        let text = self
            .0
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| EncryptionError::Damaged)?;
        let mut bytes = vec![FORMAT_VERSION];
        bytes.extend(nonce);
        bytes.extend(text);
        Ok(EncryptedSecret(bytes))
    }

    pub fn decrypt(
        &self,
        context: &EncryptionContext,
        sealed: &EncryptedSecret,
    ) -> Result<Secret<String>, EncryptionError> {
        let rest = sealed
            .0
            .strip_prefix(&[FORMAT_VERSION])
            .ok_or(EncryptionError::Damaged)?;
        let (nonce, text) = rest
            .split_first_chunk::<NONCE_BYTES>()
            .ok_or(EncryptionError::Damaged)?;
        let payload = Payload {
            msg: text,
            aad: context.0.as_bytes(),
        };
        let value = self
            .0
            .decrypt(&XNonce::from(*nonce), payload)
            .map_err(|_| EncryptionError::Damaged)?;
        String::from_utf8(value)
            .map(Secret::new)
            .map_err(|_| EncryptionError::Damaged)
    }

    fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(XChaCha20Poly1305::new(&Key::from(bytes)))
    }

    fn generate(path: &Path) -> Result<Self, EncryptionError> {
        let bytes = random_bytes::<32>()?;
        let text = format!("{}\n", crate::api_types::ids::hex(&bytes));
        hermes_config::private_file::write_private(path, text.as_bytes()).map_err(|source| {
            EncryptionError::File {
                path: path.display().to_string(),
                source,
            }
        })?;
        Ok(Self::from_bytes(bytes))
    }
}

/// The key's bytes; `None` if the file contains something else.
fn read_key_file(path: &Path) -> io::Result<Option<[u8; 32]>> {
    let text = fs::read_to_string(path)?;
    let digits = text.trim();
    if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(None);
    }
    let mut bytes = [0; 32];
    for (index, byte) in bytes.iter_mut().enumerate() {
        match u8::from_str_radix(&digits[2 * index..2 * index + 2], 16) {
            Ok(value) => *byte = value,
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_value_opens_only_in_its_place_and_with_its_key() {
        let key = SecretKey::from_bytes([7; 32]);
        let context = EncryptionContext::variable("uid", "API_KEY");
        let sealed = key.encrypt(&context, "hunter2").unwrap();
        assert_eq!(key.decrypt(&context, &sealed).unwrap().expose(), "hunter2");
        assert!(
            key.decrypt(&EncryptionContext::variable("uid", "OTHER"), &sealed)
                .is_err()
        );
        assert!(
            key.decrypt(&EncryptionContext::variable("uid2", "API_KEY"), &sealed)
                .is_err()
        );
        assert!(
            SecretKey::from_bytes([8; 32])
                .decrypt(&context, &sealed)
                .is_err()
        );
    }

    #[test]
    fn a_changed_byte_anywhere_is_noticed() {
        let key = SecretKey::from_bytes([7; 32]);
        let context = EncryptionContext::runtime_key("uid");
        let sealed = key.encrypt(&context, "value").unwrap();
        for at in 0..sealed.0.len() {
            let mut bytes = sealed.0.clone();
            bytes[at] ^= 1;
            assert!(
                key.decrypt(&context, &EncryptedSecret(bytes)).is_err(),
                "at {at}"
            );
        }
        assert!(key.decrypt(&context, &EncryptedSecret(Vec::new())).is_err());
    }

    #[test]
    fn neither_key_nor_value_shows() {
        let key = SecretKey::from_bytes([7; 32]);
        let sealed = key
            .encrypt(&EncryptionContext::key_check(), "hunter2")
            .unwrap();
        assert_eq!(format!("{key:?} {sealed:?}"), "SecretKey Sealed");
        assert!(!sealed.0.windows(7).any(|part| part == b"hunter2"));
        let again = key
            .encrypt(&EncryptionContext::key_check(), "hunter2")
            .unwrap();
        assert_ne!(sealed, again, "two seals of one value look the same");
    }
}
