//! Runs of the agent and what happened in them, event by event.
//!
//! A run is stored before anybody is told that it was accepted, and an event before anybody is told of it. Events are
//! numbered 1, 2, 3 in their run. What is over stays so: a run in a final status is never changed again.

use std::time::Duration;

use hermes_config::random::random_digits;
use serde_json::{Map, Value};
use sqlx::{
    Sqlite, SqliteConnection,
    query::Query,
    sqlite::{SqliteArguments, SqliteRow},
};

use super::RuntimeStore;
use crate::{SessionId, StoreError, clock::epoch_seconds, db::row};

#[cfg(test)]
mod tests;

/// A run to be accepted.
#[derive(Debug, Clone)]
pub struct NewRun {
    pub id: String,
    /// The session it continues or begins.
    pub session: Option<SessionId>,
    /// What it comes from: `api`, `chat`, `cron`.
    pub source: String,
    /// The cron job, if it is one's.
    pub job: Option<String>,
    /// What was asked.
    pub input: Value,
    /// Makes it the same run as an earlier one, perhaps.
    pub idempotency: Option<IdempotencyKey>,
}

/// A caller's own name for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    pub key: String,
    /// Stands for the request's body.
    pub fingerprint: String,
}

/// A name for a run: `run_` and 32 hexadecimal digits.
pub fn new_run_id() -> String {
    format!("run_{}{}", random_digits(16), random_digits(16))
}

/// What became of a request for a run.
#[derive(Debug, Clone, PartialEq)]
pub enum RunAcceptance {
    /// It is stored.
    New,
    /// There is one under this key already.
    Same(Box<Run>),
    /// The key belongs to another request.
    Conflict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    /// Accepted.
    Queued,
    /// Under way.
    Running,
    /// Under way, and somebody has to decide something.
    WaitingForApproval,
    /// It was told to stop.
    Stopping,
    /// It has an answer.
    Completed,
    /// It has none.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl RunStatus {
    const ALL: [Self; 7] = [
        Self::Queued,
        Self::Running,
        Self::WaitingForApproval,
        Self::Stopping,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The word stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::WaitingForApproval => "waiting_for_approval",
            Self::Stopping => "stopping",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing more will happen.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    fn parse(word: &str) -> Self {
        let known = Self::ALL.into_iter().find(|it| it.as_str() == word);
        known.unwrap_or(Self::Failed)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub id: String,
    pub session: Option<SessionId>,
    pub status: RunStatus,
    /// What it comes from.
    pub source: String,
    /// The cron job, if it is one's.
    pub job: Option<String>,
    /// What was asked.
    pub input: Value,
    /// The answer.
    pub output: Option<String>,
    /// What it took.
    pub usage: Option<Value>,
    /// Why there is no answer.
    pub error: Option<Value>,
    /// Seconds since 1970.
    pub created_at: f64,
    /// Seconds since 1970.
    pub updated_at: f64,
    /// The number of its last event; 0 if there is none.
    pub last_seq: i64,
    /// The name of its last event.
    pub last_event: Option<String>,
}

/// One thing that happened in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    /// 1, 2, 3 and so on.
    pub seq: i64,
    /// `event` and what belongs to it.
    pub body: Map<String, Value>,
}

#[derive(Debug, Clone)]
pub struct RunEnd {
    /// A final one.
    pub status: RunStatus,
    /// The session, where that was not known before.
    pub session: Option<SessionId>,
    /// The answer.
    pub output: Option<String>,
    /// What it took.
    pub usage: Option<Value>,
    /// Why there is no answer.
    pub error: Option<Value>,
    /// The last event.
    pub event: Map<String, Value>,
}

const SELECT_RUN: &str = "SELECT r.id, r.session_id, r.status, r.source, r.job_id, r.input, r.output, r.usage, \
     r.error, r.created_at, r.updated_at, e.seq AS last_seq, e.event AS last_event \
     FROM runs AS r LEFT JOIN run_events AS e ON e.run_id = r.id \
     AND e.seq = (SELECT MAX(seq) FROM run_events WHERE run_id = r.id)";

impl Run {
    fn read(found: &SqliteRow) -> Result<Self, sqlx::Error> {
        let last = row::json(found, "last_event")?;
        Ok(Self {
            id: row::required_text(found, "id")?,
            session: row::text(found, "session_id")?.map(SessionId::from_stored),
            status: RunStatus::parse(&row::required_text(found, "status")?),
            source: row::required_text(found, "source")?,
            job: row::text(found, "job_id")?,
            input: row::json(found, "input")?.unwrap_or_default(),
            output: row::text(found, "output")?,
            usage: row::json(found, "usage")?,
            error: row::json(found, "error")?,
            created_at: row::real(found, "created_at")?.unwrap_or_default(),
            updated_at: row::real(found, "updated_at")?.unwrap_or_default(),
            last_seq: row::integer(found, "last_seq")?,
            last_event: last.and_then(|last| last["event"].as_str().map(str::to_owned)),
        })
    }
}

impl RuntimeStore {
    /// Stores a run, unless its key names an earlier one.
    pub async fn create_run(&self, new: &NewRun) -> Result<RunAcceptance, StoreError> {
        let now = epoch_seconds();
        let Some(idempotency) = &new.idempotency else {
            self.database.execute(|| insert_run(new, now)).await?;
            return Ok(RunAcceptance::New);
        };
        let error = |error| self.database.error(error);
        let mut write = self.database.begin().await?;
        let found = find_by_key(&mut write, idempotency).await.map_err(error)?;
        if let Some(accepted) = found {
            return Ok(accepted);
        }
        let inserted = insert_run(new, now).execute(&mut *write).await;
        inserted.map_err(error)?;
        write.commit_without_checkpoint().await?;
        Ok(RunAcceptance::New)
    }

