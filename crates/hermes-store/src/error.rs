//! What can go wrong with a home's databases, and what to do about it.

use std::{io, path::PathBuf};

use crate::{SessionId, db};

/// Why a store could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no database yet. A reader may treat that as an empty one.
    #[error("Session database unavailable: `{}` does not exist yet", path.display())]
    Absent {
        /// Where it would be.
        path: PathBuf,
    },
    /// The file is a database without the tables of a store.
    #[error("Session database unavailable: `{}` has no {missing}", path.display())]
    Unavailable {
        /// The file.
        path: PathBuf,
        /// The table or column that is not there.
        missing: String,
    },
    /// The file is damaged or no database. It was not changed.
    #[error(
        "`{}` is damaged or no database ({reason}); nothing was changed. Move it away to start afresh, or put a backup in its place",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// A newer program's database, without what we would write.
    #[error(
        "`{}` has schema {version}, newer than this program knows, and lacks {missing}; update this program to write to it (reading works)",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema version.
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
        /// The file.
        path: PathBuf,
        /// Its schema version.
        version: usize,
        /// The newest we know.
        known: usize,
    },
    /// There is no room on the disk.
    #[error("`{}` can not grow: the disk is full", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// Another process kept the database locked for too long. Trying again may help.
    #[error("`{}` is locked by another process; try again", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// A write through a store opened for reading.
    #[error("`{}` was opened for reading only", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The copy before the first write failed, so nothing was written.
    #[error("the backup `{}` could not be made, so nothing was written: {source}", path.display())]
    Backup {
        /// The copy.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file or directory of the home could not be used.
    #[error("`{}`: {source}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// SQLite or its driver failed in another way.
    #[error("`{}`: {source}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What it says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The session is not in the store.
    #[error("there is no session `{id}`")]
    NoSuchSession {
        /// The id asked for.
        id: SessionId,
    },
    /// The message is not in that session.
    #[error("there is no message {id} in session `{session}`")]
    NoSuchMessage {
        /// The session.
        session: SessionId,
        /// The row asked for.
        id: crate::MessageId,
    },
    /// The session has no turn left that could be taken back.
    #[error("session `{id}` has nothing to take back")]
    NothingToRewind {
        /// The session.
        id: SessionId,
    },
    /// The id could lead out of a directory.
    #[error("`{id}` is no session id")]
    BadSessionId {
        /// The id as given.
        id: String,
    },
    /// Several sessions begin like this.
    #[error("`{prefix}` is the beginning of several session ids; give more of it")]
    AmbiguousSession {
        /// What was given.
        prefix: String,
    },
    /// Titles have a limit.
    #[error("the title has {length} characters; at most 100 are allowed")]
    TitleTooLong {
        /// After cleaning.
        length: usize,
    },
    /// Titles are unique.
    #[error("the title `{title}` is already in use by session `{holder}`")]
    TitleTaken {
        /// The title.
        title: String,
        /// Who has it.
        holder: SessionId,
    },
    /// Somebody else is compacting the session, or our turn to do so ran out.
    #[error("session `{id}` is not locked for compaction by this process")]
    CompactionNotLocked {
        /// The session.
        id: SessionId,
    },
    /// The id of an approval may only have letters, digits, `_` and `-`, 64 at most.
    #[error("`{id}` is no approval id")]
    BadApprovalId {
        /// The id as given.
        id: String,
    },
}

impl StoreError {
    /// Sorts a driver's error by what its reader can do about it.
    pub(crate) fn from_database(path: &std::path::Path, error: sqlx::Error) -> Self {
        let path = path.to_path_buf();
        match db::code(&error) {
            Some(db::Code::Corrupt) => Self::Corrupt {
                path,
                reason: db::message(&error),
            },
            Some(db::Code::Busy) => Self::Locked { path },
            Some(db::Code::Full) => Self::DiskFull { path },
            _ if matches!(error, sqlx::Error::PoolTimedOut) => Self::Locked { path },
            _ => Self::Database {
                path,
                source: error.into(),
            },
        }
    }
}
