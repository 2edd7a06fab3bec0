//! One poll: under the write lock, new rows of `state.db` and changed approvals become events, and the marks advance
//! with them.

use serde_json::{Value, json};
use sqlx::SqliteConnection;

use super::{
    LogLimits, marks,
    marks::{GlobalMark, LogProgress, LogStatus, PendingSessions},
    rules,
    rules::LoggedMessage,
    source::{
        ExaminedRows, MessageRow, MessageText, NewSessionRows, StateReadError, StateSnapshot,
    },
};
use crate::{
    StoreError,
    clock::epoch_seconds,
    db::{self, Database, SqliteErrorKind},
    runtime::events::approval_events,
    watch::StateReader,
};

/// Where messages come from.
#[derive(Debug)]
pub(super) enum MessageSource<'a> {
    /// From this store.
    Store(&'a mut StateReader),
    /// There is none.
    Absent,
    /// There is one, but not for us at the moment.
    Unreadable,
}

/// A session that could not be read.
#[derive(Debug)]
pub(super) struct UnreadSession {
    pub(super) session: String,
    pub(super) session_key: String,
    pub(super) error: String,
}

/// The end of the log while it is written.
pub(super) struct EventWriter<'a> {
    pub(super) connection: &'a mut SqliteConnection,
    pub(super) progress: LogProgress,
    last: i64,
    has_changed: bool,
    now: f64,
}

impl EventWriter<'_> {
    /// Adds an event, unless its source has one.
    pub(super) async fn add(
        &mut self,
        source_key: &str,
        kind: &str,
        session_key: Option<&str>,
        payload: &Value,
    ) -> Result<(), sqlx::Error> {
        let done = sqlx::query(
            "INSERT INTO bridge_events (cursor, source_key, type, session_key, payload, created_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT(source_key) DO NOTHING",
        )
        .bind(self.last + 1)
        .bind(source_key)
        .bind(kind)
        .bind(session_key)
        .bind(payload.to_string())
        .bind(self.now)
        .execute(&mut *self.connection)
        .await?;
        if done.rows_affected() > 0 {
            self.last += 1;
        }
        Ok(())
    }

    /// Marks that something else was written.
    pub(super) fn mark_changed(&mut self) {
        self.has_changed = true;
    }

    /// Writes how far the log has come and trims it. Returns whether anything is to be committed.
    async fn finish(mut self, status: &LogStatus, limits: LogLimits) -> Result<bool, sqlx::Error> {
        if self.last > status.last {
            self.progress.last_cursor(self.last);
        }
        let is_written = self.progress.save(self.connection).await?;
        let is_trimmed = trim(self.connection, status, self.last, self.now, limits).await?;
        Ok(is_written || is_trimmed || self.has_changed)
    }
}

/// Polls once. Returns the sessions that could not be read.
pub(super) async fn ingest(
    runtime: &Database,
    source: MessageSource<'_>,
    limits: LogLimits,
    with_own: bool,
    since: Option<f64>,
) -> Result<Vec<UnreadSession>, StoreError> {
    let error = |error| runtime.error(error);
    let mut write = runtime.begin().await?;
    let status = LogStatus::read(&mut write).await.map_err(error)?;
    let mut log = EventWriter {
        connection: &mut write,
        progress: LogProgress::default(),
        last: status.last,
        has_changed: false,
        now: epoch_seconds(),
    };
    if with_own && !status.logs_own {
        log.progress.logs_own();
    }
    let with_own = with_own || status.logs_own;
    let unread = match source {
        MessageSource::Store(reader) => {
            let store = reader.store.clone();
            ingest_messages(&mut log, &status, reader, limits, with_own, since)
                .await
                .map_err(|failure| match failure {
                    IngestError::Log(error) => runtime.error(error),
                    IngestError::Source(StateReadError(error)) => store.error(error),
                })?
        }
        MessageSource::Absent => {
            if status.mark.is_none() {
                // There is nothing to begin after: all that a store will have is new.
                log.progress.mark(&GlobalMark::default());
            }
            Vec::new()
        }
        MessageSource::Unreadable => Vec::new(),
    };
    approval_events::log_approvals(&mut log, &status)
        .await
        .map_err(error)?;
    if log.finish(&status, limits).await.map_err(error)? {
        // Others wait for this to be over.
        write.commit_without_checkpoint().await?;
    }
    Ok(unread)
}