    /// The run that a key names, or that the key belongs to another request.
    pub async fn find_run_by_key(
        &self,
        key: &IdempotencyKey,
    ) -> Result<Option<RunAcceptance>, StoreError> {
        let found = async {
            let mut reader = self.database.readers().acquire().await?;
            find_by_key(&mut reader, key).await
        };
        found.await.map_err(|error| self.database.error(error))
    }

    pub async fn run(&self, id: &str) -> Result<Option<Run>, StoreError> {
        let found = sqlx::query(sqlx::AssertSqlSafe(format!("{SELECT_RUN} WHERE r.id = ?1")))
            .bind(id)
            .fetch_optional(self.database.readers())
            .await;
        found
            .and_then(|found| found.as_ref().map(Run::read).transpose())
            .map_err(|error| self.database.error(error))
    }

    /// The runs that have not ended, oldest first.
    pub async fn unfinished_runs(&self) -> Result<Vec<Run>, StoreError> {
        let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
            "{SELECT_RUN} WHERE r.status IN ('queued', 'running', 'waiting_for_approval', 'stopping') \
             ORDER BY r.created_at, r.id"
        )))
        .fetch_all(self.database.readers())
        .await;
        rows.and_then(|rows| rows.iter().map(Run::read).collect())
            .map_err(|error| self.database.error(error))
    }

    /// Says how far a run is. Returns whether it was not over yet.
    pub async fn set_run_status(&self, id: &str, status: RunStatus) -> Result<bool, StoreError> {
        let now = epoch_seconds();
        let changed = self.database.execute(|| update_status(id, status, now));
        Ok(changed.await? > 0)
    }

    /// Adds events, all or none, and perhaps says how far the run is. Returns the number of the last one.
    pub async fn append_run_events(
        &self,
        id: &str,
        events: &[Map<String, Value>],
        status: Option<RunStatus>,
    ) -> Result<i64, StoreError> {
        let mut write = self.database.begin().await?;
        let appended = async {
            if let Some(status) = status {
                let update = update_status(id, status, epoch_seconds());
                update.execute(&mut *write).await?;
            }
            append(&mut write, id, events).await
        };
        let last = appended.await.map_err(|error| self.database.error(error))?;
        write.commit_without_checkpoint().await?;
        Ok(last)
    }

    /// Ends a run with its last event. Returns whether it was not over yet.
    pub async fn finish_run(&self, id: &str, end: &RunEnd) -> Result<bool, StoreError> {
        let error = |error| self.database.error(error);
        let mut write = self.database.begin().await?;
        let done = sqlx::query(
            "UPDATE runs SET status = ?2, session_id = COALESCE(?3, session_id), output = ?4, usage = ?5, \
             error = ?6, updated_at = ?7 WHERE id = ?1 AND status NOT IN ('completed', 'failed', 'cancelled')",
        )
        .bind(id)
        .bind(end.status.as_str())
        .bind(end.session.as_ref().map(SessionId::as_str))
        .bind(&end.output)
        .bind(end.usage.as_ref().map(Value::to_string))
        .bind(end.error.as_ref().map(Value::to_string))
        .bind(epoch_seconds())
        .execute(&mut *write)
        .await
        .map_err(error)?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        append(&mut write, id, std::slice::from_ref(&end.event))
            .await
            .map_err(error)?;
        write.commit().await?;
        Ok(true)
    }

    /// The events of a run after this one, in order, at most so many.
    pub async fn run_events_after(
        &self,
        id: &str,
        seq: i64,
        limit: u32,
    ) -> Result<Vec<RunEvent>, StoreError> {
        let rows = sqlx::query(
            "SELECT seq, event FROM run_events WHERE run_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
        )
        .bind(id)
        .bind(seq)
        .bind(limit)
        .fetch_all(self.database.readers())
        .await;
        let read = |found: &SqliteRow| {
            Ok(RunEvent {
                seq: row::integer(found, "seq")?,
                body: match row::json(found, "event")? {
                    Some(Value::Object(body)) => body,
                    _ => Map::new(),
                },
            })
        };
        rows.and_then(|rows| rows.iter().map(read).collect())
            .map_err(|error| self.database.error(error))
    }

    /// Forgets runs that ended that long ago, with their events.
    pub async fn prune_runs(&self, age: Duration) -> Result<u64, StoreError> {
        const OLD: &str = "status IN ('completed', 'failed', 'cancelled') AND updated_at < ?1";
        let before = epoch_seconds() - age.as_secs_f64();
        let error = |error| self.database.error(error);
        let mut write = self.database.begin().await?;
        for (table, column) in [("run_events", "run_id"), ("runs", "id")] {
            let sql =
                format!("DELETE FROM {table} WHERE {column} IN (SELECT id FROM runs WHERE {OLD})");
            let done = sqlx::query(sqlx::AssertSqlSafe(sql))
                .bind(before)
                .execute(&mut *write)
                .await
                .map_err(error)?;
            if table == "runs" {
                write.commit().await?;
                return Ok(done.rows_affected());
            }
        }
        Ok(0)
    }
}

