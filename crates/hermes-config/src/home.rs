//! Where a home is and where its files are. Only this module and `variables` read the process environment.

use crate::private_file::create_private_dir;
use std::{
    env, fmt, fs, io,
    path::{Path, PathBuf},
};

/// A directory with configuration, sessions, tokens and logs. Everything that belongs to a user hangs below it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// The home in this directory, which need not exist yet.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The user's home: `$HERMES_HOME`, else `~/.hermes`; with a profile, `profiles/NAME` below it.
    pub fn locate(profile: Option<&ProfileName>) -> Result<Self, HomeError> {
        let root = match env::var_os("HERMES_HOME").filter(|value| !value.is_empty()) {
            Some(value) => expand_tilde(Path::new(&value)),
            None => env::home_dir()
                .filter(|directory| !directory.as_os_str().is_empty())
                .ok_or(HomeError::NoUserDirectory)?
                .join(".hermes"),
        };
        let root = std::path::absolute(&root).unwrap_or(root);
        match profile {
            None => Ok(Self::at(root)),
            Some(profile) => Self::at(root).profile(profile),
        }
    }

    pub fn profile(&self, profile: &ProfileName) -> Result<Self, HomeError> {
        let directory = self.root.join("profiles").join(profile.as_str());
        if directory.is_dir() {
            Ok(Self::at(directory))
        } else {
            Err(HomeError::NoSuchProfile {
                name: profile.clone(),
                directory,
            })
        }
    }

    pub fn path(&self) -> &Path {
        &self.root
    }

    /// `config.yaml`.
    pub fn config_file(&self) -> PathBuf {
        self.root.join("config.yaml")
    }

    /// `.env`.
    pub fn env_file(&self) -> PathBuf {
        self.root.join(".env")
    }

    /// Where log files go.
    pub fn logs_dir(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// Records of running processes, and their sockets.
    pub fn run_dir(&self) -> PathBuf {
        self.root.join("run")
    }

    /// Files that can be deleted and made again.
    pub fn cache_dir(&self) -> PathBuf {
        self.root.join("cache")
    }

    /// OAuth tokens and client registrations.
    pub fn tokens_dir(&self) -> PathBuf {
        self.root.join("mcp-tokens")
    }

    /// Secrets by name: encrypted, or kept in the system's keyring.
    pub fn secrets_file(&self) -> PathBuf {
        self.root.join("secrets.json")
    }

    /// The key that decrypts them.
    pub fn secret_key_file(&self) -> PathBuf {
        self.root.join("secrets.key")
    }

    /// Tool definitions as they were when they were last accepted.
    pub fn pins_file(&self) -> PathBuf {
        self.root.join("mcp-pins.json")
    }

    /// Makes the directory if it is missing, for its owner alone. An existing one keeps its mode.
    pub fn create(&self) -> io::Result<()> {
        if let Some(parent) = self.root.parent() {
            fs::create_dir_all(parent)?;
        }
        create_private_dir(&self.root)
    }
}

/// `~` and `~/…` with the user's directory filled in; any other path as it is.
pub(crate) fn expand_tilde(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), env::home_dir()) {
        (Ok(rest), Some(directory)) => directory.join(rest),
        _ => path.to_path_buf(),
    }
}

/// The name of a profile: lower-case letters, digits, `_` and `-`, at most 64, not beginning with a sign.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProfileName(String);

impl ProfileName {
    /// Accepts a well-formed name, so that a name never leads out of the profiles directory.
    pub fn parse(name: &str) -> Result<Self, HomeError> {
        let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let well_formed = name.len() <= 64
            && name.starts_with(letter)
            && name.chars().all(|c| letter(c) || c == '_' || c == '-');
        if well_formed {
            Ok(Self(name.into()))
        } else {
            Err(HomeError::BadProfileName { name: name.into() })
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why no home could be found. The user can correct all of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HomeError {
    /// Neither `HERMES_HOME` nor a user directory is known.
    #[error("your home directory is unknown; set `HERMES_HOME` to the directory Hermes may use")]
    NoUserDirectory,
    /// The profile has no directory.
    #[error("there is no profile `{name}`: `{}` does not exist; create that directory to make it", directory.display())]
    NoSuchProfile {
        name: ProfileName,
        /// Where it would be.
        directory: PathBuf,
    },
    #[error(
        "`{name}` is not a profile name; use lower-case letters, digits, `_` and `-`, beginning with a letter or digit, at most 64"
    )]
    BadProfileName { name: String },
}

/// Whether `HERMES_SAFE_MODE` asks for a start without any MCP server.
pub fn is_safe_mode() -> bool {
    std::env::var("HERMES_SAFE_MODE").is_ok_and(|value| {
        matches!(
            value.to_ascii_lowercase().as_str(),
            "1" | "true" | "yes" | "on"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_names_follow_the_pattern() {
        for good in ["a", "0", "work", "my-team_2", &"x".repeat(64)] {
            assert!(ProfileName::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "_a",
            "Work",
            "a/b",
            "..",
            "a b",
            "ä",
            &"x".repeat(65),
        ] {
            assert!(ProfileName::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_missing_profile_is_named_with_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let name = ProfileName::parse("work").unwrap();
        let message = home.profile(&name).unwrap_err().to_string();
        assert!(message.contains("`work`"), "{message}");
        assert!(message.contains("profiles/work"), "{message}");

        fs::create_dir_all(directory.path().join("profiles/work")).unwrap();
        assert_eq!(
            home.profile(&name).unwrap().path(),
            directory.path().join("profiles/work")
        );
    }

    #[test]
    #[cfg(unix)]
    fn a_new_home_is_private_and_an_existing_one_keeps_its_mode() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path().join("deep/er"));
        home.create().unwrap();
        let mode = |home: &Home| fs::metadata(home.path()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&home), 0o700);
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        home.create().unwrap();
        assert_eq!(mode(&home), 0o755);
    }

    #[test]
    fn a_file_in_the_way_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "").unwrap();
        assert!(Home::at(path).create().is_err());
    }

    #[test]
    fn only_a_leading_tilde_is_expanded() {
        let user = env::home_dir().unwrap();
        assert_eq!(expand_tilde(Path::new("~/x")), user.join("x"));
        assert_eq!(expand_tilde(Path::new("~")), user.join(""));
        assert_eq!(expand_tilde(Path::new("/a/~")), Path::new("/a/~"));
        assert_eq!(expand_tilde(Path::new("~other/x")), Path::new("~other/x"));
    }
}
