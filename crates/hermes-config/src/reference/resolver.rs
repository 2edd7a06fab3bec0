//! Filling in texts from where the values of references come from, and collecting the secrets and warnings met on the
//! way.

use std::{
    fs, io,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use super::{
    Reference, ReferenceError, ReferencePolicy, ReferenceScope,
    template::{self, TemplatePiece},
};
use crate::{
    Home, Secret, SecretStore, Variables, Warning,
    home::expand_tilde,
    program::{self, decode_text, read_limited},
};

/// Shorter values would take ordinary words out of messages.
const MIN_SECRET_LENGTH: usize = 6;
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Whether a header, variable or key of that name usually holds a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "COOKIE"]
        .iter()
        .any(|word| name.contains(word))
}

/// Fills in texts and collects what it meets on the way.
pub(crate) struct Resolver<'a> {
    sources: ReferenceSources<'a>,
    pub(crate) secrets: Vec<Secret<String>>,
    pub(crate) warnings: Vec<Warning>,
}

/// A text with its references filled in.
struct FilledText {
    text: String,
    /// Whether any reference had a value.
    from_reference: bool,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(home: &'a Home, variables: &'a Variables, policy: ReferencePolicy) -> Self {
        Self {
            sources: ReferenceSources {
                home,
                variables,
                policy,
            },
            secrets: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Whether references other than variables stay as written.
    pub(crate) fn fills_variables_only(&self) -> bool {
        self.sources.policy.scope == ReferenceScope::Variables
    }

    fn fill(&mut self, key: &str, text: &str) -> Result<FilledText, ReferenceError> {
        let mut filled = FilledText {
            text: String::new(),
            from_reference: false,
        };
        for piece in template::parse_template(text) {
            let (meaning, written) = match piece {
                TemplatePiece::Text(text) => {
                    filled.text.push_str(text);
                    continue;
                }
                TemplatePiece::Reference { meaning, written } => (meaning, written),
            };
            if let Some(value) = self.sources.lookup(key, &meaning, written)? {
                if meaning.is_secret() {
                    self.record_secret(&value);
                }
                filled.text.push_str(&value);
                filled.from_reference = true;
            } else {
                self.warnings.push(Warning {
                    key: Some(key.to_owned()),
                    message: meaning.unresolved_message(written),
                });
                filled.text.push_str(written);
            }
        }
        Ok(filled)
    }

    pub(crate) fn resolve_text(&mut self, key: &str, text: &str) -> Result<String, ReferenceError> {
        Ok(self.fill(key, text)?.text)
    }

    pub(crate) fn resolve_optional(
        &mut self,
        key: &str,
        text: Option<&String>,
    ) -> Result<Option<String>, ReferenceError> {
        text.map(|text| self.resolve_text(key, text)).transpose()
    }

    pub(crate) fn resolve_list(
        &mut self,
        key: &str,
        list: &[String],
    ) -> Result<Vec<String>, ReferenceError> {
        list.iter()
            .enumerate()
            .map(|(index, text)| self.resolve_text(&format!("{key}[{index}]"), text))
            .collect()
    }

    /// Headers or variables: values that came from elsewhere, or are named so, are secrets.
    pub(crate) fn resolve_pairs(
        &mut self,
        key: &str,
        pairs: &[(String, String)],
    ) -> Result<Vec<(String, String)>, ReferenceError> {
        let mut resolved = Vec::with_capacity(pairs.len());
        for (name, text) in pairs {
            let value = self.fill(&format!("{key}.{name}"), text)?;
            if value.from_reference || is_secret_name(name) {
                self.record_secret(&value.text);
                if let Some(credentials) = strip_auth_scheme(&value.text) {
                    self.record_secret(credentials);
                }
            }
            resolved.push((name.clone(), value.text));
        }
        Ok(resolved)
    }

    pub(crate) fn record_secret(&mut self, value: &str) {
        let value = value.trim();
        let known = self.secrets.iter().any(|secret| secret.expose() == value);
        if value.chars().count() >= MIN_SECRET_LENGTH && !known {
            self.secrets.push(Secret::new(value.to_owned()));
        }
    }
}

/// The credentials of `Bearer X` and its like.
fn strip_auth_scheme(value: &str) -> Option<&str> {
    let (scheme, credentials) = value.trim().split_once(' ')?;
    ["bearer", "basic", "token"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
        .then(|| credentials.trim())
}

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
