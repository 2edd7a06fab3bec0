//! The files of one server's login, in `mcp-tokens` of the home: tokens, client, metadata, and what is under way.
//!
//! Everything is for its owner alone and replaced as a whole. Hermes Agent in Python uses the first three by the same
//! names.

use std::{
    fs,
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use hermes_config::{
    Home, ServerName,
    private_file::{FileOwner, open_lock_file, write_private},
};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use super::{Challenge, ClientFile, OAuthError, PendingLogin, ServerMetadata, Tokens};

/// The longest name of a file, without its ending.
const MAX_NAME_LENGTH: usize = 128;
/// How long another process may hold the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Where one server's login is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFiles {
    directory: PathBuf,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgetScope {
    /// The tokens.
    Login,
    /// The registered client too.
    Everything,
}

/// Tells one version of a file from another. The last is when anything about it changed: who may read it, too.
pub(crate) type TokenFileVersion = (SystemTime, u64, u64, (i64, i64));

impl TokenFiles {
    /// The files of a server, `name`, among all that are configured.
    pub fn new<'a>(
        home: &Home,
        servers: impl IntoIterator<Item = &'a ServerName>,
        name: &ServerName,
    ) -> Self {
        let plain = file_stem(name.as_str());
        let mut earlier = servers.into_iter().take_while(|other| *other != name);
        let name = if earlier.any(|other| file_stem(other.as_str()) == plain) {
            let hash = Sha256::digest(name.as_str().as_bytes());
            let number = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]);
            format!("{plain}_{number:08x}")
        } else {
            plain
        };
        Self {
            directory: home.tokens_dir(),
            name,
        }
    }

    /// The files with tokens of no server among those that are configured.
    pub fn list_unconfigured(home: &Home, servers: &[ServerName]) -> Vec<PathBuf> {
        let known = servers.iter().map(|name| Self::new(home, servers, name));
        let known: Vec<PathBuf> = known.map(|files| files.path("json")).collect();
        let listing = fs::read_dir(home.tokens_dir()).into_iter().flatten();
        let mut left: Vec<PathBuf> = listing
            .flatten()
            .map(|file| file.path())
            .filter(|path| is_token_file(path) && !known.contains(path))
            .collect();
        left.sort();
        left
    }

    /// The tokens, if there are any that can be read.
    pub fn tokens(&self) -> Option<Tokens> {
        restrict_with_warning(&self.path("json"));
        self.peek_tokens()
    }

    /// The same, without a change to anything: a file that others can read stays so, and is still to be told of.
    pub(super) fn peek_tokens(&self) -> Option<Tokens> {
        let path = self.path("json");
        let tokens: Tokens = parse(&path)?;
        let written = fs::metadata(&path).and_then(|metadata| metadata.modified());
        Some(tokens.with_file_time(written.unwrap_or_else(|_| SystemTime::now())))
    }

    /// Takes the rights of others away from all files, and says which they had any for.
    pub fn restrict_permissions(&self) -> Vec<String> {
        let files = self.list_files().unwrap_or_default();
        files
            .iter()
            .filter_map(|path| restrict_permissions(path))
            .collect()
    }

    /// The file of the tokens, if it is there but cannot be read.
    pub(super) fn damaged_file(&self) -> Option<PathBuf> {
        let path = self.path("json");
        (self.has_tokens() && self.peek_tokens().is_none()).then_some(path)
    }

    /// Keeps new tokens in the place of the old ones.
    pub fn store_tokens(&self, tokens: &Tokens) -> Result<(), OAuthError> {
        self.write(&self.path("json"), tokens)
    }

    /// The client that logins go by.
    pub fn client(&self) -> Option<ClientFile> {
        read(&self.path("client.json"))
    }

    pub(super) fn store_client(&self, client: &ClientFile) -> Result<(), OAuthError> {
        self.write(&self.path("client.json"), client)
    }

    /// Puts a client aside that its authorization server does not know any more.
    pub(super) fn retire_client(&self) -> Result<(), OAuthError> {
        let path = self.path("client.json");
        fs::rename(&path, self.path("client.json.bak")).map_err(|error| file_error(&path, &error))
    }

    /// What the authorization server says of itself.
    pub fn metadata(&self) -> Option<ServerMetadata> {
        read(&self.path("meta.json"))
    }

    /// The same, without a change to anything.
    pub(super) fn peek_metadata(&self) -> Option<ServerMetadata> {
        parse(&self.path("meta.json"))
    }

    pub(super) fn store_metadata(&self, metadata: &ServerMetadata) -> Result<(), OAuthError> {
        self.write(&self.path("meta.json"), metadata)
    }

    /// What the server said when it last refused.
    pub fn challenge(&self) -> Option<Challenge> {
        read(&self.path("challenge.json"))
    }

    pub(super) fn store_challenge(&self, challenge: &Challenge) -> Result<(), OAuthError> {
        self.write(&self.path("challenge.json"), challenge)
    }

    /// A login whose answer comes by another process.
    pub(super) fn pending(&self) -> Option<PendingLogin> {
        read(&self.path("login.json"))
    }

    pub(super) fn store_pending(&self, pending: &PendingLogin) -> Result<(), OAuthError> {
        self.write(&self.path("login.json"), pending)
    }

    pub(super) fn delete_pending(&self) {
        let _ = fs::remove_file(self.path("login.json"));
    }

    /// Deletes files and returns the names of those that were there.
    pub fn delete(&self, what: ForgetScope) -> io::Result<Vec<String>> {
        let endings: &[&str] = match what {
            ForgetScope::Login => &["json", "challenge.json", "login.json"],
            ForgetScope::Everything => &[
                "json",
                "challenge.json",
                "login.json",
                "client.json",
                "client.json.bak",
                "meta.json",
            ],
        };
        let mut removed = Vec::new();
        for ending in endings {
            let path = self.path(ending);
            match fs::remove_file(&path) {
                Ok(()) => removed.push(format!("{}.{ending}", self.name)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }

    /// All files there are, of whatever kind.
    pub fn list_files(&self) -> io::Result<Vec<PathBuf>> {
        let listing = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            listing => listing?,
        };
        let start = format!("{}.", self.name);
        let mut files = Vec::new();
        for file in listing {
            let file = file?;
            if file.file_name().to_string_lossy().starts_with(&start) {
                files.push(file.path());
            }
        }
        Ok(files)
    }

    /// Whether there are tokens, readable or not.
    pub fn has_tokens(&self) -> bool {
        self.path("json").exists()
    }

    /// Changes with the token file.
    pub(crate) fn token_file_version(&self) -> Option<TokenFileVersion> {
        let metadata = fs::metadata(self.path("json")).ok()?;
        #[cfg(unix)]
        let (inode, changed) = {
            use std::os::unix::fs::MetadataExt;
            (metadata.ino(), (metadata.ctime(), metadata.ctime_nsec()))
        };
        #[cfg(not(unix))]
        let (inode, changed) = (0, (0, 0));
        Some((metadata.modified().ok()?, metadata.len(), inode, changed))
    }

    /// Waits until no other process changes this login.
    pub(super) async fn lock(&self) -> Result<FileLock, OAuthError> {
        self.create_directory()?;
        let path = self.path("lock");
        match tokio::time::timeout(LOCK_TIMEOUT, FileLock::acquire(&path)).await {
            Ok(taken) => taken.map_err(|error| file_error(&path, &error)),
            Err(_) => Err(OAuthError::Unavailable {
                what: path.display().to_string(),
                reason: "another process holds the lock and does not let go".into(),
            }),
        }
    }

    fn path(&self, ending: &str) -> PathBuf {
        self.directory.join(format!("{}.{ending}", self.name))
    }

    fn write(&self, path: &Path, value: &impl Serialize) -> Result<(), OAuthError> {
        self.create_directory()?;
        let written = || -> io::Result<()> {
            let mut text = serde_json::to_vec_pretty(value)?;
            text.push(b'\n');
            write_private(path, &text)
        };
        written().map_err(|error| file_error(path, &error))
    }

    fn create_directory(&self) -> Result<(), OAuthError> {
        let made = || -> io::Result<()> {
            fs::create_dir_all(&self.directory)?;
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                if fs::metadata(&self.directory)?.permissions().mode() & 0o077 != 0 {
                    fs::set_permissions(&self.directory, fs::Permissions::from_mode(0o700))?;
                }
            }
            Ok(())
        };
        made().map_err(|error| file_error(&self.directory, &error))
    }
}

