//! Sorts errors of SQLite and its driver by what can be done about them.

use std::path::Path;

use crate::StoreError;

/// The kinds of SQLite errors that callers distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqliteErrorKind {
    /// Locked by another connection.
    Busy,
    /// Damaged, or no database.
    Corrupt,
    /// The file, or SQLite's files beside it, cannot be opened or written.
    CannotOpen,
    /// Foreign key constraint violated.
    ForeignKey,
    /// Unique constraint violated.
    Unique,
    /// No room on the disk.
    Full,
    /// The disk cannot be read or written.
    Disk,
}

/// Which kind of SQLite error this is.
pub fn sqlite_error_kind(error: &sqlx::Error) -> Option<SqliteErrorKind> {
    let code: i32 = error.as_database_error()?.code()?.parse().ok()?;
    match (code & 0xff, code) {
        (5 | 6, _) => Some(SqliteErrorKind::Busy),
        (11 | 26, _) => Some(SqliteErrorKind::Corrupt),
        (8 | 14, _) => Some(SqliteErrorKind::CannotOpen),
        (10, _) => Some(SqliteErrorKind::Disk),
        (13, _) => Some(SqliteErrorKind::Full),
        (_, 787) => Some(SqliteErrorKind::ForeignKey),
        (_, 1555 | 2067) => Some(SqliteErrorKind::Unique),
        _ => None,
    }
}

/// What SQLite says, without our own words around it.
pub(crate) fn sqlite_message(error: &sqlx::Error) -> String {
    error
        .as_database_error()
        .map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

impl StoreError {
    /// Sorts a driver's error by what its reader can do about it.
    pub(crate) fn from_database(path: &Path, error: sqlx::Error) -> Self {
        let path = path.to_path_buf();
        match sqlite_error_kind(&error) {
            Some(SqliteErrorKind::Corrupt) => Self::Corrupt {
                path,
                reason: sqlite_message(&error),
            },
            Some(SqliteErrorKind::Busy) => Self::Locked { path },
            Some(SqliteErrorKind::Full) => Self::DiskFull { path },
            _ if matches!(error, sqlx::Error::PoolTimedOut) => Self::Locked { path },
            _ => Self::Database {
                path,
                source: error.into(),
            },
        }
    }
}
