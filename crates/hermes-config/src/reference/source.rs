//! Where the values of references come from.

use std::{
    fs, io,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use super::{Reference, ReferenceError, ReferencePolicy, ReferenceScope};
use crate::{
    Home, SecretStore, Variables,
    home::expand_tilde,
    program::{self, decode_text, read_limited},
};

const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// A home's variables, files, commands and keyring, as far as the policy lets one reach.
pub(super) struct ReferenceSources<'a> {
    pub(super) home: &'a Home,
    pub(super) variables: &'a Variables,
    pub(super) policy: ReferencePolicy,
}

impl ReferenceSources<'_> {
    /// The value of a reference; `None` if it stays as written.
    pub(super) fn lookup(
        &self,
        key: &str,
        meaning: &Reference,
        written: &str,
    ) -> Result<Option<String>, ReferenceError> {
        let key = || key.to_owned();
        let reference = written.to_owned();
        match meaning {
            Reference::Unknown => Ok(None),
            Reference::Variable(name) => Ok(self
                .variables
                .get(name)
                .filter(|value| !value.is_empty())
                .map(str::to_owned)),
            // Nothing is read in this scope: these are taken to have a value.
            _ if self.policy.scope == ReferenceScope::Variables => Ok(Some(reference)),
            Reference::File(path) => match self.read_file(path) {
                Ok(text) => Ok(Some(text)),
                Err(FileReadError::Outside) => Err(ReferenceError::Refused {
                    key: key(),
                    reference,
                    reason: "only files inside the home can be read".into(),
                }),
                Err(FileReadError::Unreadable(reason)) => Err(ReferenceError::File {
                    key: key(),
                    reference,
                    reason,
                }),
            },
            Reference::Command(_) if self.policy.scope == ReferenceScope::InsideHome => {
                Err(ReferenceError::Refused {
                    key: key(),
                    reference,
                    reason: "commands cannot be run".into(),
                })
            }
            Reference::Command(line) => {
                self.run_command(line)
                    .map(Some)
                    .map_err(|reason| ReferenceError::Command {
                        key: key(),
                        reference,
                        reason,
                    })
            }
            Reference::Keyring(name) => match self.secret_store().get(name) {
                Ok(secret) => Ok(Some(secret.expose().clone())),
                Err(error) => Err(ReferenceError::Keyring {
                    key: key(),
                    reference,
                    reason: error.to_string(),
                }),
            },
        }
    }

    fn secret_store(&self) -> SecretStore {
        match self.policy.scope {
            ReferenceScope::Everything => SecretStore::for_user(self.home, self.variables),
            // The system's keyring is that of whoever runs the process.
            ReferenceScope::InsideHome | ReferenceScope::Variables => {
                SecretStore::file_only(self.home)
            }
        }
    }

    fn read_file(&self, path: &str) -> Result<String, FileReadError> {
        let mut path = self.home.path().join(expand_tilde(Path::new(path)));
        if self.policy.scope == ReferenceScope::InsideHome {
            // Links are followed first, so that one inside the home cannot lead out of it.
            let home = fs::canonicalize(self.home.path())?;
            path = fs::canonicalize(&path).map_err(|_| FileReadError::Outside)?;
            if !path.starts_with(&home) {
                return Err(FileReadError::Outside);
            }
        }
        if !fs::metadata(&path)?.is_file() {
            return Err(FileReadError::Unreadable("it is not a regular file".into()));
        }
        let bytes = read_limited(fs::File::open(&path)?, MAX_FILE_BYTES)?
            .ok_or_else(|| FileReadError::Unreadable("it is larger than 1 MiB".into()))?;
        decode_text(bytes).map_err(FileReadError::Unreadable)
    }

    fn run_command(&self, line: &str) -> Result<String, String> {
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .envs(self.variables.iter())
            .stderr(Stdio::null());
        if self.home.path().is_dir() {
            command.current_dir(self.home.path());
        }
        program::run_program(&mut command, None, COMMAND_TIMEOUT)
    }
}

enum FileReadError {
    Outside,
    Unreadable(String),
}

impl From<io::Error> for FileReadError {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error.to_string())
    }
}
