//! Where the database is now: what the backup of its server is restored to, so that it fits the objects.

use sqlx::{PgPool, Row};

use super::{
    PostgresOpenError,
    schema::{begin, current_version},
    server::ServerLink,
};
use crate::{api_types::Time, storage::state::StateError};

/// A position of the database. Everything that was committed before is before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabasePosition {
    /// By the clock of the server.
    pub time: Time,
    /// The server that writes the log, and its copies.
    pub system: String,
    pub timeline: i64,
    /// In the write-ahead log.
    pub wal: String,
    /// The version of the tables.
    pub tables: i64,
}

/// A copy that only reads has no position of its own.
const POSITION: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS time,
     (SELECT system_identifier::text FROM pg_control_system()) AS system,
     (SELECT timeline_id::bigint FROM pg_control_checkpoint()) AS timeline,
     (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END)::text AS wal";

/// `None` where there are no tables.
pub(super) async fn read_position(
    pool: &PgPool,
    server: &ServerLink,
) -> Result<Option<DatabasePosition>, PostgresOpenError> {
    let Some(tables) = current_version(pool, server).await? else {
        return Ok(None);
    };
    let mut session = begin(pool, server).await?;
    let row = session.one(sqlx::query(POSITION)).await?;
    let read = || {
        Ok::<_, sqlx::Error>(DatabasePosition {
            time: Time::from_millis(row.try_get("time")?),
            system: row.try_get("system")?,
            timeline: row.try_get("timeline")?,
            wal: row.try_get("wal")?,
            tables,
        })
    };
    Ok(Some(read().map_err(StateError::from)?))
}
