//! Backup of a running Hub to one file, and restore.
//!
//! The archive is a `tar.zst`: a copy of the database made by SQLite, the directories of the data directory, and last a
//! manifest with the hash of every file. Homes outside the data directory are not included.

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    api_types::{
        Time,
        ids::{hex, unhex},
    },
    storage::data_dir::DataDirError,
};

mod commands;
mod database;
mod restore;
mod scan;
mod write;

pub use commands::RestoredCommand;
pub use restore::{RestoreReport, forget_secrets, restore_backup};
pub use write::{KeyInBackup, write_backup, write_backup_file};

const MANIFEST_NAME: &str = "manifest.json";
const FORMAT_VERSION: u32 = 1;
/// The format of archives with names that are not UTF-8, which earlier versions could not restore.
const FORMAT_VERSION_RAW_NAMES: u32 = 2;
/// Directories that are included.
const TREES: [&str; 4] = ["tenants", "shares", "trash", "sync"];
/// Files that are included if they exist. The database is copied separately.
const SINGLE_FILES: [&str; 2] = ["hub.yaml", "node.id"];
/// Files that decrypt secrets: included only on request.
const SECRET_FILES: [&str; 2] = ["secret.key", "admin.token"];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupManifest {
    pub form: u32,
    pub version: String,
    pub created_at: Time,
    /// Whether it includes the key that decrypts the secrets in its database.
    pub has_key: bool,
    pub files: Vec<BackedUpFile>,
    /// Paths that could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackedUpFile {
    /// Relative to the data directory.
    pub path: String,
    /// The bytes of the path in hexadecimal digits, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    #[serde(flatten)]
    pub content: BackupContent,
}

impl BackedUpFile {
    fn new(path: &Path, content: BackupContent) -> Self {
        let bytes = path.as_os_str().as_bytes();
        Self {
            path: path.to_string_lossy().into_owned(),
            bytes: path.to_str().is_none().then(|| hex(bytes)),
            content,
        }
    }

    /// Its path; `None` if the manifest's path is invalid.
    fn original_path(&self) -> Option<PathBuf> {
        match &self.bytes {
            None => Some(self.path.clone().into()),
            Some(digits) => Some(OsStr::from_bytes(&unhex(digits)?).into()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum BackupContent {
    File {
        /// In bytes.
        size: u64,
        /// In hexadecimal digits.
        sha256: String,
        mode: u32,
    },
    Dir,
    Symlink {
        target: String,
    },
}

/// Why a backup or a restore failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("`{}`: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the backup cannot be written: {0}")]
    Archive(io::Error),
    #[error("the backup is damaged or not a backup ({0}); nothing was restored. Use another one")]
    Damaged(String),
    #[error(
        "the backup has format {form}, and this program supports up to {FORMAT_VERSION_RAW_NAMES}; restore it with a newer program"
    )]
    NewerFormat {
        /// Its form.
        form: u32,
    },
    #[error("`{}` is not empty; restore into a new directory", path.display())]
    NotEmpty { path: PathBuf },
    #[error(transparent)]
    Database(#[from] hermes_store::StoreError),
    #[error(transparent)]
    Directory(#[from] DataDirError),
    #[error("the backup was interrupted")]
    Interrupted,
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_path_buf();
    move |source| BackupError::File { path, source }
}
