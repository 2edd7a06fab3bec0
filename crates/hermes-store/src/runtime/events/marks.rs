//! How far the log has come, as kept in `runtime.db`: the last cursor, the last row of `state.db`, the last row of
//! each session.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sqlx::SqliteConnection;

use crate::db::row;

/// Key of the highest cursor ever given.
pub(super) const LAST_CURSOR: &str = "bridge_last_cursor";
const GLOBAL: &str = "bridge_mark";
const PENDING: &str = "bridge_unread";
const APPROVALS: &str = "bridge_approvals";

/// How far `state.db` has been read, and which row that was, so that another file can be told from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GlobalMark {
    /// Goes up with every other file.
    pub(super) file: i64,
    /// The last row.
    pub(super) last_id: i64,
    /// Its session.
    session: String,
    /// Its time, as text: a JSON number may come back as its neighbour.
    timestamp: String,
    /// The latest time of all rows read.
    newest: String,
}

impl GlobalMark {
    /// Goes on to this row.
    pub(super) fn advance(&mut self, id: i64, session: &str, timestamp: f64) {
        self.last_id = id;
        session.clone_into(&mut self.session);
        self.timestamp = format!("{timestamp:?}");
        if self.newest().is_none_or(|newest| newest < timestamp) {
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
    pub(super) fn is_at(&self, session: &str, timestamp: f64) -> bool {
        self.session == session && self.timestamp.parse() == Ok(timestamp)
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
pub(super) type Pending = BTreeMap<String, i64>;

pub(super) async fn global(
    connection: &mut SqliteConnection,
) -> Result<Option<GlobalMark>, sqlx::Error> {
    load(connection, GLOBAL).await
}

pub(super) async fn save_global(
    connection: &mut SqliteConnection,
    mark: &GlobalMark,
) -> Result<(), sqlx::Error> {
    save(connection, GLOBAL, mark).await
}

pub(super) async fn pending(connection: &mut SqliteConnection) -> Result<Pending, sqlx::Error> {
    load(connection, PENDING)
        .await
        .map(Option::unwrap_or_default)
}

pub(super) async fn save_pending(
    connection: &mut SqliteConnection,
    pending: &Pending,
) -> Result<(), sqlx::Error> {
    save(connection, PENDING, pending).await
}

/// Whether approvals have been looked at before.
pub(super) async fn knows_approvals(
    connection: &mut SqliteConnection,
) -> Result<bool, sqlx::Error> {
    load::<bool>(connection, APPROVALS)
        .await
        .map(Option::unwrap_or_default)
}

pub(super) async fn set_knows_approvals(
    connection: &mut SqliteConnection,
) -> Result<(), sqlx::Error> {
    save(connection, APPROVALS, &true).await
}

pub(super) async fn save_last_cursor(
    connection: &mut SqliteConnection,
    cursor: i64,
) -> Result<(), sqlx::Error> {
    save(connection, LAST_CURSOR, &cursor).await
}

/// The mark of a session.
pub(super) async fn of_session(
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

pub(super) async fn save_session(
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

pub(super) async fn forget_sessions(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM bridge_marks")
        .execute(connection)
        .await?;
    Ok(())
}

async fn load<T: DeserializeOwned>(
    connection: &mut SqliteConnection,
    key: &str,
) -> Result<Option<T>, sqlx::Error> {
    let found = sqlx::query("SELECT value FROM meta WHERE key = ?1")
        .bind(key)
        .fetch_optional(connection)
        .await?;
    let Some(text) = found
        .map(|found| row::required(&found, "value"))
        .transpose()?
    else {
        return Ok(None);
    };
    Ok(serde_json::from_str(&text).ok())
}

async fn save(
    connection: &mut SqliteConnection,
    key: &str,
    value: &impl Serialize,
) -> Result<(), sqlx::Error> {
    let text = serde_json::to_string(value).map_err(|error| sqlx::Error::Encode(error.into()))?;
    sqlx::query(
        "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT(key) DO UPDATE SET value = excluded.value",
    )
    .bind(key)
    .bind(text)
    .execute(connection)
    .await?;
    Ok(())
}
