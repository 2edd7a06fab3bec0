//! `cron/executions.db`: a record of runs, shared with Hermes Agent 0.19. It is not a queue: a run that was cut off is
//! recorded as `unknown` and not repeated.
//!
//! How a run went and whether its message was delivered are two things: deliveries are in a table of their own, which
//! 0.19 does not know.

mod deliveries;
mod queued;

use hermes_config::{Home, random::random_digits};
use jiff::Zoned;
use sqlx::sqlite::SqliteRow;

use super::directory::cron_dir;
use crate::{
    StoreError,
    clock::zoned_iso,
    db,
    db::{Database, row},
    file::create_private_dir,
};

pub use self::{
    deliveries::{DeliveryRecord, DeliveryStatus, describe_failures},
    queued::{DeliveryTarget, QueuedDelivery, RunMessage},
};

/// Maximum number of finished runs.
const MAX_FINISHED: i64 = 1000;

/// The record of runs.
#[derive(Debug)]
pub struct Executions {
    database: Database,
    /// Tells this process from another one that gets the same number.
    process: String,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionStatus {
    /// Taken, not begun.
    Claimed,
    /// Begun.
    Running,
    /// It went well.
    Completed,
    Failed,
    /// Its process ended; what it did is not known.
    Unknown,
}

impl ExecutionStatus {
    /// The word stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    pub id: String,
    pub job_id: String,
    /// What made it run: `ticker`, `manual`, …
    pub source: String,
    pub pid: i64,
    pub process_started_at: Option<i64>,
    pub status: ExecutionStatus,
    /// ISO time.
    pub claimed_at: String,
    /// ISO time.
    pub started_at: Option<String>,
    /// ISO time.
    pub finished_at: Option<String>,
    pub error: Option<String>,
    /// Where its message went, or was to go.
    pub deliveries: Vec<DeliveryRecord>,
}

impl Execution {
    pub fn delivery_status(&self) -> DeliveryStatus {
        DeliveryStatus::of(&self.deliveries)
    }

    fn read(found: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row::required_text(found, "id")?,
            job_id: row::required_text(found, "job_id")?,
            source: row::required_text(found, "source")?,
            pid: row::integer(found, "pid")?,
            process_started_at: row::optional_integer(found, "process_started_at")?,
            status: match row::required_text(found, "status")?.as_str() {
                "claimed" => ExecutionStatus::Claimed,
                "running" => ExecutionStatus::Running,
                "completed" => ExecutionStatus::Completed,
                "failed" => ExecutionStatus::Failed,
                _ => ExecutionStatus::Unknown,
            },
            claimed_at: row::required_text(found, "claimed_at")?,
            started_at: row::text(found, "started_at")?,
            finished_at: row::text(found, "finished_at")?,
            error: row::text(found, "error")?,
            deliveries: Vec::new(),
        })
    }
}

impl Executions {
    /// Opens the record of a home, making it where there is none.
    pub async fn open(home: &Home) -> Result<Self, StoreError> {
        let path = cron_dir(home).join("executions.db");
        create_private_dir(&cron_dir(home)).map_err(|source| StoreError::Io {
            path: cron_dir(home),
            source,
        })?;
        db::create_file(&path)?;
        let database = Database::for_writing(&path);
        let mut connection = database.writer().await?;
        db::use_write_ahead_log(&mut connection)
            .await
            .map_err(|error| database.error(error))?;
        drop(connection);
        let mut write = database.begin().await?;
        for statement in [
            "CREATE TABLE IF NOT EXISTS executions (\
             id TEXT PRIMARY KEY, job_id TEXT NOT NULL, source TEXT NOT NULL, process_id TEXT NOT NULL, \
             pid INTEGER NOT NULL, process_started_at INTEGER, \
             status TEXT NOT NULL CHECK (status IN ('claimed', 'running', 'completed', 'failed', 'unknown')), \
             claimed_at TEXT NOT NULL, started_at TEXT, finished_at TEXT, error TEXT)",
            "CREATE INDEX IF NOT EXISTS idx_executions_job_claimed ON executions(job_id, claimed_at DESC, id DESC)",
            "CREATE INDEX IF NOT EXISTS idx_executions_status_claimed \
             ON executions(status, claimed_at DESC, id DESC)",
            deliveries::CREATE_TABLE,
            queued::CREATE_TABLE,
        ] {
            sqlx::query(statement)
                .execute(&mut *write)
                .await
                .map_err(|error| database.error(error))?;
        }
        write.commit().await?;
        Ok(Self {
            database,
            process: random_digits(16) + &random_digits(16),
        })
    }

    /// Opens the record of a home read-only; nothing if there is none. To be called inside a runtime.
    pub fn for_reading(home: &Home) -> Option<Self> {
        let path = cron_dir(home).join("executions.db");
        path.exists().then(|| Self {
            database: Database::for_reading(&path, db::reader_options(&path)),
            process: String::new(),
        })
    }

    pub async fn close(&self) {
        self.database.close().await;
    }

