//! What opening the database may find.

use crate::storage::state::StateError;

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PostgresOpenError {
    /// Without the address, which may have a password.
    #[error(
        "the address is not one of a PostgreSQL database; write `postgres://user@host/database`"
    )]
    Address,
    #[error(
        "the server is PostgreSQL {}; version 13 or newer is needed",
        version / 10_000
    )]
    OldServer {
        /// As the server numbers it.
        version: u32,
    },
    #[error(
        "the database was migrated to version {version} by a newer program; this one knows version {known}. Start the newer program, or restore a backup that was made before"
    )]
    NewerSchema { version: i64, known: i64 },
    #[error(
        "the database has version {version}, and this program migrates from version {oldest} on; start an earlier release first, which migrates it"
    )]
    OlderSchema { version: i64, oldest: i64 },
    #[error(transparent)]
    State(#[from] StateError),
}

/// What a database has of the Hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TablesFound {
    /// The next start makes them.
    None,
    /// The next start migrates them.
    Older,
    Current,
}
