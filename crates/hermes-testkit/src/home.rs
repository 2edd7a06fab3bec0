//! A Hermes home that vanishes with the test.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// An empty home in a temporary directory.
#[derive(Debug)]
pub struct TemporaryHome(TempDir);

impl TemporaryHome {
    /// Makes an empty home.
    ///
    /// # Panics
    ///
    /// If there is no place for it.
    pub fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("hermes-home-")
            .tempdir()
            .unwrap_or_else(|error| panic!("cannot make a temporary home: {error}"));
        Self(directory)
    }

    pub fn with_config(yaml: &str) -> Self {
        let home = Self::new();
        home.write_config(yaml);
        home
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write_config(&self, yaml: &str) -> PathBuf {
        self.write("config.yaml", yaml)
    }

    pub fn write_env(&self, text: &str) -> PathBuf {
        self.write(".env", text)
    }

    /// Writes any file of the home, with the directories above it.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        let written = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, text));
        if let Err(error) = written {
            panic!("cannot write {}: {error}", path.display());
        }
        path
    }
}

impl Default for TemporaryHome {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_holds_its_files_and_goes_away() {
        let home = TemporaryHome::with_config("mcp_servers: {}\n");
        home.write_env("A=1\n");
        let path = home.path().to_owned();
        assert_eq!(
            std::fs::read_to_string(path.join("config.yaml")).unwrap(),
            "mcp_servers: {}\n"
        );
        assert_eq!(std::fs::read_to_string(path.join(".env")).unwrap(), "A=1\n");
        drop(home);
        assert!(!path.exists());
    }
}