/// Which database a statement failed on.
enum IngestError {
    Log(sqlx::Error),
    Source(StateReadError),
}

impl From<sqlx::Error> for IngestError {
    fn from(error: sqlx::Error) -> Self {
        Self::Log(error)
    }
}

impl From<StateReadError> for IngestError {
    fn from(error: StateReadError) -> Self {
        Self::Source(error)
    }
}

async fn ingest_messages(
    log: &mut EventWriter<'_>,
    status: &LogStatus,
    reader: &mut StateReader,
    limits: LogLimits,
    with_own: bool,
    since: Option<f64>,
) -> Result<Vec<UnreadSession>, IngestError> {
    let mut snapshot = StateSnapshot::begin(reader, with_own).await?;
    let known_id = status.mark.as_ref().map_or(0, |mark| mark.last_id);
    let (end, known) = snapshot.last_row_and(known_id).await?;
    let mut mark = match (status.mark.clone(), since) {
        (Some(mark), _) => mark,
        // A log that begins has what was said since that moment.
        (None, Some(since)) => {
            let begin = snapshot.last_row_until(since).await?;
            set_marks(log, &mut snapshot, GlobalMark::default(), begin).await?
        }
        (None, None) => {
            set_marks(log, &mut snapshot, GlobalMark::default(), end).await?;
            return Ok(Vec::new());
        }
    };
    let mut pending = status.pending.clone();
    if is_another_file(&mut snapshot, &mark, end.as_ref(), known).await? {
        let begin = match mark.newest() {
            Some(newest) => snapshot.last_row_until(newest).await?,
            None => None,
        };
        pending = PendingSessions::new();
        mark = set_marks(log, &mut snapshot, mark.in_another_file(), begin).await?;
    }
    let Some(end) = end.filter(|end| end.id > mark.last_id || !pending.is_empty()) else {
        return Ok(Vec::new());
    };
    let unread = log_rows(log, &mut snapshot, &mark, &mut pending, limits).await?;
    if pending != status.pending {
        log.progress.pending(&pending);
    }
    if end.id > mark.last_id {
        mark.advance(end.id, &end.session, end.timestamp);
        log.progress.mark(&mark);
    }
    Ok(unread)
}

/// Whether the marks were made on another file than this one: ids are never used twice in one.
async fn is_another_file(
    snapshot: &mut StateSnapshot<'_>,
    mark: &GlobalMark,
    end: Option<&MessageRow>,
    known: Option<MessageRow>,
) -> Result<bool, StateReadError> {
    if mark.last_id == 0 {
        return Ok(false);
    }
    if end.is_none_or(|end| end.id < mark.last_id) {
        let highest = snapshot.highest_id().await;
        return Ok(highest.is_none_or(|highest| highest < mark.last_id));
    }
    // The row may have been deleted.
    Ok(known.is_some_and(|known| !mark.is_at(&known.session, known.timestamp)))
}

/// Sets all marks to that row: what comes after it is new.
async fn set_marks(
    log: &mut EventWriter<'_>,
    snapshot: &mut StateSnapshot<'_>,
    mut mark: GlobalMark,
    row: Option<MessageRow>,
) -> Result<GlobalMark, IngestError> {
    if let Some(row) = row {
        mark.advance(row.id, &row.session, row.timestamp);
    }
    marks::delete_session_marks(log.connection).await?;
    for (session, known) in snapshot.marks().await? {
        if known.last_id <= mark.last_id {
            marks::save_session_mark(log.connection, &session, known).await?;
        }
    }
    log.progress.mark(&mark);
    log.progress.pending(&PendingSessions::new());
    Ok(mark)
}

