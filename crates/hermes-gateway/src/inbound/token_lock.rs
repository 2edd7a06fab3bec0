//! One gateway per bot token on a machine: two programs that read the same bot's updates take them from each other.

use std::{fs, io, path::PathBuf};

use hermes_config::{
    Secret,
    private_file::{FileOwner, open_lock_file},
    to_hex,
};
use sha2::{Digest as _, Sha256};

/// Held while an account is connected. The kernel releases it with the process.
#[derive(Debug)]
pub(super) struct TokenLock {
    _file: fs::File,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum TokenLockError {
    #[error(
        "another gateway on this machine uses this bot token; stop it, or give this home a bot of its own"
    )]
    InUse,
    #[error("`{}`: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl TokenLock {
    /// Takes the lock of a token, if no other process of this user has it.
    pub(super) fn acquire(base_url: &str, token: &Secret<String>) -> Result<Self, TokenLockError> {
        Self::acquire_in(&runtime_directory(), base_url, token)
    }

    fn acquire_in(
        directory: &std::path::Path,
        base_url: &str,
        token: &Secret<String>,
    ) -> Result<Self, TokenLockError> {
        // Another server has other bots.
        let bot = format!("{base_url}\n{}", token.expose());
        let digest = Sha256::digest(bot.as_bytes());
        let name = to_hex(&digest[..16]);
        let path = directory.join(format!("bot-{name}.lock"));
        let failed = |source| TokenLockError::Io {
            path: path.clone(),
            source,
        };
        create_private_directory(directory).map_err(failed)?;
        let file = open_lock_file(&path, FileOwner::Writer).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(fs::TryLockError::WouldBlock) => Err(TokenLockError::InUse),
            Err(fs::TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

/// Where locks of this user are, whatever the home: `XDG_RUNTIME_DIR`, else a directory of this user under the temporary
/// one.
fn runtime_directory() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match runtime.filter(|path| path.is_dir()) {
        Some(path) => path.join("hermes"),
        None => std::env::temp_dir().join(format!("hermes-{}", rustix::process::getuid().as_raw())),
    }
}

fn create_private_directory(path: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // Somebody else could have made it first, to keep this user from connecting.
    let found = fs::symlink_metadata(path)?;
    if found.is_dir() && found.uid() == rustix::process::getuid().as_raw() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        "this directory belongs to somebody else",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_one_user_at_a_time_and_no_trace() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("locks");
        let token = Secret::new("12345:very-secret".to_owned());
        let first = TokenLock::acquire_in(&directory, "u", &token).unwrap();
        let second = TokenLock::acquire_in(&directory, "u", &token).unwrap_err();
        assert!(second.to_string().contains("another gateway"), "{second}");
        TokenLock::acquire_in(&directory, "v", &token).unwrap();
        drop(first);
        TokenLock::acquire_in(&directory, "u", &token).unwrap();
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            assert!(!path.display().to_string().contains("secret"));
            assert_eq!(fs::read(path).unwrap(), b"");
        }
    }
}
