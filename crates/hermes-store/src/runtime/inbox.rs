//! Updates of platforms: stored before they are acknowledged, and kept until they have been dealt with. With them the
//! position where reading from a platform goes on, one for each account, in the platform's own form.
//!
//! `new` → `running` → `done`. Rows that are not `done` when a process starts were left by one that died. A row stays
//! for a while after it is done, so that a second delivery of the same update is recognised.

use std::time::Duration;

use serde_json::Value;
use sqlx::{SqliteConnection, sqlite::SqliteRow};

use super::RuntimeStore;
use crate::{SessionKey, StoreError, clock::epoch_seconds, db::row, json};

mod deferred;

/// An update as the platform sent it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewUpdate {
    /// The same for the same update, however often it is delivered.
    pub event_id: String,
    pub payload: Value,
}

/// Names one update.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InboxKey {
    pub platform: String,
    /// Empty for the first account of a platform.
    pub account: String,
    pub event_id: String,
}

/// How far an update is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InboxState {
    New,
    Running,
    Done,
}

impl InboxState {
    /// The word stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Running => "running",
            Self::Done => "done",
        }
    }

    fn parse(word: &str) -> Self {
        [Self::New, Self::Running]
            .into_iter()
            .find(|state| state.as_str() == word)
            .unwrap_or(Self::Done)
    }
}

/// A stored update.
#[derive(Debug, Clone, PartialEq)]
pub struct InboxRow {
    pub platform: String,
    /// Empty for the first account of a platform.
    pub account: String,
    pub event_id: String,
    /// The chat it belongs to, once that is known.
    pub session_key: Option<SessionKey>,
    pub payload: Value,
    /// Seconds since 1970.
    pub received_at: f64,
    pub state: InboxState,
    /// How often it was begun.
    pub attempts: i64,
}

impl InboxRow {
    pub fn key(&self) -> InboxKey {
        InboxKey {
            platform: self.platform.clone(),
            account: self.account.clone(),
            event_id: self.event_id.clone(),
        }
    }

    pub(super) fn read(found: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            platform: row::required_text(found, "platform")?,
            account: row::required_text(found, "account")?,
            event_id: row::required_text(found, "event_id")?,
            session_key: row::text(found, "session_key")?.map(SessionKey::new),
            payload: row::json(found, "payload")?.unwrap_or_default(),
            received_at: row::real(found, "received_at")?.unwrap_or_default(),
            state: InboxState::parse(&row::required_text(found, "state")?),
            attempts: row::integer(found, "attempts")?,
        })
    }
}

/// How many updates there are to deal with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InboxCounts {
    pub new: i64,
    pub running: i64,
}

pub(super) const SELECT_UPDATE: &str = "SELECT platform, account, event_id, session_key, payload, received_at, state, attempts \
     FROM inbox";

impl RuntimeStore {
    /// Stores updates and the position behind them in one transaction. Returns the ids of those that were not known.
    pub async fn store_updates(
        &self,
        platform: &str,
        account: &str,
        updates: &[NewUpdate],
        cursor: Option<&Value>,
    ) -> Result<Vec<String>, StoreError> {
        let mut write = self.database.begin_in_group().await?;
        let now = epoch_seconds();
        let mut stored = Vec::new();
        let written = async {
            for update in updates {
                let done = sqlx::query(
                    "INSERT INTO inbox (platform, account, event_id, payload, received_at, state) \
                     VALUES (?1, ?2, ?3, ?4, ?5, 'new') ON CONFLICT DO NOTHING",
                )
                .bind(platform)
                .bind(account)
                .bind(&update.event_id)
                .bind(update.payload.to_string())
                .bind(now)
                .execute(&mut *write)
                .await?;
                if done.rows_affected() > 0 {
                    stored.push(update.event_id.clone());
                }
            }
            if let Some(cursor) = cursor {
                write_cursor(&mut write, platform, account, cursor).await?;
            }
            Ok(())
        };
        written.await.map_err(|error| self.database.error(error))?;
        write.commit().await?;
        Ok(stored)
    }

    /// The updates that are not done, oldest first.
    pub async fn pending_updates(&self) -> Result<Vec<InboxRow>, StoreError> {
        let sql = format!("{SELECT_UPDATE} WHERE state <> 'done' ORDER BY received_at, rowid");
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .fetch_all(self.database.readers())
            .await;
        rows.and_then(|rows| rows.iter().map(InboxRow::read).collect())
            .map_err(|error| self.database.error(error))
    }