/// Reads a file that is for its owner alone; one that others could read is closed.
fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    restrict_with_warning(path);
    parse(path)
}

/// A file that is damaged counts as missing, with a warning.
fn parse<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!("{}: {error}; it is ignored", path.display());
            return None;
        }
    };
    match serde_json::from_slice(&text) {
        Ok(value) => Some(value),
        Err(error) => {
            // The error says where, and nothing of what is there.
            let position = format!("line {}, column {}", error.line(), error.column());
            tracing::warn!(
                "{} is damaged ({position}) and ignored; log in again",
                path.display()
            );
            None
        }
    }
}

fn restrict_with_warning(path: &Path) {
    if let Some(warning) = restrict_permissions(path) {
        tracing::warn!("{warning}");
    }
}

/// Whether a file is named as one with tokens: `docs.json`, not `docs.client.json`.
fn is_token_file(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.strip_suffix(".json"))
        .is_some_and(|name| !name.contains('.'))
}

/// Takes the rights of others away from a file, and says so if they had any.
fn restrict_permissions(path: &Path) -> Option<String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(path).ok()?.permissions().mode();
        let is_open = mode & 0o077 != 0;
        if !is_open {
            return None;
        }
        let closed = fs::set_permissions(path, fs::Permissions::from_mode(0o600));
        let done = match closed {
            Ok(()) => "it is closed to them now".to_owned(),
            Err(error) => format!("that cannot be changed: {error}"),
        };
        Some(format!(
            "others on this machine could read {}; {done}. If that worries you, log in again",
            path.display()
        ))
    }
    #[cfg(not(unix))]
    None
}

fn file_error(path: &Path, error: &io::Error) -> OAuthError {
    OAuthError::File {
        path: path.display().to_string(),
        reason: error.to_string(),
    }
}

/// A server's name as the name of a file, the one that Hermes Agent in Python uses.
fn file_stem(name: &str) -> String {
    let safe = |character: char| match character {
        '_' | '-' => character,
        other if other.is_alphanumeric() => other,
        _ => '_',
    };
    let safe: String = name.chars().map(safe).collect();
    match safe.trim_matches('_') {
        "" => "default".into(),
        name => name.chars().take(MAX_NAME_LENGTH).collect(),
    }
}

/// How often a held lock is tried.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Held until dropped.
#[derive(Debug)]
pub(super) struct FileLock {
    _file: File,
}

impl FileLock {
    /// Waits for the lock. The caller sets the time limit.
    pub(super) async fn acquire(path: &Path) -> io::Result<Self> {
        let file = open_lock_file(path, FileOwner::Writer)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(RETRY_INTERVAL).await,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests;
