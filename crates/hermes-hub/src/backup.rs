//! A whole Hub in one file, made while it runs, and a Hub from such a file.
//!
//! The archive is a `tar.zst`: the database as SQLite copies it, the trees of the data directory, and last a manifest
//! with the hash of every file. Homes outside the data directory are not part of it.

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    data_dir::DataDirError,
    ids::{hex, unhex},
    shapes::Time,
};

mod commands;
mod database;
mod find;
mod restore;
mod write;

pub use commands::RestoredCommand;
pub use restore::{Restored, forget_secrets, restore};
pub use write::{KeyInBackup, write};

/// The manifest's name in the archive.
const MANIFEST: &str = "manifest.json";
/// The form of archives.
const FORM: u32 = 1;
/// The form of those with names that are no UTF-8, which earlier programs could not restore.
const FORM_WITH_BYTES: u32 = 2;
/// Directories whose files are part of a backup.
const TREES: [&str; 4] = ["tenants", "shares", "trash", "sync"];
/// Files that are part of a backup where they are there. The database is copied another way.
const FILES: [&str; 2] = ["hub.yaml", "node.id"];
/// Files that open secrets: only where they are asked for.
const KEYS: [&str; 2] = ["secret.key", "admin.token"];

/// What is in an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The form of the archive.
    pub form: u32,
    /// The version of the program that wrote it.
    pub version: String,
    /// When it was begun.
    pub created_at: Time,
    /// Whether it holds the key that opens the secrets in its database.
    pub has_key: bool,
    /// What it holds.
    pub files: Vec<BackedUp>,
    /// What was there and could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// A file in an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackedUp {
    /// Where, below the data directory.
    pub path: String,
    /// The bytes of the path in hexadecimal digits, where it is no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    /// What.
    #[serde(flatten)]
    pub content: Content,
}

impl BackedUp {
    fn new(path: &Path, content: Content) -> Self {
        let bytes = path.as_os_str().as_bytes();
        Self {
            path: path.to_string_lossy().into_owned(),
            bytes: path.to_str().is_none().then(|| hex(bytes)),
            content,
        }
    }

    /// Where it was; none if nothing could be there.
    fn place(&self) -> Option<PathBuf> {
        match &self.bytes {
            None => Some(self.path.clone().into()),
            Some(digits) => Some(OsStr::from_bytes(&unhex(digits)?).into()),
        }
    }
}

/// What a file in an archive is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Content {
    /// A file.
    File {
        /// In bytes.
        size: u64,
        /// Of its content, in hexadecimal digits.
        sha256: String,
        /// Its permissions.
        mode: u32,
    },
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink {
        /// Where it leads, as it is written.
        target: String,
    },
}

/// Why there is no backup, or no Hub from one.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file can not be read or written.
    #[error("`{}`: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The archive can not be written.
    #[error("the backup can not be written: {0}")]
    Archive(io::Error),
    /// The archive is not what it was.
    #[error("the backup is damaged or none ({0}); nothing was restored. Use another one")]
    Damaged(String),
    /// It comes from a later program.
    #[error(
        "the backup has form {form}, and this program knows {FORM_WITH_BYTES}; restore it with a newer program"
    )]
    Newer {
        /// Its form.
        form: u32,
    },
    /// There is something already.
    #[error("`{}` is not empty; restore into a new directory", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// The database can not be copied or opened.
    #[error(transparent)]
    Database(#[from] hermes_store::StoreError),
    /// The directory can not be made.
    #[error(transparent)]
    Directory(#[from] DataDirError),
    /// The work was cut off.
    #[error("the backup was cut off")]
    CutOff,
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_path_buf();
    move |source| BackupError::File { path, source }
}
