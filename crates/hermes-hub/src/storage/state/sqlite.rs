//! The Hub's state in one SQLite file.

use std::{path::Path, time::Duration};

use async_trait::async_trait;
use hermes_store::{
    StoreError,
    db::{self, Database, DatabaseOptions, Durability, SqliteErrorKind},
};
use sqlx::SqlitePool;

use super::{ChangeCount, ConnectionCounts, State, StateError};
use crate::{TenantId, storage::audit::NewAuditEntry};

mod approvals;
mod audit;
mod change;
mod cron;
mod documents;
mod env;
mod files;
mod groups;
mod idempotency;
mod mcp_sessions;
mod queue;
mod row;
mod runs;
mod tenants;
mod tokens;

use self::change::{Affected, ChangeCounter, WriteTransaction, commit};

/// Migrations, in order. A released one is never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("../../../migrations/sqlite/0001.sql"),
    include_str!("../../../migrations/sqlite/0002.sql"),
    include_str!("../../../migrations/sqlite/0003.sql"),
    include_str!("../../../migrations/sqlite/0004.sql"),
];
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct SqliteState {
    database: Database,
    /// This node, which has its own audit chain.
    node: String,
    /// Valid because the directory's lock keeps other processes out.
    changes: ChangeCounter,
    unindexed: audit::UnindexedEntries,
}

impl SqliteState {
    /// Opens the file; creates or migrates it.
    pub async fn open(path: &Path, node: &str) -> Result<Self, StoreError> {
        let opening = DatabaseOptions {
            steps: MIGRATIONS,
            durability: Durability::Power,
            write_timeout: WRITE_TIMEOUT,
        };
        Ok(Self {
            database: Database::open(path, opening).await?,
            node: node.to_owned(),
            changes: ChangeCounter::default(),
            unindexed: audit::UnindexedEntries::default(),
        })
    }

    /// Writes a consistent copy to a new file while the Hub keeps running.
    pub async fn copy_to(&self, copy: &Path) -> Result<(), StoreError> {
        self.database.copy_to(copy).await
    }

    fn readers(&self) -> &SqlitePool {
        self.database.readers()
    }

    /// Begins a change. What is known of those whom it affects is looked up anew afterwards.
    async fn begin_change(
        &self,
        affected: Affected<'_>,
    ) -> Result<WriteTransaction<'_>, StateError> {
        let write = self.database.begin_in_group().await.map_err(write_error)?;
        Ok(WriteTransaction::new(write, &self.changes, affected))
    }
}

/// A write that could not begin or commit may succeed later.
fn write_error(error: StoreError) -> StateError {
    match error {
        StoreError::DiskFull { .. } => StateError::DiskFull(error.to_string()),
        error => StateError::Unavailable(error.to_string()),
    }
}

impl From<sqlx::Error> for StateError {
    fn from(error: sqlx::Error) -> Self {
        match db::sqlite_error_kind(&error) {
            Some(SqliteErrorKind::Full) => Self::DiskFull(error.to_string()),
            Some(SqliteErrorKind::Busy | SqliteErrorKind::CannotOpen | SqliteErrorKind::Disk) => {
                Self::Unavailable(error.to_string())
            }
            _ => match error {
                sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Io(_) => {
                    Self::Unavailable(error.to_string())
                }
                error => Self::Broken(error.to_string()),
            },
        }
    }
}

impl From<serde_json::Error> for StateError {
    fn from(error: serde_json::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

/// Saturates at the largest integer of SQLite.
fn to_column(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[async_trait]
impl State for SqliteState {
    fn changes_of(&self, tenant: &TenantId) -> Option<ChangeCount> {
        self.changes.of(tenant)
    }

    async fn ping(&self) -> Result<(), StateError> {
        sqlx::query("SELECT 1 FROM meta LIMIT 1")
            .fetch_optional(self.readers())
            .await?;
        Ok(())
    }

    fn connections(&self) -> ConnectionCounts {
        let readers = self.readers();
        ConnectionCounts {
            open: u64::from(readers.size()),
            idle: readers.num_idle() as u64,
        }
    }

    async fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, StateError> {
        Ok(sqlx::query_scalar("SELECT value FROM meta WHERE name = ?1")
            .bind(name)
            .fetch_optional(self.readers())
            .await?)
    }

    async fn set_meta(&self, name: &str, value: &[u8]) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        sqlx::query(
            "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )
        .bind(name)
        .bind(value)
        .execute(&mut *write)
        .await?;
        commit(write).await
    }

    async fn has_encrypted(&self) -> Result<bool, StateError> {
        Ok(sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM env) OR EXISTS (SELECT 1 FROM tenants WHERE key_sealed IS NOT NULL)",
        )
        .fetch_one(self.readers())
        .await?)
    }

    async fn delete_encrypted(&self, entry: NewAuditEntry) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::AllTenants).await?;
        sqlx::query("DELETE FROM env").execute(&mut *write).await?;
        // Stored replies may contain secrets and are encrypted, too.
        sqlx::query("DELETE FROM idempotency")
            .execute(&mut *write)
            .await?;
        sqlx::query(
            "UPDATE tenants SET key_hash = NULL, key_sealed = NULL, key_last4 = NULL, key_rotated_at = NULL,
                 old_key_hash = NULL, old_key_until = NULL, generation = generation + 1, revision = revision + 1",
        )
        .execute(&mut *write)
        .await?;
        self.append_effect(&mut write, entry).await?;
        commit(write).await
    }

    async fn close(&self) {
        self.database.close().await;
    }
}

#[cfg(test)]
mod tests;