    /// One update, whatever its state.
    pub async fn update(&self, key: &InboxKey) -> Result<Option<InboxRow>, StoreError> {
        let sql = format!("{SELECT_UPDATE} WHERE platform = ?1 AND account = ?2 AND event_id = ?3");
        let found = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(&key.platform)
            .bind(&key.account)
            .bind(&key.event_id)
            .fetch_optional(self.database.readers())
            .await;
        found
            .and_then(|found| found.as_ref().map(InboxRow::read).transpose())
            .map_err(|error| self.database.error(error))
    }

    /// Begins to deal with an update. Returns whether it was not done yet.
    pub async fn start_update(
        &self,
        key: &InboxKey,
        session_key: Option<&SessionKey>,
    ) -> Result<bool, StoreError> {
        self.change_update(
            "UPDATE inbox SET state = 'running', attempts = attempts + 1, session_key = COALESCE(?4, session_key) \
             WHERE platform = ?1 AND account = ?2 AND event_id = ?3 AND state <> 'done'",
            key,
            session_key,
        )
        .await
    }

    /// The update has been dealt with.
    pub async fn finish_update(&self, key: &InboxKey) -> Result<(), StoreError> {
        self.change_update(
            "UPDATE inbox SET state = 'done' WHERE platform = ?1 AND account = ?2 AND event_id = ?3 AND ?4 IS NULL",
            key,
            None,
        )
        .await?;
        self.database.run_deferred_checkpoint().await;
        Ok(())
    }

    /// Forgets what an update says: it is done, and only its id is kept.
    pub async fn drop_update_payload(&self, key: &InboxKey) -> Result<(), StoreError> {
        self.change_update(
            "UPDATE inbox SET state = 'done', payload = 'null' \
             WHERE platform = ?1 AND account = ?2 AND event_id = ?3 AND ?4 IS NULL",
            key,
            None,
        )
        .await?;
        Ok(())
    }

    async fn change_update(
        &self,
        sql: &'static str,
        key: &InboxKey,
        session_key: Option<&SessionKey>,
    ) -> Result<bool, StoreError> {
        let changed = self.database.execute(|| {
            sqlx::query(sql)
                .bind(&key.platform)
                .bind(&key.account)
                .bind(&key.event_id)
                .bind(session_key.map(SessionKey::as_str))
        });
        Ok(changed.await? > 0)
    }

    /// Forgets updates that are done and were received that long ago.
    pub async fn prune_inbox(&self, age: Duration) -> Result<u64, StoreError> {
        let mut write = self.database.begin().await?;
        let done = sqlx::query("DELETE FROM inbox WHERE state = 'done' AND received_at < ?1")
            .bind(epoch_seconds() - age.as_secs_f64())
            .execute(&mut *write)
            .await
            .map_err(|error| self.database.error(error))?;
        write.commit().await?;
        Ok(done.rows_affected())
    }

    pub async fn inbox_counts(&self) -> Result<InboxCounts, StoreError> {
        let counted = async {
            let found = sqlx::query(
                "SELECT COALESCE(SUM(state = 'new'), 0) AS new, COALESCE(SUM(state = 'running'), 0) AS running \
                 FROM inbox WHERE state IN ('new', 'running')",
            )
            .fetch_one(self.database.readers())
            .await?;
            Ok(InboxCounts {
                new: row::integer(&found, "new")?,
                running: row::integer(&found, "running")?,
            })
        };
        counted.await.map_err(|error| self.database.error(error))
    }
}

impl RuntimeStore {
    /// The position that was stored last.
    pub async fn platform_cursor(
        &self,
        platform: &str,
        account: &str,
    ) -> Result<Option<Value>, StoreError> {
        let value: Option<String> =
            sqlx::query_scalar("SELECT value FROM cursors WHERE platform = ?1 AND account = ?2")
                .bind(platform)
                .bind(account)
                .fetch_optional(self.database.readers())
                .await
                .map_err(|error| self.database.error(error))?;
        Ok(value.and_then(|value| json::parse_json(&value)))
    }
}

async fn write_cursor(
    connection: &mut SqliteConnection,
    platform: &str,
    account: &str,
    cursor: &Value,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO cursors (platform, account, value, updated_at) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT(platform, account) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at",
    )
    .bind(platform)
    .bind(account)
    .bind(cursor.to_string())
    .bind(epoch_seconds())
    .execute(connection)
    .await?;
    Ok(())
}
