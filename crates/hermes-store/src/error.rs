//! What can go wrong with a home's databases, and what to do about it; errors of SQLite and its driver are sorted by
//! that.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{BadSessionId, MessageId, SessionId};

/// Why a store could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no database yet. A reader may treat that as an empty one.
    #[error("Session database unavailable: `{}` does not exist yet", path.display())]
    Absent { path: PathBuf },
    /// The file is a database without the tables of a store.
    #[error("Session database unavailable: `{}` has no {missing}", path.display())]
    Unavailable {
        path: PathBuf,
        /// The table or column that is not there.
        missing: String,
    },
    /// The file is damaged or not a database. It was not changed.
    #[error(
        "`{}` is damaged or not a database ({reason}); nothing was changed. Move it away to start afresh, or put a backup in its place",
        path.display()
    )]
    Corrupt { path: PathBuf, reason: String },
    /// A newer program's database, without what we would write.
    #[error(
        "`{}` has schema {version}, newer than this program knows, and lacks {missing}; update this program to write to it (reading works)",
        path.display()
    )]
    Newer {
        path: PathBuf,
        version: i64,
        /// A column we would have to write.
        missing: String,
    },
    /// A newer program's database, whose tables we do not know.
    #[error(
        "`{}` has schema {version}, and this program knows {known}; use the newer program, or put back the copy made before it changed the database",
        path.display()
    )]
    NewerSchema {
        path: PathBuf,
        version: usize,
        /// The newest we know.
        known: usize,
    },
    /// There is no room on the disk.
    #[error("`{}` cannot grow: the disk is full", path.display())]
    DiskFull { path: PathBuf },
    /// Another process kept the database locked for too long. Trying again may help.
    #[error("`{}` is locked by another process; try again", path.display())]
    Locked { path: PathBuf },
    /// A write through a store opened for reading.
    #[error("`{}` was opened for reading only", path.display())]
    ReadOnly { path: PathBuf },
    /// The copy before the first write failed, so nothing was written.
    #[error("the backup `{}` could not be made, so nothing was written: {source}", path.display())]
    Backup { path: PathBuf, source: io::Error },
    /// A file or directory of the home could not be used.
    #[error("`{}`: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// SQLite or its driver failed in another way.
    #[error("`{}`: {source}", path.display())]
    Database {
        path: PathBuf,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("there is no session `{id}`")]
    NoSuchSession { id: SessionId },
    #[error("there is no message {id} in session `{session}`")]
    NoSuchMessage {
        session: SessionId,
        /// The row asked for.
        id: MessageId,
    },
    /// The session has no turn left that could be taken back.
    #[error("session `{id}` has nothing to undo")]
    NothingToRewind { id: SessionId },
    #[error(transparent)]
    BadSessionId(#[from] BadSessionId),
    /// Several sessions begin like this.
    #[error("`{prefix}` is the beginning of several session ids; give more of it")]
    AmbiguousSession { prefix: String },
    /// Titles have a limit.
    #[error("the title has {length} characters; at most 100 are allowed")]
    TitleTooLong {
        /// After cleaning.
        length: usize,
    },
    /// Titles are unique.
    #[error("the title `{title}` is already in use by session `{holder}`")]
    TitleTaken { title: String, holder: SessionId },
    /// Somebody else is compacting the session, or our turn to do so ran out.
    #[error("session `{id}` is not locked for compaction by this process")]
    CompactionNotLocked { id: SessionId },
    /// The id of an approval may only have letters, digits, `_` and `-`, 64 at most.
    #[error("`{id}` is not an approval id")]
    BadApprovalId { id: String },
    /// As many messages as may wait for one chat are waiting.
    #[error("too many messages wait for the chat `{chat}`; nothing is added until some are sent")]
    OutboxFull { chat: String },
}

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
    /// Whether the same may work later, without anybody changing the store: a full or unreadable disk, a lock.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::DiskFull { .. } | Self::Locked { .. } | Self::Io { .. } => true,
            Self::Database { source, .. } => matches!(
                source.downcast_ref().and_then(sqlite_error_kind),
                Some(SqliteErrorKind::Disk | SqliteErrorKind::CannotOpen)
            ),
            _ => false,
        }
    }

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