/// Logs the rows after the mark, and those of sessions that could not be read before.
async fn log_rows(
    log: &mut EventWriter<'_>,
    snapshot: &mut StateSnapshot<'_>,
    mark: &GlobalMark,
    pending: &mut PendingSessions,
    limits: LogLimits,
) -> Result<Vec<UnreadSession>, IngestError> {
    let mut unread = Vec::new();
    let mut sessions: Vec<(NewSessionRows, i64, ExaminedRows)> = Vec::new();
    for (fresh, known) in sessions_with_new_rows(snapshot, mark, pending).await? {
        let marked = marks::read_session_mark(log.connection, &fresh.session).await?;
        match snapshot.examine(&fresh, marked).await {
            Ok(examined) => sessions.push((fresh, known, examined)),
            Err(error) => unread.push(defer_session(pending, &fresh, known, error)?),
        }
    }
    let rows: Vec<_> = sessions
        .iter()
        .map(|(_, known, examined)| (*known, examined.rows.clone()))
        .collect();
    let said = rules::select_messages(&rows, |one, other| {
        sessions[one].0.session_key == sessions[other].0.session_key
    });
    let kept_from = said.len().saturating_sub(limits.max_events);
    for (at, said) in said.iter().enumerate() {
        let (fresh, ..) = &sessions[said.session];
        if unread.iter().any(|unread| unread.session == fresh.session) {
            continue;
        }
        match snapshot.message(said.id).await {
            // It would be trimmed at once, but it happened.
            Ok(Some(_)) if at < kept_from => log.last += 1,
            Ok(Some(message)) => add_message(log, mark, said, fresh, &message).await?,
            Ok(None) => {}
            Err(error) => unread.push(defer_session(pending, fresh, said.first - 1, error)?),
        }
    }
    for (fresh, _, examined) in &sessions {
        if !unread.iter().any(|unread| unread.session == fresh.session) {
            pending.remove(&fresh.session);
            marks::save_session_mark(log.connection, &fresh.session, examined.mark).await?;
        }
    }
    Ok(unread)
}

/// The sessions with rows to log, each with the last row that is done with.
async fn sessions_with_new_rows(
    snapshot: &mut StateSnapshot<'_>,
    mark: &GlobalMark,
    pending: &mut PendingSessions,
) -> Result<Vec<(NewSessionRows, i64)>, StateReadError> {
    let mut sessions = Vec::new();
    for (session, known) in pending.clone() {
        match snapshot.new_rows_of_session(&session, known).await? {
            Some(fresh) => sessions.push((fresh, known)),
            // Deleted in the meantime.
            None => drop(pending.remove(&session)),
        }
    }
    for fresh in snapshot.new_rows(mark.last_id).await? {
        if !pending.contains_key(&fresh.session) {
            sessions.push((fresh, mark.last_id));
        }
    }
    Ok(sessions)
}

/// Defers a session. A locked database fails the whole poll instead.
fn defer_session(
    pending: &mut PendingSessions,
    fresh: &NewSessionRows,
    known: i64,
    StateReadError(error): StateReadError,
) -> Result<UnreadSession, StateReadError> {
    if db::sqlite_error_kind(&error) == Some(SqliteErrorKind::Busy) {
        return Err(StateReadError(error));
    }
    pending.insert(fresh.session.clone(), known);
    Ok(UnreadSession {
        session: fresh.session.clone(),
        session_key: fresh.session_key.clone(),
        error: db::sqlite_message(&error),
    })
}

async fn add_message(
    log: &mut EventWriter<'_>,
    mark: &GlobalMark,
    said: &LoggedMessage,
    fresh: &NewSessionRows,
    message: &MessageText,
) -> Result<(), sqlx::Error> {
    let source_key = format!("message:{}:{}", mark.file, said.first);
    let payload = json!({
        "role": message.role,
        "content": message.content,
        "timestamp": format!("{:?}", message.timestamp),
        "message_id": said.id.to_string(),
    });
    log.add(&source_key, "message", Some(&fresh.session_key), &payload)
        .await
}

/// Removes what is too much or too old, always from the beginning. Returns whether there was any.
async fn trim(
    connection: &mut SqliteConnection,
    status: &LogStatus,
    last: i64,
    now: f64,
    limits: LogLimits,
) -> Result<bool, sqlx::Error> {
    let most = i64::try_from(limits.max_events).unwrap_or(i64::MAX);
    let limit = now - limits.max_age.as_secs_f64();
    let mut until = last.saturating_sub(most);
    // What is new is not old; and if the oldest one is not, none is.
    let (oldest, oldest_at) = status.oldest.unwrap_or((status.last + 1, now));
    if oldest_at < limit {
        let old: Option<i64> =
            sqlx::query_scalar("SELECT MAX(cursor) FROM bridge_events WHERE created_at < ?1")
                .bind(limit)
                .fetch_one(&mut *connection)
                .await?;
        until = until.max(old.unwrap_or_default());
    }
    if until < oldest {
        return Ok(false);
    }
    let done = sqlx::query("DELETE FROM bridge_events WHERE cursor <= ?1")
        .bind(until)
        .execute(connection)
        .await?;
    Ok(done.rows_affected() > 0)
}
