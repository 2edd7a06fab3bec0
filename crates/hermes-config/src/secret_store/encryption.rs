//! Encryption of a home's secrets: XChaCha20-Poly1305, each value bound to its name.

use crate::{private_file::write_private, random::random_bytes};
use std::{fs, io, path::Path};

use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};

use super::SecretStoreError;
use crate::{
    Secret,
    hex::{from_hex, to_hex},
};

const NONCE_BYTES: usize = 24;
/// The version of the format, at the beginning of every encrypted value.
const FORMAT_PREFIX: &str = "1:";

pub(super) struct EncryptionKey(XChaCha20Poly1305);

impl EncryptionKey {
    /// The key in a file, if the file is there.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, SecretStoreError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                let path = path.to_owned();
                return Err(SecretStoreError::File { path, source });
            }
        };
        let bytes = from_hex(text.trim()).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        match bytes {
            Some(bytes) => Ok(Some(Self::from_bytes(bytes))),
            None => Err(SecretStoreError::InvalidKeyFile { path: path.into() }),
        }
    }

    /// A new key, written to a file for its owner alone.
    pub(super) fn generate(path: &Path) -> Result<Self, SecretStoreError> {
        let bytes = random_bytes::<32>()?;
        let text = format!("{}\n", to_hex(&bytes));
        write_private(path, text.as_bytes()).map_err(|source| SecretStoreError::File {
            path: path.into(),
            source,
        })?;
        Ok(Self::from_bytes(bytes))
    }

    fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(XChaCha20Poly1305::new(&chacha20poly1305::Key::from(bytes)))
    }

    /// Seals a value for a name.
    pub(super) fn encrypt(
        &self,
        name: &str,
        value: &Secret<String>,
    ) -> Result<String, SecretStoreError> {
        let nonce = random_bytes::<NONCE_BYTES>()?;
        let payload = Payload {
            msg: value.expose().as_bytes(),
            aad: name.as_bytes(),
        };
        let sealed = self.0.encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed.map_err(|_| SecretStoreError::Damaged { name: name.into() })?;
        Ok(format!(
            "{FORMAT_PREFIX}{}{}",
            to_hex(&nonce),
            to_hex(&sealed)
        ))
    }

    /// Opens what was sealed for a name.
    pub(super) fn decrypt(&self, name: &str, sealed: &str) -> Option<Secret<String>> {
        let bytes = from_hex(sealed.strip_prefix(FORMAT_PREFIX)?)?;
        let (nonce, text) = bytes.split_first_chunk::<NONCE_BYTES>()?;
        let payload = Payload {
            msg: text,
            aad: name.as_bytes(),
        };
        let value = self.0.decrypt(&XNonce::from(*nonce), payload).ok()?;
        String::from_utf8(value).ok().map(Secret::new)
    }
}
