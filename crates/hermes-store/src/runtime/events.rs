//! The log of what happened in a home's conversations: messages of chats, approvals asked and closed.
//!
//! The log is shared by all processes of a home. Whoever notices a change first writes the events, under the write
//! lock of `runtime.db`; a unique key per source keeps a second one from writing them again. Cursors grow by one and
//! are never used twice. `state.db` is only read.

use std::{
    collections::HashSet,
    path::PathBuf,
    time::{Duration, Instant},
};

use hermes_config::Home;
use serde_json::Value;
use sqlx::{Connection, SqliteConnection, sqlite::SqliteRow};

use super::{RuntimeStore, database_path};
use crate::{
    SessionKey, StoreError, StoreVersion,
    clock::utc_iso,
    db::{self, row},
    watch::{FileId, StateFollower},
};

mod approval_events;
mod ingest;
mod marks;
mod rules;
mod source;

use marks::{GlobalMark, LogProgress, LogStatus};

/// How long to wait before a session that could not be read is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// How often old events are trimmed when there are no new ones.
const TRIM_INTERVAL: Duration = Duration::from_mins(10);

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedEvent {
    /// Its place in the log.
    pub cursor: i64,
    /// `message`, `approval_requested` or `approval_resolved`.
    pub kind: String,
    /// The chat it happened in.
    pub session_key: Option<SessionKey>,
    /// What is known about it, an object.
    pub payload: Value,
}

/// Part of the log, and how far the log reaches.
#[derive(Debug, Clone, PartialEq)]
pub struct EventPage {
    /// In the order of their cursors.
    pub events: Vec<LoggedEvent>,
    /// The lowest cursor that is still there.
    pub oldest: Option<i64>,
    /// The highest cursor ever given; 0 if there was none.
    pub last: i64,
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// Maximum number of events.
    pub max_events: usize,
    /// Maximum age of an event.
    pub max_age: Duration,
}

/// Where a log is stored.
#[derive(Debug)]
pub enum LogStorage {
    /// In `runtime.db`, for all processes and restarts.
    Shared,
    /// In memory, since `runtime.db` cannot be written.
    Memory(StoreError),
}

/// Where a log ends, so that another one can go on from there.
#[derive(Debug, Clone)]
pub struct LogEnd {
    last: i64,
    mark: Option<GlobalMark>,
}

/// Keeps the log up to date. One per process is enough.
#[derive(Debug)]
pub struct EventLog {
    runtime: RuntimeStore,
    path: PathBuf,
    /// Identifies the file, so that a replacement is noticed; none in memory.
    file: Option<FileId>,
    /// Watches `runtime.db`; nobody else can change a log in memory.
    held: Option<SqliteConnection>,
    state: StateFollower,
    limits: LogLimits,
    with_own: bool,
    since: Option<f64>,
    seen: Option<(Option<StoreVersion>, Option<i64>)>,
    retry_at: Option<Instant>,
    trim_at: Instant,
    /// Sessions whose failure has been reported.
    reported: HashSet<String>,
}

impl EventLog {
    /// Opens the log of a home, or one in memory if the home cannot be written. Only a lock is an error: trying
    /// again may help.
    pub async fn open(home: &Home, limits: LogLimits) -> Result<(Self, LogStorage), StoreError> {
        let (runtime, keeping) = match open_writable(home).await {
            Ok(runtime) => (runtime, LogStorage::Shared),
            Err(error @ StoreError::Locked { .. }) => return Err(error),
            Err(error) => (RuntimeStore::in_memory().await?, LogStorage::Memory(error)),
        };
        let path = database_path(home);
        let (file, held) = match keeping {
            LogStorage::Shared => {
                let held = db::open_held_connection(&path).await;
                let held = held.map_err(|error| runtime.database.error(error))?;
                (FileId::from_path(&path), Some(held))
            }
            LogStorage::Memory(_) => (None, None),
        };
        let log = Self {
            runtime,
            path,
            file,
            held,
            state: StateFollower::new(home),
            limits,
            with_own: false,
            since: None,
            seen: None,
            retry_at: None,
            trim_at: Instant::now(),
            reported: HashSet::new(),
        };
        Ok((log, keeping))
    }

