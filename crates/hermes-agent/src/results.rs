//! Results that are too large for a conversation lie in files of the home. Where one comes from outside, a file beside
//! it says so, and reading it marks what was read as data.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use hermes_config::Home;

/// The directory of the home.
pub(crate) const DIRECTORY: &str = "results";

/// Notes which outside tool a result is from.
pub(crate) fn remember_source(path: &Path, source: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(note(path))?;
    io::Write::write_all(&mut file, source.as_bytes())
}

/// The outside tool that the result in this file is from; for the directory of all results, its name. `path` has no
/// links in it.
pub(crate) fn source(home: &Home, path: &Path) -> Option<String> {
    let directory = home.path().join(DIRECTORY).canonicalize().ok()?;
    if path == directory {
        // Whatever is found in it may be from outside.
        return Some(DIRECTORY.to_owned());
    }
    if path.parent() != Some(&directory) {
        return None;
    }
    fs::read_to_string(note(path)).ok()
}

fn note(path: &Path) -> PathBuf {
    path.with_extension("source")
}
