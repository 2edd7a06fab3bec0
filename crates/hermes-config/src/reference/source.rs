//! Where the values of references come from.

use std::{
    fs, io,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use super::{Reach, Reference, ReferenceError, ReferencePolicy};
use crate::{
    Home, SecretStore, Variables,
    home::expand_tilde,
    program::{self, read_limited, text},
};

const COMMAND_LIMIT: Duration = Duration::from_secs(10);
const FILE_LIMIT: u64 = 1024 * 1024;

/// A home's variables, files, commands and keyring, as far as the policy lets one reach.
pub(super) struct Sources<'a> {
    pub(super) home: &'a Home,
    pub(super) variables: &'a Variables,
    pub(super) policy: ReferencePolicy,
}

impl Sources<'_> {
    /// The value of a reference; `None` if it stays as written.
    pub(super) fn value(
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
            _ if self.policy.reach == Reach::Variables => Ok(Some(reference)),
            Reference::File(path) => match self.file(path) {
                Ok(text) => Ok(Some(text)),
                Err(FileProblem::Outside) => Err(ReferenceError::Refused {
                    key: key(),
                    reference,
                    reason: "only files inside the home can be read".into(),
                }),
                Err(FileProblem::Unreadable(reason)) => Err(ReferenceError::File {
                    key: key(),
                    reference,
                    reason,
                }),
            },
            Reference::Command(_) if self.policy.reach == Reach::InsideHome => {
                Err(ReferenceError::Refused {
                    key: key(),
                    reference,
                    reason: "commands cannot be run".into(),
                })
            }
            Reference::Command(line) => {
                self.command(line)
                    .map(Some)
                    .map_err(|reason| ReferenceError::Command {
                        key: key(),
                        reference,
                        reason,
                    })
            }
            Reference::Keyring(name) => match self.secrets().get(name) {
                Ok(secret) => Ok(Some(secret.expose().clone())),
                Err(error) => Err(ReferenceError::Keyring {
                    key: key(),
                    reference,
                    reason: error.to_string(),
                }),
            },
        }
    }

    fn secrets(&self) -> SecretStore {
        match self.policy.reach {
            Reach::Everything => SecretStore::of_user(self.home, self.variables),
            // The system's keyring is that of whoever runs the process.
            Reach::InsideHome | Reach::Variables => SecretStore::sealed(self.home),
        }
    }

    fn file(&self, path: &str) -> Result<String, FileProblem> {
        let mut path = self.home.path().join(expand_tilde(Path::new(path)));
        if self.policy.reach == Reach::InsideHome {
            // Links are followed first, so that one inside the home cannot lead out of it.
            let home = fs::canonicalize(self.home.path())?;
            path = fs::canonicalize(&path).map_err(|_| FileProblem::Outside)?;
            if !path.starts_with(&home) {
                return Err(FileProblem::Outside);
            }
        }
        if !fs::metadata(&path)?.is_file() {
            return Err(FileProblem::Unreadable("it is not a regular file".into()));
        }
        let bytes = read_limited(fs::File::open(&path)?, FILE_LIMIT)?
            .ok_or_else(|| FileProblem::Unreadable("it is larger than 1 MiB".into()))?;
        text(bytes).map_err(FileProblem::Unreadable)
    }

    fn command(&self, line: &str) -> Result<String, String> {
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .envs(self.variables.iter())
            .stderr(Stdio::null());
        if self.home.path().is_dir() {
            command.current_dir(self.home.path());
        }
        program::run(&mut command, None, COMMAND_LIMIT)
    }
}

enum FileProblem {
    Outside,
    Unreadable(String),
}

impl From<io::Error> for FileProblem {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error.to_string())
    }
}