    /// Records that a run was taken by this process. Returns its id.
    pub async fn claim(
        &self,
        job: &str,
        source: &str,
        process_started_at: Option<i64>,
        now: &Zoned,
    ) -> Result<String, StoreError> {
        let id = random_digits(16) + &random_digits(16);
        let mut write = self.database.begin().await?;
        sqlx::query(
            "INSERT INTO executions (id, job_id, source, process_id, pid, process_started_at, status, claimed_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'claimed', ?7)",
        )
        .bind(&id)
        .bind(job)
        .bind(source)
        .bind(&self.process)
        .bind(std::process::id())
        .bind(process_started_at)
        .bind(zoned_iso(now))
        .execute(&mut *write)
        .await
        .map_err(|error| self.database.error(error))?;
        write.commit().await?;
        Ok(id)
    }

    /// Records that a run began.
    pub async fn start(&self, id: &str, now: &Zoned) -> Result<(), StoreError> {
        let mut write = self.database.begin().await?;
        sqlx::query(
            "UPDATE executions SET status = 'running', started_at = ?2 WHERE id = ?1 AND status = 'claimed'",
        )
        .bind(id)
        .bind(zoned_iso(now))
        .execute(&mut *write)
        .await
        .map_err(|error| self.database.error(error))?;
        write.commit().await
    }

    /// Records how a run ended. The first record stays.
    pub async fn finish(
        &self,
        id: &str,
        error: Option<&str>,
        now: &Zoned,
    ) -> Result<(), StoreError> {
        self.finish_with_message(id, error, None, now).await
    }

    /// Records how a run ended and, with that, where its message is to go.
    pub async fn finish_with_message(
        &self,
        id: &str,
        error: Option<&str>,
        message: Option<&RunMessage>,
        now: &Zoned,
    ) -> Result<(), StoreError> {
        let status = if error.is_none() {
            "completed"
        } else {
            "failed"
        };
        let mut write = self.database.begin().await?;
        record_end(&mut write, id, status, error, now)
            .await
            .map_err(|error| self.database.error(error))?;
        if let Some(message) = message {
            deliveries::record_message(&mut write, id, message)
                .await
                .map_err(|error| self.database.error(error))?;
        }
        sqlx::query(
            "DELETE FROM executions WHERE id IN (SELECT id FROM executions \
             WHERE status IN ('completed', 'failed', 'unknown') \
             ORDER BY claimed_at DESC, id DESC LIMIT -1 OFFSET ?1)",
        )
        .bind(MAX_FINISHED)
        .execute(&mut *write)
        .await
        .map_err(|error| self.database.error(error))?;
        deliveries::prune(&mut write)
            .await
            .map_err(|error| self.database.error(error))?;
        write.commit().await
    }

    /// Records as unknown what other processes began and, as `is_gone` says, will not finish. Returns how many.
    pub async fn recover(
        &self,
        is_gone: impl Fn(&Execution) -> bool,
        now: &Zoned,
    ) -> Result<usize, StoreError> {
        let rows = sqlx::query(
            "SELECT id, job_id, source, pid, process_started_at, status, claimed_at, started_at, finished_at, error \
             FROM executions WHERE status IN ('claimed', 'running') AND process_id != ?1",
        )
        .bind(&self.process)
        .fetch_all(self.database.readers())
        .await;
        let unfinished = self.read_rows(rows)?;
        let mut recovered = 0;
        for execution in unfinished.iter().filter(|execution| is_gone(execution)) {
            let mut write = self.database.begin().await?;
            let reason = "its process ended before it was done; its result is unknown";
            record_end(&mut write, &execution.id, "unknown", Some(reason), now)
                .await
                .map_err(|error| self.database.error(error))?;
            write.commit().await?;
            recovered += 1;
        }
        self.recover_deliveries(is_gone).await?;
        Ok(recovered)
    }

    /// The last runs, of one job or of all, newest first.
    pub async fn list(&self, job: Option<&str>, limit: u32) -> Result<Vec<Execution>, StoreError> {
        let rows = sqlx::query(
            "SELECT id, job_id, source, pid, process_started_at, status, claimed_at, started_at, finished_at, error \
             FROM executions WHERE ?1 IS NULL OR job_id = ?1 ORDER BY claimed_at DESC, id DESC LIMIT ?2",
        )
        .bind(job)
        .bind(limit)
        .fetch_all(self.database.readers())
        .await;
        let mut executions = self.read_rows(rows)?;
        self.read_deliveries(&mut executions).await?;
        Ok(executions)
    }

    fn read_rows(
        &self,
        rows: Result<Vec<SqliteRow>, sqlx::Error>,
    ) -> Result<Vec<Execution>, StoreError> {
        rows.and_then(|rows| rows.iter().map(Execution::read).collect())
            .map_err(|error| self.database.error(error))
    }
}

async fn record_end(
    connection: &mut sqlx::SqliteConnection,
    id: &str,
    status: &str,
    error: Option<&str>,
    now: &Zoned,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "UPDATE executions SET status = ?2, finished_at = ?3, error = ?4 \
         WHERE id = ?1 AND status IN ('claimed', 'running')",
    )
    .bind(id)
    .bind(status)
    .bind(zoned_iso(now))
    .bind(error)
    .execute(connection)
    .await?;
    Ok(())
}
