//! The chats of the gateway and the routing rows: which session each is in, without what is long in a session's row.
//! Beside them, where that is asked for, the conversations without a platform.

use serde_json::Value;
use sqlx::{SqliteConnection, sqlite::SqliteRow};

use crate::{SessionId, SessionKey, Store, StoreError, clock::epoch_seconds, db::row, json};

/// What [`ChatSession`] is read from.
macro_rules! chat_columns {
    () => {
        "s.id, s.source, s.user_id, s.session_key, s.chat_id, s.chat_type, s.thread_id, s.display_name, \
         s.origin_json, s.title, s.started_at, s.input_tokens, s.output_tokens, \
         COALESCE((SELECT MAX(m.timestamp) FROM {messages} AS m WHERE m.session_id = s.id), s.started_at) \
         AS last_active FROM {sessions} AS s"
    };
}

/// A chat of the gateway and the session it is in.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatSession {
    /// The chat; for a conversation without a platform, a key made of its session.
    pub session_key: SessionKey,
    pub session: SessionId,
    /// The platform.
    pub source: String,
    /// Who talks.
    pub user_id: Option<String>,
    /// The chat on its platform.
    pub chat_id: Option<String>,
    pub chat_type: Option<String>,
    /// The thread inside the chat.
    pub thread_id: Option<String>,
    /// The chat's name for people.
    pub display_name: Option<String>,
    /// What the session is called.
    pub title: Option<String>,
    /// Where it takes place, as stored; none if that is not an object.
    pub origin: Option<Value>,
    /// Seconds since 1970.
    pub started_at: Option<f64>,
    /// When the last message was written, or the session began.
    pub last_active: Option<f64>,
    /// Tokens sent.
    pub input_tokens: i64,
    /// Tokens received.
    pub output_tokens: i64,
}

impl Store {
    /// The chats that are in an open session, in no order. The newest session of a chat counts: if that is ended,
    /// the chat is in none.
    pub async fn chats(&self) -> Result<Vec<ChatSession>, StoreError> {
        // A few steps along the index over (session_id, timestamp) for each chat; no message is read.
        const SQL: &str = concat!(
            "SELECT ",
            chat_columns!(),
            " WHERE s.session_key IS NOT NULL AND s.ended_at IS NULL AND s.id = (\
             SELECT newest.id FROM {sessions} AS newest WHERE newest.session_key = s.session_key \
             ORDER BY newest.started_at DESC LIMIT 1)"
        );
        let rows = sqlx::query(self.sql(SQL)).fetch_all(self.readers()).await;
        rows.and_then(|rows| rows.iter().map(ChatSession::read).collect())
            .map_err(|error| self.error(error))
    }

    /// The chats that are in these sessions, in no order.
    pub async fn chats_in(&self, sessions: &[SessionId]) -> Result<Vec<ChatSession>, StoreError> {
        const SQL: &str = concat!(
            "SELECT ",
            chat_columns!(),
            " WHERE s.id IN (SELECT value FROM json_each(?1))"
        );
        let ids = sessions.iter().map(SessionId::as_str).collect::<Value>();
        let rows = sqlx::query(self.sql(SQL))
            .bind(ids.to_string())
            .fetch_all(self.readers())
            .await;
        rows.and_then(|rows| rows.iter().map(ChatSession::read).collect())
            .map_err(|error| self.error(error))
    }
}

impl ChatSession {
    fn read(found: &SqliteRow) -> Result<Self, sqlx::Error> {
        let text = |column| row::text(found, column);
        let session = SessionId::from_stored(row::required_text(found, "id")?);
        let source = row::required_text(found, "source")?;
        let own = OwnPlatform::from_source(&source);
        let session_key = match (text("session_key")?, own) {
            (None, Some(own)) => own.session_key(&session),
            (key, _) => SessionKey::new(key.unwrap_or_default()),
        };
        Ok(Self {
            session_key,
            session,
            source,
            title: text("title")?,
            user_id: text("user_id")?,
            chat_id: text("chat_id")?,
            chat_type: text("chat_type")?,
            thread_id: text("thread_id")?,
            display_name: text("display_name")?,
            origin: row::json(found, "origin_json")?.filter(Value::is_object),
            started_at: row::real(found, "started_at")?,
            last_active: row::real(found, "last_active")?,
            input_tokens: row::integer(found, "input_tokens")?,
            output_tokens: row::integer(found, "output_tokens")?,
        })
    }
}