    /// Logs conversations without a platform, too. From then on every process of the home does: the log is one.
    #[must_use]
    pub fn with_own_platforms(self, with_own: bool) -> Self {
        Self { with_own, ..self }
    }

    /// Lets a log that begins have what was said since that moment, in seconds since 1970.
    #[must_use]
    pub fn since(self, since: f64) -> Self {
        Self {
            since: Some(since),
            ..self
        }
    }

    /// Continues the cursors after another log, unless this one is further already.
    pub async fn continue_after(&mut self, end: &LogEnd) -> Result<(), StoreError> {
        let database = &self.runtime.database;
        let error = |error| database.error(error);
        let mut write = database.begin().await?;
        let status = LogStatus::read(&mut write).await.map_err(error)?;
        let mut progress = LogProgress::default();
        if status.last < end.last {
            progress.last_cursor(end.last);
        }
        if let (None, Some(mark)) = (&status.mark, &end.mark) {
            progress.mark(mark);
            progress.knows_approvals();
        }
        if progress.save(&mut write).await.map_err(error)? {
            write.commit().await?;
        }
        Ok(())
    }

    /// Whether its file was deleted or replaced. Other processes do not see what is logged then.
    pub fn is_file_replaced(&self) -> bool {
        self.file.is_some() && FileId::from_path(&self.path) != self.file
    }

    /// Where it ends. A file that was deleted can still be read on the connection that is held.
    pub async fn end(&mut self) -> Result<LogEnd, StoreError> {
        let status = match &mut self.held {
            Some(held) => LogStatus::read(held).await,
            None => LogStatus::read(&mut *self.runtime.database.writer().await?).await,
        };
        let status = status.map_err(|error| self.runtime.database.error(error))?;
        Ok(LogEnd {
            last: status.last,
            mark: status.mark,
        })
    }

    /// Where the events are read.
    pub fn runtime(&self) -> &RuntimeStore {
        &self.runtime
    }

    /// Turns what has happened since the last poll into events. Returns whether there was anything to read; if
    /// not, this is cheap.
    pub async fn poll(&mut self) -> Result<bool, StoreError> {
        let shared = match &mut self.held {
            Some(held) => Some(
                db::data_version(held)
                    .await
                    .map_err(|error| self.runtime.database.error(error))?,
            ),
            None => None,
        };
        let (version, problem) = match self.state.poll().await {
            Ok(version) => (version, None),
            // Being made at this moment, perhaps.
            Err(StoreError::Unavailable { .. }) => (None, None),
            // Nothing more is known than before.
            Err(error) => (self.seen.and_then(|(version, _)| version), Some(error)),
        };
        let seen = Some((version, shared));
        let now = Instant::now();
        let is_due = self.retry_at.is_some_and(|at| at <= now) || self.trim_at <= now;
        if self.seen == seen && !is_due {
            self.runtime.database.run_deferred_checkpoint().await;
            return problem.map_or(Ok(false), Err);
        }
        let source = match (self.state.reader(), &problem) {
            (_, Some(_)) => ingest::MessageSource::Unreadable,
            (Some(reader), None) => ingest::MessageSource::Store(reader),
            (None, None) => ingest::MessageSource::Absent,
        };
        let unread = ingest::ingest(
            &self.runtime.database,
            source,
            self.limits,
            self.with_own,
            self.since,
        )
        .await?;
        self.trim_at = now + TRIM_INTERVAL;
        self.retry_at = (!unread.is_empty()).then(|| now + RETRY_INTERVAL);
        self.log_unread_sessions(unread);
        self.seen = seen;
        problem.map_or(Ok(true), Err)
    }

