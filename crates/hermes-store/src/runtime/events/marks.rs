//! How far the log has come, as kept in `runtime.db`: the last cursor, the last row of `state.db`, the last row of
//! each session.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use sqlx::{SqliteConnection, sqlite::SqliteRow};

use crate::db::row;

/// Key of the highest cursor ever given.
pub(super) const LAST_CURSOR_KEY: &str = "bridge_last_cursor";
const GLOBAL_MARK_KEY: &str = "bridge_mark";
const PENDING_KEY: &str = "bridge_unread";
const APPROVALS_KEY: &str = "bridge_approvals";
const OWN_PLATFORMS_KEY: &str = "bridge_own";

/// How far `state.db` has been read, and which row that was, so that another file can be told from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GlobalMark {
    /// Goes up with every other file.
    pub(super) file: i64,
    /// The last row.
    pub(super) last_id: i64,
    session: String,
    /// Its time, as text: a JSON number may come back as its neighbour.
    timestamp: String,
    /// The latest time of all rows read.
    newest: String,
}

impl GlobalMark {
    /// Goes on to this row.
    pub(super) fn advance(&mut self, id: i64, session: &str, timestamp: Option<f64>) {
        self.last_id = id;
        session.clone_into(&mut self.session);
        self.timestamp = timestamp
            .map(|time| format!("{time:?}"))
            .unwrap_or_default();
        if timestamp > self.newest() {
            self.newest.clone_from(&self.timestamp);
        }
    }

    /// Begins with another file.
    pub(super) fn in_another_file(self) -> Self {
        Self {
            file: self.file + 1,
            newest: self.newest,
            ..Self::default()
        }
    }

    /// Whether a row of that id is the one the mark was made at.
    pub(super) fn is_at(&self, session: &str, timestamp: Option<f64>) -> bool {
        let is_same_time = match (self.timestamp.parse::<f64>(), timestamp) {
            (Ok(known), Some(timestamp)) => known.to_bits() == timestamp.to_bits(),
            // Where one cannot be read, the rest has to do.
            _ => true,
        };
        self.session == session && is_same_time
    }

    /// The latest time of all.
    pub(super) fn newest(&self) -> Option<f64> {
        self.newest.parse().ok()
    }
}

/// How far a session has been read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SessionMark {
    /// A row that stays unless the history is deleted.
    pub(super) last_id: i64,
    /// The latest time of all its rows.
    pub(super) max_timestamp: f64,
}

/// Sessions that could not be read, each with the last row that is done with.
pub(super) type PendingSessions = BTreeMap<String, i64>;

/// Everything a look begins with, in one statement.
#[derive(Debug)]
pub(super) struct LogStatus {
    /// The highest cursor ever given; 0 if there was none.
    pub(super) last: i64,
    /// The lowest cursor that is there, and when its event was logged.
    pub(super) oldest: Option<(i64, f64)>,
    /// None before the first look at a store.
    pub(super) mark: Option<GlobalMark>,
    /// Sessions left behind.
    pub(super) pending: PendingSessions,
    /// Whether approvals have been looked at before.
    pub(super) knows_approvals: bool,
    /// Whether there is anything to log about them.
    pub(super) has_approvals: bool,
    /// Whether conversations without a platform are logged: since any process wanted that, all do it.
    pub(super) logs_own: bool,
}