/// What kind of conversation without a platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OwnPlatform {
    /// At the terminal.
    Cli,
    /// Over the local HTTP API.
    Api,
    /// Of cron jobs.
    Cron,
}

impl OwnPlatform {
    pub const ALL: [Self; 3] = [Self::Cli, Self::Api, Self::Cron];

    /// Its name in lists of conversations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Api => "api",
            Self::Cron => "cron",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.as_str() == name)
    }

    /// What stands in the column `source` of its sessions.
    fn sources(self) -> &'static [&'static str] {
        match self {
            Self::Cli => &["cli", "tui"],
            Self::Api => &["api_server"],
            Self::Cron => &["cron"],
        }
    }

    /// The one that sessions with this source belong to.
    pub fn from_source(source: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|own| own.sources().contains(&source))
    }

    /// The key under which a session is listed.
    pub fn session_key(self, session: &SessionId) -> SessionKey {
        SessionKey::new(format!("{}:{session}", self.as_str()))
    }

    /// The one that a key of such a session names.
    pub fn from_session_key(key: &str) -> Option<Self> {
        Self::from_name(key.split_once(':')?.0)
    }

    /// The sources of all of these, as a JSON array.
    pub(crate) fn sources_of(platforms: &[Self]) -> String {
        let sources = platforms.iter().flat_map(|own| own.sources());
        sources.copied().collect::<serde_json::Value>().to_string()
    }
}

impl Store {
    /// The routing entries of a scope. Those that are not JSON are left out.
    pub async fn routing(&self, scope: &str) -> Result<Vec<(SessionKey, Value)>, StoreError> {
        if !self.layout().has("gateway_routing") {
            return Ok(Vec::new());
        }
        let rows = sqlx::query(
            "SELECT session_key, entry_json FROM gateway_routing WHERE scope = ?1 ORDER BY session_key",
        )
        .bind(scope)
        .fetch_all(self.readers())
        .await
        .map_err(|error| self.error(error))?;
        let mut entries = Vec::with_capacity(rows.len());
        for found in &rows {
            let key =
                row::required_text(found, "session_key").map_err(|error| self.error(error))?;
            let entry =
                row::required_text(found, "entry_json").map_err(|error| self.error(error))?;
            if let Some(entry) = json::parse_json(&entry) {
                entries.push((SessionKey::new(key), entry));
            } else {
                tracing::warn!(key, "skipped a routing entry that is not JSON");
            }
        }
        Ok(entries)
    }

    /// Puts these entries in the place of all that the scope had.
    pub async fn replace_routing(
        &self,
        scope: &str,
        entries: &[(SessionKey, Value)],
    ) -> Result<(), StoreError> {
        let mut write = self.begin().await?;
        sqlx::query("DELETE FROM gateway_routing WHERE scope = ?1")
            .bind(scope)
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(error))?;
        self.upsert_routing(&mut write, scope, entries).await?;
        write.commit().await
    }

    /// Saves these entries and removes those, in one transaction. The others of the scope stay.
    pub async fn update_routing(
        &self,
        scope: &str,
        changed: &[(SessionKey, Value)],
        removed: &[SessionKey],
    ) -> Result<(), StoreError> {
        let mut write = self.begin().await?;
        for key in removed {
            sqlx::query("DELETE FROM gateway_routing WHERE scope = ?1 AND session_key = ?2")
                .bind(scope)
                .bind(key.as_str())
                .execute(&mut *write)
                .await
                .map_err(|error| self.error(error))?;
        }
        self.upsert_routing(&mut write, scope, changed).await?;
        write.commit().await
    }

    async fn upsert_routing(
        &self,
        write: &mut SqliteConnection,
        scope: &str,
        entries: &[(SessionKey, Value)],
    ) -> Result<(), StoreError> {
        let now = epoch_seconds();
        for (key, entry) in entries {
            sqlx::query(
                "INSERT INTO gateway_routing (scope, session_key, entry_json, updated_at) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT(scope, session_key) DO UPDATE SET entry_json = excluded.entry_json, \
                 updated_at = excluded.updated_at",
            )
            .bind(scope)
            .bind(key.as_str())
            .bind(entry.to_string())
            .bind(now)
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(error))?;
        }
        Ok(())
    }
}
