//! The Hub's state in one SQLite file.

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use hermes_store::{
    StoreError,
    db::{self, Database, DatabaseOptions, Durability, SqliteErrorKind},
};
use sqlx::SqlitePool;
use tokio::sync::watch;

use super::{
    ChangeCount, CommandStore, ConnectionCounts, LeaseStore, NoticeStore, State, StateError,
    columns::to_column, tenant_updates::TenantUpdates,
};
use crate::{TenantId, storage::audit::NewAuditEntry};

mod approvals;
mod audit;
mod change;
mod console_sessions;
mod cron;
mod documents;
mod env;
mod files;
mod groups;
mod hub_events;
mod idempotency;
mod mcp_sessions;
mod overview;
mod provided_skills;
mod runs;
mod skill_library;
mod tables;
mod tenants;
mod tokens;
mod usage;
mod webhooks;

use self::change::{Affected, ChangeCounter, WriteTransaction, commit};

/// Migrations, in order. A released one is never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("../../../migrations/sqlite/0001.sql"),
    include_str!("../../../migrations/sqlite/0002.sql"),
    include_str!("../../../migrations/sqlite/0003.sql"),
    include_str!("../../../migrations/sqlite/0004.sql"),
    include_str!("../../../migrations/sqlite/0005.sql"),
    include_str!("../../../migrations/sqlite/0006.sql"),
    include_str!("../../../migrations/sqlite/0007.sql"),
    include_str!("../../../migrations/sqlite/0008.sql"),
    include_str!("../../../migrations/sqlite/0009.sql"),
    include_str!("../../../migrations/sqlite/0010.sql"),
    include_str!("../../../migrations/sqlite/0011.sql"),
    include_str!("../../../migrations/sqlite/0012.sql"),
    include_str!("../../../migrations/sqlite/0013.sql"),
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
    /// Counts events of the Hub.
    event_stored: watch::Sender<u64>,
    /// Changes of tenants that are made together.
    tenant_updates: Arc<TenantUpdates>,
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
            event_stored: watch::Sender::new(0),
            tenant_updates: TenantUpdates::new(),
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

    async fn init_meta(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        // The update changes nothing; it makes the stored row the one that is returned.
        let stored = sqlx::query_scalar(
            "INSERT INTO meta (name, value) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET value = value RETURNING value",
        )
        .bind(name)
        .bind(value)
        .fetch_one(&mut *write)
        .await?;
        commit(write).await?;
        Ok(stored)
    }

    async fn has_encrypted(&self) -> Result<bool, StateError> {
        Ok(sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM env) OR EXISTS (SELECT 1 FROM tenants WHERE key_sealed IS NOT NULL)
                 OR EXISTS (SELECT 1 FROM webhooks WHERE sealed IS NOT NULL)",
        )
        .fetch_one(self.readers())
        .await?)
    }

    async fn delete_encrypted(&self, entry: NewAuditEntry) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::AllTenants).await?;
        sqlx::query("DELETE FROM env").execute(&mut *write).await?;
        // Without its secret nothing can be signed.
        sqlx::query("UPDATE webhooks SET sealed = NULL, enabled = 0, revision = revision + 1")
            .execute(&mut *write)
            .await?;
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

// A Hub with a database file is the only node: it holds every lease, notifies nobody, and nothing is stored about that.
impl LeaseStore for SqliteState {}

impl NoticeStore for SqliteState {}