impl LogStatus {
    pub(super) async fn read(connection: &mut SqliteConnection) -> Result<Self, sqlx::Error> {
        let found = sqlx::query(
            "SELECT (SELECT value FROM meta WHERE key = ?1) AS last, (SELECT value FROM meta WHERE key = ?2) AS mark, \
             (SELECT value FROM meta WHERE key = ?3) AS pending, \
             EXISTS (SELECT 1 FROM meta WHERE key = ?4) AS knows_approvals, \
             EXISTS (SELECT 1 FROM approvals WHERE logged < 2 AND (logged = 0 OR state = 'resolved')) \
             AS has_approvals, EXISTS (SELECT 1 FROM meta WHERE key = ?5) AS logs_own, \
             (SELECT MIN(cursor) FROM bridge_events) AS oldest, \
             (SELECT created_at FROM bridge_events ORDER BY cursor LIMIT 1) AS oldest_at",
        )
        .bind(LAST_CURSOR_KEY)
        .bind(GLOBAL_MARK_KEY)
        .bind(PENDING_KEY)
        .bind(APPROVALS_KEY)
        .bind(OWN_PLATFORMS_KEY)
        .fetch_one(connection)
        .await?;
        let oldest = row::optional_integer(&found, "oldest")?;
        let oldest_at = row::real(&found, "oldest_at")?;
        Ok(Self {
            last: parse_column(&found, "last")?.unwrap_or_default(),
            oldest: oldest.zip(oldest_at),
            mark: parse_column(&found, "mark")?,
            pending: parse_column(&found, "pending")?.unwrap_or_default(),
            knows_approvals: row::integer(&found, "knows_approvals")? != 0,
            has_approvals: row::integer(&found, "has_approvals")? != 0,
            logs_own: row::integer(&found, "logs_own")? != 0,
        })
    }
}

fn parse_column<T: DeserializeOwned>(
    found: &SqliteRow,
    column: &str,
) -> Result<Option<T>, sqlx::Error> {
    let text = row::text(found, column)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// What a look leaves behind, written in one statement.
#[derive(Debug, Default)]
pub(super) struct LogProgress(Map<String, Value>);

impl LogProgress {
    pub(super) fn last_cursor(&mut self, cursor: i64) {
        self.set(LAST_CURSOR_KEY, &cursor);
    }

    pub(super) fn mark(&mut self, mark: &GlobalMark) {
        self.set(GLOBAL_MARK_KEY, mark);
    }

    pub(super) fn pending(&mut self, pending: &PendingSessions) {
        self.set(PENDING_KEY, pending);
    }

    pub(super) fn knows_approvals(&mut self) {
        self.set(APPROVALS_KEY, &true);
    }

    pub(super) fn logs_own(&mut self) {
        self.set(OWN_PLATFORMS_KEY, &true);
    }

    fn set(&mut self, key: &str, value: &impl Serialize) {
        let value = serde_json::json!(value).to_string();
        self.0.insert(key.into(), value.into());
    }

    /// Returns whether there was anything to write.
    pub(super) async fn save(self, connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
        if self.0.is_empty() {
            return Ok(false);
        }
        // Without `WHERE`, the conflict clause would be read as part of a join.
        sqlx::query(
            "INSERT INTO meta (key, value) SELECT key, value FROM json_each(?1) WHERE true \
             ON CONFLICT(key) DO UPDATE SET value = excluded.value",
        )
        .bind(Value::Object(self.0).to_string())
        .execute(connection)
        .await?;
        Ok(true)
    }
}

pub(super) async fn read_session_mark(
    connection: &mut SqliteConnection,
    session: &str,
) -> Result<Option<SessionMark>, sqlx::Error> {
    let found =
        sqlx::query("SELECT last_id, max_timestamp FROM bridge_marks WHERE session_id = ?1")
            .bind(session)
            .fetch_optional(connection)
            .await?;
    let Some(found) = found else {
        return Ok(None);
    };
    Ok(Some(SessionMark {
        last_id: row::integer(&found, "last_id")?,
        max_timestamp: row::real(&found, "max_timestamp")?.unwrap_or(f64::MIN),
    }))
}

pub(super) async fn save_session_mark(
    connection: &mut SqliteConnection,
    session: &str,
    mark: SessionMark,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO bridge_marks (session_id, last_id, max_timestamp) VALUES (?1, ?2, ?3) \
         ON CONFLICT(session_id) DO UPDATE SET last_id = excluded.last_id, max_timestamp = excluded.max_timestamp",
    )
    .bind(session)
    .bind(mark.last_id)
    .bind(mark.max_timestamp)
    .execute(connection)
    .await?;
    Ok(())
}

pub(super) async fn delete_session_marks(
    connection: &mut SqliteConnection,
) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM bridge_marks")
        .execute(connection)
        .await?;
    Ok(())
}
