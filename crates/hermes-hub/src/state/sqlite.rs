//! The Hub's state in one SQLite file.

use std::{path::Path, time::Duration};

use async_trait::async_trait;
use hermes_store::{
    StoreError,
    db::{self, Code, Database, Durability, Opening},
};
use sqlx::SqlitePool;

use super::{ChangeCount, Connections, State, StateError};
use crate::{TenantId, audit::NewEntry};

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

use self::change::{Affected, Change, Changes, commit};

/// Migrations, in order. A released one is never changed.
const STEPS: &[&str] = &[
    include_str!("../../migrations/sqlite/0001.sql"),
    include_str!("../../migrations/sqlite/0002.sql"),
    include_str!("../../migrations/sqlite/0003.sql"),
];
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct SqliteState {
    database: Database,
    /// This node, which has its own audit chain.
    node: String,
    /// Valid because the directory's lock keeps other processes out.
    changes: Changes,
    unfiled: audit::Unfiled,
}

impl SqliteState {
    /// Opens the file; creates or migrates it.
    pub async fn open(path: &Path, node: &str) -> Result<Self, StoreError> {
        let opening = Opening {
            steps: STEPS,
            durability: Durability::Power,
            patience: PATIENCE,
        };
        Ok(Self {
            database: Database::open(path, opening).await?,
            node: node.to_owned(),
            changes: Changes::default(),
            unfiled: audit::Unfiled::default(),
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
    async fn begin(&self, affected: Affected<'_>) -> Result<Change<'_>, StateError> {
        let write = self.database.begin_in_group().await.map_err(unwritable)?;
        Ok(Change::new(write, &self.changes, affected))
    }
}

/// A write that could not begin or commit may succeed later.
fn unwritable(error: StoreError) -> StateError {
    match error {
        StoreError::DiskFull { .. } => StateError::DiskFull(error.to_string()),
        error => StateError::Unavailable(error.to_string()),
    }
}

impl From<sqlx::Error> for StateError {
    fn from(error: sqlx::Error) -> Self {
        match db::code(&error) {
            Some(Code::Full) => Self::DiskFull(error.to_string()),
            Some(Code::Busy | Code::CanNotOpen | Code::Disk) => {
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
fn column(count: u64) -> i64 {
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

    fn connections(&self) -> Connections {
        let readers = self.readers();
        Connections {
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
        let mut write = self.begin(Affected::NoTenant).await?;
        sqlx::query(
            "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )
        .bind(name)
        .bind(value)
        .execute(&mut *write)
        .await?;
        commit(write).await
    }

    async fn has_sealed(&self) -> Result<bool, StateError> {
        Ok(sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM env) OR EXISTS (SELECT 1 FROM tenants WHERE key_sealed IS NOT NULL)",
        )
        .fetch_one(self.readers())
        .await?)
    }

    async fn forget_sealed(&self, entry: NewEntry) -> Result<(), StateError> {
        let mut write = self.begin(Affected::AllTenants).await?;
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
        self.effect(&mut write, entry).await?;
        commit(write).await
    }

    async fn close(&self) {
        self.database.close().await;
    }
}

#[cfg(test)]
mod tests;
