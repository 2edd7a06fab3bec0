//! What a session remembers of a summary that could not be had, so that no program asks for another at once.

use sqlx::Row;

use super::found;
use crate::{SessionId, Store, StoreError};

/// A summary that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionFailure {
    /// Until then no other is asked for; seconds since 1970.
    pub rests_until: f64,
    /// Why.
    pub error: String,
    /// How many failed in a row.
    pub in_a_row: u32,
}

impl Store {
    /// The last failure, unless a summary has succeeded since.
    pub async fn compaction_failure(
        &self,
        id: &SessionId,
    ) -> Result<Option<CompactionFailure>, StoreError> {
        let row = sqlx::query(
            "SELECT compression_failure_cooldown_until, compression_failure_error, compression_fallback_streak \
             FROM sessions WHERE id = ?1 AND compression_failure_cooldown_until IS NOT NULL",
        )
        .bind(id.as_str())
        .fetch_optional(self.readers())
        .await
        .map_err(|error| self.error(error))?;
        let read = |row: sqlx::sqlite::SqliteRow| {
            let error: Option<String> = row.try_get(1)?;
            let streak: i64 = row.try_get(2)?;
            Ok(CompactionFailure {
                rests_until: row.try_get(0)?,
                error: error.unwrap_or_default(),
                in_a_row: u32::try_from(streak).unwrap_or_default(),
            })
        };
        row.map(read).transpose().map_err(|error| self.error(error))
    }

    /// Remembers a failure, or that there is none any more.
    pub async fn set_compaction_failure(
        &self,
        id: &SessionId,
        failure: Option<&CompactionFailure>,
    ) -> Result<(), StoreError> {
        let mut write = self.begin().await?;
        let done = sqlx::query(
            "UPDATE sessions SET compression_failure_cooldown_until = ?2, compression_failure_error = ?3, \
             compression_fallback_streak = ?4 WHERE id = ?1",
        )
        .bind(id.as_str())
        .bind(failure.map(|failure| failure.rests_until))
        .bind(failure.map(|failure| failure.error.as_str()))
        .bind(failure.map_or(0, |failure| i64::from(failure.in_a_row)))
        .execute(&mut *write)
        .await
        .map_err(|error| self.error(error))?;
        found(done.rows_affected(), id)?;
        write.commit().await
    }
}
