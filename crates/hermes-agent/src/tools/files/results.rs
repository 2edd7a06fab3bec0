//! Results that are too large for a conversation are stored in files of the home. For an untrusted one, a file beside
//! it names the source, and reading it back marks the content as data.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use hermes_config::{
    Home,
    private_file::{FileDurability, WriteOptions, write_file},
};

pub(crate) const DIRECTORY: &str = "results";

/// Records the outside tool that a result is from.
pub(crate) fn record_source(path: &Path, source: &str) -> io::Result<()> {
    let options = WriteOptions {
        durability: FileDurability::Unsynced,
        ..WriteOptions::default()
    };
    write_file(&source_note_path(path), source.as_bytes(), options)
}

/// The outside tool of the result in this file; for the directory of all results, its name. `path` has no
/// links in it.
pub(crate) fn read_source(home: &Home, path: &Path) -> Option<String> {
    let directory = home.path().join(DIRECTORY).canonicalize().ok()?;
    if path == directory {
        // Anything in it may be from outside.
        return Some(DIRECTORY.to_owned());
    }
    if path.parent() != Some(&directory) {
        return None;
    }
    fs::read_to_string(source_note_path(path)).ok()
}

fn source_note_path(path: &Path) -> PathBuf {
    path.with_extension("source")
}
