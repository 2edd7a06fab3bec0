//! Encryption of secrets at rest, with a key in a file outside the database.

use std::{fmt, fs, io, path::Path};

use chacha20poly1305::{
    Key, KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use hermes_config::{Secret, random::random_bytes};
use sha2::{Digest, Sha256};

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

    /// A part of a file of a home.
    pub(crate) fn chunk(tenant_uid: &str, name: &str) -> Self {
        Self(format!("chunk:{tenant_uid}:{name}"))
    }

    /// The list of a home's files at a checkpoint.
    pub(crate) fn manifest(tenant_uid: &str, checkpoint: &str) -> Self {
        Self(format!("manifest:{tenant_uid}:{checkpoint}"))
    }

    /// The stored reply of a request with this idempotency key.
    pub fn reply(key: &str) -> Self {
        Self(format!("reply:{key}"))
    }

    /// A sign-in at an identity provider, in the cookie of the browser that has begun it.
    pub(crate) fn sign_in() -> Self {
        Self("sign_in".into())
    }

    /// The ID token that somebody signed in with, which signs them out at the provider.
    pub(crate) fn id_token(subject: &str) -> Self {
        Self(format!("id_token:{subject}"))
    }

    /// What a login to an MCP server brings back.
    pub fn login_state() -> Self {
        Self("login_state".into())
    }

    /// The secret of a webhook.
    pub fn webhook(id: &str) -> Self {
        Self(format!("webhook:{id}"))
    }

    fn key_check() -> Self {
        Self("check".into())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum EncryptionError {
    #[error(
        "the secret key `{path}` is missing, and the database has secrets that only it decrypts; put the file back, copy it from another node, or restore a backup made with its key"
    )]
    KeyMissing { path: String },
    #[error(
        "the secret key `{path}` is not the one that encrypted the database's secrets; put the right file back, or copy it from another node"
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
pub struct SecretKey {
    cipher: XChaCha20Poly1305,
    /// Derived from the key, for [`Self::name_of`].
    naming: [u8; 32],
}

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
        let check = state.meta(KEY_CHECK).await?;
        // Another node may encrypt with the key that the check was made with, even if there is nothing encrypted yet.
        let must_open =
            state.has_encrypted().await? || (state.has_other_nodes() && check.is_some());
        let key = match read_key_file(path) {
            Ok(Some(bytes)) => Self::from_bytes(bytes),
            Ok(None) => return Err(EncryptionError::InvalidKey { path: shown }),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(EncryptionError::File {
                    path: shown,
                    source: error,
                });
            }
            Err(_) if must_open => return Err(EncryptionError::KeyMissing { path: shown }),
            Err(_) => Self::generate(path)?,
        };
        if check.as_ref().is_some_and(|check| key.opens_check(check)) {
            return Ok(key);
        }
        if must_open {
            return Err(EncryptionError::WrongKey { path: shown });
        }
        let sealed = key.encrypt(&EncryptionContext::key_check(), "hermes")?;
        if check.is_some() {
            state.set_meta(KEY_CHECK, sealed.as_bytes()).await?;
            return Ok(key);
        }
        // Nodes that start together for the first time may each have made a key.
        let stored = state.init_meta(KEY_CHECK, sealed.as_bytes()).await?;
        if !key.opens_check(&stored) {
            return Err(EncryptionError::WrongKey { path: shown });
        }
        Ok(key)
    }

    fn opens_check(&self, check: &[u8]) -> bool {
        let check = EncryptedSecret::from_bytes(check.to_vec());
        self.decrypt(&EncryptionContext::key_check(), &check)
            .is_ok()
    }

    pub fn encrypt(
        &self,
        context: &EncryptionContext,
        value: &str,
    ) -> Result<EncryptedSecret, EncryptionError> {
        self.encrypt_bytes(context, value.as_bytes())
            .map(EncryptedSecret)
    }

    pub(crate) fn encrypt_bytes(
        &self,
        context: &EncryptionContext,
        value: &[u8],
    ) -> Result<Vec<u8>, EncryptionError> {
        let nonce = random_bytes::<NONCE_BYTES>()?;
        let payload = Payload {
            msg: value,
            aad: context.0.as_bytes(),
        };
        let text = self
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| EncryptionError::Damaged)?;
        let mut bytes = Vec::with_capacity(1 + nonce.len() + text.len());
        bytes.push(FORMAT_VERSION);
        bytes.extend(nonce);
        bytes.extend(text);
        Ok(bytes)
    }

    /// A name for content that says nothing of it to those who do not have the key.
    pub(crate) fn name_of(&self, content: &[u8]) -> String {
        let mut hash = Sha256::new();
        hash.update(self.naming);
        hash.update(Sha256::digest(content));
        crate::api_types::ids::hex(&hash.finalize())
    }

    pub fn decrypt(
        &self,
        context: &EncryptionContext,
        sealed: &EncryptedSecret,
    ) -> Result<Secret<String>, EncryptionError> {
        let value = self.decrypt_bytes(context, &sealed.0)?;
        String::from_utf8(value)
            .map(Secret::new)
            .map_err(|_| EncryptionError::Damaged)
    }

    pub(crate) fn decrypt_bytes(
        &self,
        context: &EncryptionContext,
        sealed: &[u8],
    ) -> Result<Vec<u8>, EncryptionError> {
        let rest = sealed
            .strip_prefix(&[FORMAT_VERSION])
            .ok_or(EncryptionError::Damaged)?;
        let (nonce, text) = rest
            .split_first_chunk::<NONCE_BYTES>()
            .ok_or(EncryptionError::Damaged)?;
        let payload = Payload {
            msg: text,
            aad: context.0.as_bytes(),
        };
        self.cipher
            .decrypt(&XNonce::from(*nonce), payload)
            .map_err(|_| EncryptionError::Damaged)
    }

    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Self {
        let mut naming = Sha256::new();
        naming.update(b"hermes-hub names of contents");
        naming.update(bytes);
        Self {
            cipher: XChaCha20Poly1305::new(&Key::from(bytes)),
            naming: naming.finalize().into(),
        }
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
