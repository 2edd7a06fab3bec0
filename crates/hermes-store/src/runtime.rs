//! `runtime.db`: what is needed while things run and can be lost without losing a conversation. Here are also replies
//! to requests with an idempotency key, so that a repeated request has no second effect.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use hermes_config::Home;

use crate::{
    StoreError,
    clock::epoch_seconds,
    db::{self, Database, row},
};

mod approvals;
mod chat_migration;
mod events;
mod inbox;
mod outbox;
mod runs;

pub use approvals::{
    AnswerReceipt, Approval, ApprovalAnswer, ApprovalOutcome, ApprovalState, NewApproval,
    new_approval_id,
};
pub use events::{EventLog, EventPage, LogEnd, LogLimits, LogStorage, LoggedEvent};
pub use inbox::{InboxCounts, InboxKey, InboxRow, InboxState, NewUpdate};
pub use outbox::{
    ChunkStart, NewOutbound, NewOutboundChunk, OutboundAction, OutboundChat, OutboundCounts,
    OutboundRow, OutboundState,
};
pub use runs::{
    IdempotencyKey, NewRun, Run, RunAcceptance, RunEnd, RunEvent, RunStatus, new_run_id,
};

/// The steps from an empty file to the present tables, in order. A step that was released is never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/runtime/0001.sql"),
    include_str!("../migrations/runtime/0002.sql"),
    include_str!("../migrations/runtime/0003.sql"),
    include_str!("../migrations/runtime/0004.sql"),
];

/// A home's running state. Clones share the connections.
#[derive(Debug, Clone)]
pub struct RuntimeStore {
    database: Arc<Database>,
}

impl RuntimeStore {
    /// Opens the database of a home, making or migrating it.
    pub async fn open(home: &Home) -> Result<Self, StoreError> {
        home.create().map_err(|source| StoreError::Io {
            path: home.path().to_path_buf(),
            source,
        })?;
        let path = database_path(home);
        if db::create_file(&path)? {
            // Left by one that was deleted while somebody had it open, these would be taken for the new one's.
            for suffix in ["-wal", "-shm"] {
                let _ = fs::remove_file(db::sibling_path(&path, suffix));
            }
        }
        let database = Database::for_writing(&path);
        db::use_write_ahead_log(&mut *database.writer().await?)
            .await
            .map_err(|error| database.error(error))?;
        db::migrate(&database, MIGRATIONS, db::MigrationBackup::Skip).await?;
        Ok(Self {
            database: Arc::new(database),
        })
    }

    /// A store that has no file and is forgotten with the process.
    pub async fn in_memory() -> Result<Self, StoreError> {
        let database = Database::in_memory();
        db::migrate(&database, MIGRATIONS, db::MigrationBackup::Skip).await?;
        Ok(Self {
            database: Arc::new(database),
        })
    }

    /// Writes everything back into the one file and closes the connections, those of clones too.
    pub async fn close(&self) {
        self.database.close().await;
    }

    /// Copies the log back into the database, for a moment in which the next write is not near.
    pub async fn checkpoint_in_pause(&self) {
        self.database.checkpoint_in_pause().await;
    }

    /// A value kept under a key.
    pub async fn meta(&self, key: &str) -> Result<Option<String>, StoreError> {
        let value: Option<Option<String>> =
            sqlx::query_scalar("SELECT value FROM meta WHERE key = ?1")
                .bind(key)
                .fetch_optional(self.database.readers())
                .await
                .map_err(|error| self.database.error(error))?;
        Ok(value.flatten())
    }

    /// Keeps a value under a key.
    pub async fn set_meta(&self, key: &str, value: &str) -> Result<(), StoreError> {
        let mut write = self.database.begin().await?;
        sqlx::query(
            "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT(key) DO UPDATE SET value = excluded.value",
        )
        .bind(key)
        .bind(value)
        .execute(&mut *write)
        .await
        .map_err(|error| self.database.error(error))?;
        write.commit().await
    }
}

fn database_path(home: &Home) -> PathBuf {
    home.path().join("runtime.db")
}

/// An answer that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReply {
    /// Stands for the request's body: another body under the same key is a mistake.
    pub fingerprint: String,
    pub status: u16,
    pub body: String,
}

impl RuntimeStore {
    /// What was answered under a key.
    pub async fn reply(&self, key: &str) -> Result<Option<StoredReply>, StoreError> {
        let found = sqlx::query("SELECT fingerprint, status, body FROM replies WHERE key = ?1")
            .bind(key)
            .fetch_optional(self.database.readers())
            .await
            .map_err(|error| self.database.error(error))?;
        let read = |found: sqlx::sqlite::SqliteRow| {
            Ok(StoredReply {
                fingerprint: row::required_text(&found, "fingerprint")?,
                status: u16::try_from(row::integer(&found, "status")?).unwrap_or(500),
                body: row::required_text(&found, "body")?,
            })
        };
        found
            .map(read)
            .transpose()
            .map_err(|error| self.database.error(error))
    }

    /// Remembers an answer. The first one under a key stays.
    pub async fn store_reply(&self, key: &str, reply: &StoredReply) -> Result<(), StoreError> {
        let mut write = self.database.begin().await?;
        sqlx::query(
            "INSERT INTO replies (key, fingerprint, status, body, created_at) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT(key) DO NOTHING",
        )
        .bind(key)
        .bind(&reply.fingerprint)
        .bind(reply.status)
        .bind(&reply.body)
        .bind(epoch_seconds())
        .execute(&mut *write)
        .await
        .map_err(|error| self.database.error(error))?;
        write.commit().await
    }

    /// Forgets answers that were given that long ago.
    pub async fn prune_replies(&self, age: Duration) -> Result<u64, StoreError> {
        let mut write = self.database.begin().await?;
        let done = sqlx::query("DELETE FROM replies WHERE created_at < ?1")
            .bind(epoch_seconds() - age.as_secs_f64())
            .execute(&mut *write)
            .await
            .map_err(|error| self.database.error(error))?;
        write.commit().await?;
        Ok(done.rows_affected())
    }
}
