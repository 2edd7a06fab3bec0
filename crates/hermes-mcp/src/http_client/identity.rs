//! The client certificate of mutual TLS, with a key that may be encrypted.

use hermes_config::server::ClientCertificate;
use pkcs8::{EncryptedPrivateKeyInfoRef, LineEnding, SecretDocument};
use reqwest::Identity;

use super::{TlsError, read};

const ENCRYPTED_BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const ENCRYPTED_END: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// Marks a key in OpenSSL's own encryption, which has no modern replacement for its key derivation.
const OLD_ENCRYPTION: &str = "Proc-Type: 4,ENCRYPTED";

/// Reads certificate chain and private key, from one file or two.
pub(super) fn load(settings: &ClientCertificate) -> Result<Identity, TlsError> {
    let mut pem = text("client_cert", &settings.certificate)?;
    let key_path = match &settings.key {
        Some(key) => {
            pem.push('\n');
            pem.push_str(&text("client_key", key)?);
            key
        }
        None => &settings.certificate,
    };
    let pem = decrypt_key(pem, key_path, settings.passphrase.as_deref())?;
    Identity::from_pem(pem.as_bytes()).map_err(|_| TlsError::ClientCertificate {
        path: key_path.into(),
        reason: "no PEM certificate with its private key",
    })
}

fn text(key: &'static str, path: &str) -> Result<String, TlsError> {
    String::from_utf8(read(key, path)?).map_err(|_| TlsError::ClientCertificate {
        path: path.into(),
        reason: "no PEM text",
    })
}

/// Puts the readable key in the place of an encrypted one.
fn decrypt_key(pem: String, path: &str, passphrase: Option<&str>) -> Result<String, TlsError> {
    let encrypted = |reason| TlsError::EncryptedKey {
        path: path.into(),
        reason,
    };
    if pem.contains(OLD_ENCRYPTION) {
        return Err(encrypted(
            "in an old format; convert it with `openssl pkcs8 -topk8 -in OLD -out NEW`",
        ));
    }
    let Some((before, rest)) = pem.split_once(ENCRYPTED_BEGIN) else {
        return Ok(pem);
    };
    let (content, after) = rest
        .split_once(ENCRYPTED_END)
        .ok_or_else(|| encrypted("and cut short"))?;
    let passphrase = passphrase
        .ok_or_else(|| encrypted("give its pass phrase as the third item of `client_cert`"))?;

    let block = format!("{ENCRYPTED_BEGIN}{content}{ENCRYPTED_END}");
    let (_, document) = SecretDocument::from_pem(&block).map_err(|_| encrypted("and damaged"))?;
    let key = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes())
        .map_err(|_| encrypted("and damaged"))?
        .decrypt(passphrase)
        .map_err(|_| {
            encrypted("the pass phrase is wrong, or the method is not one of PBES2 with AES")
        })?;
    let key = key
        .to_pem("PRIVATE KEY", LineEnding::LF)
        .map_err(|_| encrypted("and damaged"))?;
    Ok(format!("{before}{}{after}", key.as_str()))
}
