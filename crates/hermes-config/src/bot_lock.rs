//! One process per bot token on a machine: two programs that read the same bot's updates take them from each other.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use crate::{
    Secret, from_hex,
    private_file::{FileOwner, open_lock_file},
    to_hex,
};

/// Bytes of the digest that names a bot.
const ID_BYTES: usize = 16;

/// Names a bot without telling its token.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BotId(String);

impl BotId {
    /// The bot with this token on the server at this address: another server has other bots.
    pub fn new(base_url: &str, token: &Secret<String>) -> Self {
        let bot = format!("{base_url}\n{}", token.expose());
        let digest = Sha256::digest(bot.as_bytes());
        Self(to_hex(&digest[..ID_BYTES]))
    }

    /// Reads one that another process has sent.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = from_hex(text)?;
        (bytes.len() == ID_BYTES).then(|| Self(to_hex(&bytes)))
    }
}

impl fmt::Display for BotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Held while a bot is connected. The kernel releases it with the process.
#[derive(Debug)]
pub struct BotLock {
    _file: fs::File,
}

#[derive(Debug, thiserror::Error)]
pub enum BotLockError {
    #[error(
        "another gateway on this machine, or another account of this home, uses this bot token; give this one a bot of \
         its own"
    )]
    InUse,
    #[error("`{}`: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl BotLock {
    /// Takes the lock of a bot, if nobody else of this user has it.
    pub fn acquire(bot: &BotId) -> Result<Self, BotLockError> {
        Self::acquire_in(&lock_directory(), bot)
    }

    fn acquire_in(directory: &Path, bot: &BotId) -> Result<Self, BotLockError> {
        let path = directory.join(format!("bot-{bot}.lock"));
        let failed = |source| BotLockError::Io {
            path: path.clone(),
            source,
        };
        create_private_directory(directory).map_err(failed)?;
        let file = open_lock_file(&path, FileOwner::Writer).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(fs::TryLockError::WouldBlock) => Err(BotLockError::InUse),
            Err(fs::TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

/// Where locks of this user are, whatever the home: `XDG_RUNTIME_DIR`, else a directory of this user under the temporary
/// one.
fn lock_directory() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match runtime.filter(|path| path.is_dir()) {
        Some(path) => path.join("hermes"),
        None => std::env::temp_dir().join(format!("hermes-{}", rustix::process::getuid().as_raw())),
    }
}

fn create_private_directory(path: &Path) -> io::Result<()> {
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
    fn a_bot_has_one_user_at_a_time_and_its_token_leaves_no_trace() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("locks");
        let token = Secret::new("12345:very-secret".to_owned());
        let (here, elsewhere) = (BotId::new("u", &token), BotId::new("v", &token));
        let first = BotLock::acquire_in(&directory, &here).unwrap();
        let second = BotLock::acquire_in(&directory, &here).unwrap_err();
        assert!(second.to_string().contains("another gateway"), "{second}");
        BotLock::acquire_in(&directory, &elsewhere).unwrap();
        drop(first);
        BotLock::acquire_in(&directory, &here).unwrap();
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            assert!(!path.display().to_string().contains("secret"));
            assert_eq!(fs::read(path).unwrap(), b"");
        }
    }

    #[test]
    fn an_id_is_read_back_and_nothing_else_is_one() {
        let bot = BotId::new("u", &Secret::new("t".to_owned()));
        assert_eq!(BotId::parse(&bot.to_string()), Some(bot));
        for wrong in ["", "../x", "abcd", &"0".repeat(31), &"0".repeat(34)] {
            assert_eq!(BotId::parse(wrong), None, "{wrong}");
        }
    }
}