async fn find_by_key(
    connection: &mut SqliteConnection,
    key: &IdempotencyKey,
) -> Result<Option<RunAcceptance>, sqlx::Error> {
    let found = sqlx::query(sqlx::AssertSqlSafe(format!(
        "{SELECT_RUN} WHERE r.idempotency_key = ?1"
    )))
    .bind(&key.key)
    .fetch_optional(&mut *connection)
    .await?;
    let Some(found) = found else {
        return Ok(None);
    };
    let run = Run::read(&found)?;
    let fingerprint: Option<String> =
        sqlx::query_scalar("SELECT fingerprint FROM runs WHERE id = ?1")
            .bind(&run.id)
            .fetch_one(connection)
            .await?;
    Ok(Some(
        if fingerprint.as_deref() == Some(key.fingerprint.as_str()) {
            RunAcceptance::Same(Box::new(run))
        } else {
            RunAcceptance::Conflict
        },
    ))
}

fn insert_run(new: &NewRun, now: f64) -> Query<'_, Sqlite, SqliteArguments> {
    sqlx::query(
        "INSERT INTO runs (id, session_id, status, input, created_at, updated_at, idempotency_key, source, \
         job_id, fingerprint) VALUES (?1, ?2, 'queued', ?3, ?4, ?4, ?5, ?6, ?7, ?8)",
    )
    .bind(&new.id)
    .bind(new.session.as_ref().map(SessionId::as_str))
    .bind(new.input.to_string())
    .bind(now)
    .bind(new.idempotency.as_ref().map(|it| &it.key))
    .bind(&new.source)
    .bind(&new.job)
    .bind(new.idempotency.as_ref().map(|it| &it.fingerprint))
}

fn update_status(id: &str, status: RunStatus, now: f64) -> Query<'_, Sqlite, SqliteArguments> {
    // What is stopping does not run again.
    sqlx::query(
        "UPDATE runs SET status = ?2, updated_at = ?3 WHERE id = ?1 \
         AND status NOT IN ('completed', 'failed', 'cancelled', 'stopping')",
    )
    .bind(id)
    .bind(status.as_str())
    .bind(now)
}

async fn append(
    connection: &mut SqliteConnection,
    id: &str,
    events: &[Map<String, Value>],
) -> Result<i64, sqlx::Error> {
    let last: Option<i64> = sqlx::query_scalar("SELECT MAX(seq) FROM run_events WHERE run_id = ?1")
        .bind(id)
        .fetch_one(&mut *connection)
        .await?;
    let mut last = last.unwrap_or_default();
    let now = epoch_seconds();
    for event in events {
        last += 1;
        sqlx::query(
            "INSERT INTO run_events (run_id, seq, event, created_at) VALUES (?1, ?2, ?3, ?4)",
        )
        .bind(id)
        .bind(last)
        .bind(Value::Object(event.clone()).to_string())
        .bind(now)
        .execute(&mut *connection)
        .await?;
    }
    Ok(last)
}