impl CommandStore for SqliteState {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Problem,
        storage::{
            audit::NewAuditEntry,
            state::{AuditStore, StateError, TenantStore},
        },
    };

    #[tokio::test]
    async fn a_full_disk_is_told_from_a_fault_and_leaves_nothing_torn() {
        let directory = tempfile::tempdir().unwrap();
        let state = SqliteState::open(&directory.path().join("hub.db"), "n1")
            .await
            .unwrap();
        let mut write = state.begin_change(Affected::NoTenant).await.unwrap();
        let pages: i64 = sqlx::query_scalar("PRAGMA page_count")
            .fetch_one(&mut *write)
            .await
            .unwrap();
        // A pragma takes no bound value; this one is a number of ours.
        let limit = format!("PRAGMA max_page_count = {}", pages + 10);
        sqlx::raw_sql(sqlx::AssertSqlSafe(limit))
            .execute(&mut *write)
            .await
            .unwrap();
        commit(write).await.unwrap();
        let mut written = 0;
        let refused = loop {
            let mut large = NewAuditEntry::by_hub("read");
            large.request_id = "x".repeat(4000);
            match state.append_audit(vec![large]).await {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            assert!(written < 1000, "the disk does not get full");
        };
        assert!(matches!(refused, StateError::DiskFull(_)), "{refused}");
        let problem = Problem::from(refused);
        assert_eq!(
            (problem.code.status(), problem.reason),
            (507, Some("disk_full"))
        );
        let checks = state.verify_audit().await.unwrap();
        assert_eq!((checks[0].entries, &checks[0].broken), (written, &None));
    }

    fn tenant(id: &str) -> TenantId {
        TenantId::parse(id).unwrap()
    }

    async fn fresh() -> (tempfile::TempDir, SqliteState) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hub.db");
        let state = SqliteState::open(&path, "n1").await.unwrap();
        (directory, state)
    }

    #[tokio::test]
    async fn only_changes_of_a_tenant_are_counted_for_it() {
        let (_directory, state) = fresh().await;
        let (one, other) = (tenant("one"), tenant("other"));
        let count = |id: &TenantId| state.changes_of(id).unwrap();
        let (before, before_other) = (count(&one), count(&other));
        state.meta("x").await.unwrap();
        let looked = NewAuditEntry::by_hub("looked");
        state.append_audit(vec![looked]).await.unwrap();
        state.set_meta("x", b"1").await.unwrap();
        assert_eq!(count(&one), before);
        state.observe_generation(&one, 1).await.unwrap();
        assert!(!count(&one).vouches_for(before));
        assert!(count(&one).is_one_change_after(before));
        assert_eq!(count(&other), before_other);
        state
            .delete_encrypted(NewAuditEntry::by_hub("forget"))
            .await
            .unwrap();
        assert!(!count(&other).vouches_for(before_other));
        assert!(!count(&one).is_one_change_after(before));
    }

    #[tokio::test]
    async fn what_a_change_wrote_is_not_vouched_for_while_another_is_under_way() {
        let (_directory, state) = fresh().await;
        let one = tenant("one");
        let before = state.changes_of(&one).unwrap();
        state.observe_generation(&one, 1).await.unwrap();
        let pending = state.begin_change(Affected::Tenant(&one)).await.unwrap();
        let after = state.changes_of(&one).unwrap();
        assert!(!after.is_one_change_after(before));
        drop(pending);
        // Nor after it: nobody knows which of the two came last.
        assert!(!state.changes_of(&one).unwrap().is_one_change_after(before));
    }

    /// What the log's end is remembered as must be what is stored, whatever became of the writes in between.
    #[tokio::test]
    async fn the_chain_holds_after_writes_that_were_left_and_writes_that_share_a_commit() {
        let (_directory, state) = fresh().await;
        for round in 0..5 {
            let mut left = state.begin_change(Affected::NoTenant).await.unwrap();
            state
                .append_effect(&mut left, NewAuditEntry::by_hub("left"))
                .await
                .unwrap();
            drop(left);
            let name = format!("m{round}");
            state.set_meta(&name, b"1").await.unwrap();
            let entries = (0..20).map(|_| state.append_audit(vec![NewAuditEntry::by_hub("kept")]));
            for added in futures::future::join_all(entries).await {
                added.unwrap();
            }
        }
        let checks = state.verify_audit().await.unwrap();
        assert_eq!((checks[0].entries, &checks[0].broken), (100, &None));
    }

    #[tokio::test]
    async fn after_a_commit_that_nobody_waited_for_nothing_is_vouched_for() {
        let (_directory, state) = fresh().await;
        // SQLite's own thread may be done before it is looked at: then the commit was waited for after all.
        let mut tries = 0..1000;
        let one = tenant("one");
        loop {
            assert!(tries.next().is_some(), "no commit was ever under way");
            let mut write = state.begin_change(Affected::Tenant(&one)).await.unwrap();
            sqlx::query(
                "INSERT INTO meta (name, value) VALUES (hex(randomblob(8)), zeroblob(65536))",
            )
            .execute(&mut *write)
            .await
            .unwrap();
            let mut committing = Box::pin(commit(write));
            if futures::poll!(&mut committing).is_pending() {
                break;
            }
            assert!(state.changes_of(&one).is_some());
        }
        assert_eq!(state.changes_of(&one), None);
    }
}