    /// Closes all connections. The log stays as it is.
    pub async fn close(mut self) {
        self.state.close().await;
        if let Some(held) = self.held.take()
            && let Err(error) = held.close().await
        {
            tracing::debug!(%error, "failed to close the event log");
        }
        self.runtime.close().await;
    }

    fn log_unread_sessions(&mut self, unread: Vec<ingest::UnreadSession>) {
        self.reported
            .retain(|session| unread.iter().any(|unread| unread.session == *session));
        for unread in unread {
            if self.reported.insert(unread.session) {
                tracing::warn!(
                    session_key = unread.session_key,
                    error = %unread.error,
                    "failed to read a session for the event log; retrying"
                );
            }
        }
    }
}

/// Opens the database and makes sure that it can be written.
async fn open_writable(home: &Home) -> Result<RuntimeStore, StoreError> {
    let runtime = RuntimeStore::open(home).await?;
    drop(runtime.database.begin().await?);
    Ok(runtime)
}

impl RuntimeStore {
    /// The cursor before the first event of what has happened since that moment, in seconds since 1970; `None` if
    /// nothing has. When an event was logged says less: that is done when a bridge is there.
    pub async fn cursor_before(&self, since: f64) -> Result<Option<i64>, StoreError> {
        let first: Result<Option<i64>, _> = sqlx::query_scalar(
            "SELECT MIN(cursor) - 1 FROM bridge_events WHERE created_at >= ?1 AND CASE type \
             WHEN 'message' THEN CAST(json_extract(payload, '$.timestamp') AS REAL) >= ?1 \
             WHEN 'approval_requested' THEN json_extract(payload, '$.created_at') >= ?2 ELSE 1 END",
        )
        .bind(since)
        .bind(utc_iso(since))
        .fetch_one(self.database.readers())
        .await;
        first.map_err(|error| self.database.error(error))
    }

    /// The events after a cursor, of one chat or of all, and how far the log reaches at that moment.
    pub async fn events_after(
        &self,
        cursor: i64,
        session_key: Option<&str>,
        limit: usize,
    ) -> Result<EventPage, StoreError> {
        // One statement, so that both are of the same moment. Without an event there is still the row of the reach.
        let rows = sqlx::query(
            "SELECT r.oldest, r.last, e.cursor, e.type, e.session_key, e.payload \
             FROM (SELECT (SELECT MIN(cursor) FROM bridge_events) AS oldest, \
             CAST((SELECT value FROM meta WHERE key = ?1) AS INTEGER) AS last) AS r \
             LEFT JOIN (SELECT cursor, type, session_key, payload FROM bridge_events \
             WHERE cursor > ?2 AND (?3 IS NULL OR session_key = ?3) ORDER BY cursor LIMIT ?4) AS e \
             ORDER BY e.cursor",
        )
        .bind(marks::LAST_CURSOR_KEY)
        .bind(cursor)
        .bind(session_key)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(self.database.readers())
        .await;
        rows.and_then(|rows| EventPage::read(&rows))
            .map_err(|error| self.database.error(error))
    }
}

impl EventPage {
    fn read(rows: &[SqliteRow]) -> Result<Self, sqlx::Error> {
        let mut page = Self {
            events: Vec::with_capacity(rows.len()),
            oldest: None,
            last: 0,
        };
        for found in rows {
            page.oldest = row::optional_integer(found, "oldest")?;
            page.last = row::integer(found, "last")?;
            if let Some(cursor) = row::optional_integer(found, "cursor")? {
                page.events.push(LoggedEvent::read(cursor, found)?);
            }
        }
        Ok(page)
    }
}

impl LoggedEvent {
    fn read(cursor: i64, found: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            cursor,
            kind: row::required_text(found, "type")?,
            session_key: row::text(found, "session_key")?.map(SessionKey::new),
            payload: row::json(found, "payload")?.unwrap_or_default(),
        })
    }
}
