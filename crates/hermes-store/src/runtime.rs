//! `runtime.db`: what is needed while things run and can be lost without losing a conversation.

use std::{fs, path::PathBuf, sync::Arc};

use hermes_config::Home;

use crate::{
    StoreError,
    db::{self, Database},
};

mod approvals;
mod events;
mod replies;
mod runs;

pub use approvals::{
    AnswerReceipt, Approval, ApprovalAnswer, ApprovalOutcome, ApprovalState, NewApproval,
    new_approval_id,
};
pub use events::{EventLog, EventPage, LogEnd, LogLimits, LogStorage, LoggedEvent};
pub use replies::StoredReply;
pub use runs::{
    IdempotencyKey, NewRun, Run, RunAcceptance, RunEnd, RunEvent, RunStatus, new_run_id,
};

/// The steps from an empty file to the present tables, in order. A step that was released is never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/runtime/0001.sql"),
    include_str!("../migrations/runtime/0002.sql"),
    include_str!("../migrations/runtime/0003.sql"),
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
