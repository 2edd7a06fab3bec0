//! Sessions: one row per conversation. Here are making, finding and deleting one; beside it lists, titles, ends,
//! costs and routing.

use serde_json::Value;
use sqlx::{SqliteConnection, sqlite::SqliteRow};

use crate::{
    Origin, SessionId, SessionKey, Store, StoreError,
    clock::epoch_seconds,
    db::{self, SqliteErrorKind, row},
};

mod chat;
mod chat_marks;
mod chat_migration;
mod end;
mod list;
mod title;
mod usage;

pub use chat::{ChatSession, OwnPlatform};
pub use chat_marks::{ChatMark, ChatMarks};
pub use end::EndReason;
pub use list::{SessionListing, SessionOrder, SessionQuery, SessionSummary};
pub use title::clean_title;
pub use usage::{ModelUsage, SessionUsage};

/// The columns [`Session`] is read from.
macro_rules! session_columns {
    () => {
        "s.id, s.source, s.user_id, s.session_key, s.chat_id, s.chat_type, s.thread_id, s.display_name, \
         s.origin_json, s.expiry_finalized, s.model, s.model_config, s.system_prompt, s.parent_session_id, \
         s.started_at, s.ended_at, s.end_reason, s.message_count, s.tool_call_count, s.api_call_count, \
         s.input_tokens, s.output_tokens, s.cache_read_tokens, s.cache_write_tokens, s.reasoning_tokens, s.cwd, \
         s.git_branch, s.git_repo_root, s.billing_provider, s.billing_base_url, s.billing_mode, \
         s.estimated_cost_usd, s.actual_cost_usd, s.cost_status, s.title, s.profile_name, s.rewind_count, s.archived"
    };
}
use session_columns;

/// A conversation as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Its name for programs.
    pub id: SessionId,
    /// `cli`, `tui`, `cron`, `api_server`, or a platform.
    pub source: String,
    /// Who talks, on a platform.
    pub user_id: Option<String>,
    /// The chat it belongs to. None for the command line and cron.
    pub session_key: Option<SessionKey>,
    pub chat_id: Option<String>,
    pub chat_type: Option<String>,
    /// The thread inside the chat.
    pub thread_id: Option<String>,
    /// The chat's name for people.
    pub display_name: Option<String>,
    /// Where it takes place, if that was recorded.
    pub origin: Option<Origin>,
    /// Whether its expiry has been dealt with.
    pub expiry_finalized: bool,
    pub model: Option<String>,
    /// How that model is called.
    pub model_config: Option<Value>,
    /// What the model was told first.
    pub system_prompt: Option<String>,
    /// What it continues, branches from or works for.
    pub parent: Option<SessionId>,
    /// Seconds since 1970.
    pub started_at: f64,
    /// Seconds since 1970; none while it is open.
    pub ended_at: Option<f64>,
    /// Why it ended, in the words of [`EndReason`] or of a newer program.
    pub end_reason: Option<String>,
    /// Messages, compacted and rewound ones aside.
    pub message_count: i64,
    /// Tool calls among them.
    pub tool_call_count: i64,
    /// What the model was asked for and gave.
    pub usage: SessionUsage,
    /// The working directory.
    pub cwd: Option<String>,
    /// The branch checked out there.
    pub git_branch: Option<String>,
    /// The repository around it.
    pub git_repo_root: Option<String>,
    /// Its name for people, unique.
    pub title: Option<String>,
    pub profile_name: Option<String>,
    /// How often something was taken back.
    pub rewind_count: i64,
    /// Whether it is put away.
    pub archived: bool,
}

impl Session {
    fn read(found: &SqliteRow) -> Result<Self, sqlx::Error> {
        let text = |column| row::text(found, column);
        let integer = |column| row::integer(found, column);
        Ok(Self {
            id: SessionId::from_stored(row::required_text(found, "id")?),
            source: row::required_text(found, "source")?,
            user_id: text("user_id")?,
            session_key: text("session_key")?.map(SessionKey::new),
            chat_id: text("chat_id")?,
            chat_type: text("chat_type")?,
            thread_id: text("thread_id")?,
            display_name: text("display_name")?,
            origin: row::json(found, "origin_json")?
                .as_ref()
                .and_then(Origin::from_json),
            expiry_finalized: integer("expiry_finalized")? != 0,
            model: text("model")?,
            model_config: row::json(found, "model_config")?,
            system_prompt: text("system_prompt")?,
            parent: text("parent_session_id")?.map(SessionId::from_stored),
            started_at: row::real(found, "started_at")?.unwrap_or_default(),
            ended_at: row::real(found, "ended_at")?,
            end_reason: text("end_reason")?,
            message_count: integer("message_count")?,
            tool_call_count: integer("tool_call_count")?,
            usage: SessionUsage::read(found)?,
            cwd: text("cwd")?,
            git_branch: text("git_branch")?,
            git_repo_root: text("git_repo_root")?,
            title: text("title")?,
            profile_name: text("profile_name")?,
            rewind_count: integer("rewind_count")?,
            archived: integer("archived")? != 0,
        })
    }
}

/// A session to be stored. The gateway fills in everything about the chat, or other programs cannot show it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    /// Its name for programs.
    pub id: SessionId,
    /// `cli`, `tui`, `cron`, `api_server`, or a platform.
    pub source: String,
    /// The chat it belongs to.
    pub session_key: Option<SessionKey>,
    /// Where it takes place. Its chat, thread and user fill those columns.
    pub origin: Option<Origin>,
    /// The chat's name for people; that of the origin, if not given.
    pub display_name: Option<String>,
    pub model: Option<String>,
    /// How that model is called.
    pub model_config: Option<Value>,
    /// What the model was told first.
    pub system_prompt: Option<String>,
    /// What it continues, branches from or works for.
    pub parent: Option<SessionId>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The branch checked out there.
    pub git_branch: Option<String>,
    /// The repository around it.
    pub git_repo_root: Option<String>,
    pub profile_name: Option<String>,
    /// Seconds since 1970; now, if not given.
    pub started_at: Option<f64>,
}

impl NewSession {
    /// A session of which no more than this is known.
    pub fn new(id: SessionId, source: impl Into<String>) -> Self {
        Self {
            id,
            source: source.into(),
            session_key: None,
            origin: None,
            display_name: None,
            model: None,
            model_config: None,
            system_prompt: None,
            parent: None,
            cwd: None,
            git_branch: None,
            git_repo_root: None,
            profile_name: None,
            started_at: None,
        }
    }
}

impl Store {
    /// Stores a session. Where the id is there already, only what was unknown is filled in.
    pub async fn create_session(&self, session: &NewSession) -> Result<(), StoreError> {
        let mut write = self.begin().await?;
        insert_session(&mut write, session)
            .await
            .map_err(|error| self.parent_error(session, error))?;
        write.commit().await
    }

    fn parent_error(&self, session: &NewSession, error: sqlx::Error) -> StoreError {
        match &session.parent {
            Some(parent) if db::sqlite_error_kind(&error) == Some(SqliteErrorKind::ForeignKey) => {
                StoreError::NoSuchSession { id: parent.clone() }
            }
            _ => self.error(error),
        }
    }

    pub async fn session(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        const SQL: &str = concat!(
            "SELECT ",
            session_columns!(),
            " FROM {sessions} AS s WHERE s.id = ?1"
        );
        let found = sqlx::query(self.sql(SQL))
            .bind(id.as_str())
            .fetch_optional(self.readers())
            .await;
        self.read_session(found)
    }

    /// The session whose id begins like this. Several such are an error, unless one is named in full.
    pub async fn session_by_prefix(&self, prefix: &str) -> Result<Option<Session>, StoreError> {
        // Between the prefix and the prefix with the greatest character after it, so that the index is used.
        const SQL: &str = concat!(
            "SELECT ",
            session_columns!(),
            " FROM {sessions} AS s WHERE s.id >= ?1 AND s.id < ?1 || char(1114111) ORDER BY s.id LIMIT 2"
        );
        if prefix.is_empty() {
            return Ok(None);
        }
        let found = sqlx::query(self.sql(SQL))
            .bind(prefix)
            .fetch_all(self.readers())
            .await;
        let mut sessions = self.read_sessions(found)?;
        if sessions.len() > 1 && sessions[0].id.as_str() != prefix {
            return Err(StoreError::AmbiguousSession {
                prefix: prefix.into(),
            });
        }
        sessions.truncate(1);
        Ok(sessions.pop())
    }

    /// The newest session of a source that somebody talked in: none that was put away or worked for another.
    pub async fn newest_session(&self, source: &str) -> Result<Option<Session>, StoreError> {
        const SQL: &str = concat!(
            "SELECT ",
            session_columns!(),
            " FROM {sessions} AS s WHERE s.source = ?1 AND s.archived = 0 \
             AND CASE WHEN json_valid(s.model_config) \
             THEN json_extract(s.model_config, '$._delegate_from') END IS NULL \
             ORDER BY s.started_at DESC, s.id DESC LIMIT 1"
        );
        let found = sqlx::query(self.sql(SQL))
            .bind(source)
            .fetch_optional(self.readers())
            .await;
        self.read_session(found)
    }

    /// What a person means by an id, the beginning of one, or a title.
    pub async fn find_session(&self, reference: &str) -> Result<Option<Session>, StoreError> {
        match self.session_by_prefix(reference).await {
            Ok(Some(session)) => Ok(Some(session)),
            Ok(None) => self.session_by_title(reference).await,
            Err(ambiguous) => match self.session_by_title(reference).await? {
                Some(session) => Ok(Some(session)),
                None => Err(ambiguous),
            },
        }
    }

    /// From the first ancestor to the session itself.
    pub async fn lineage(&self, id: &SessionId) -> Result<Vec<SessionId>, StoreError> {
        // Depth is bounded, since nothing keeps another program from writing a circle.
        const SQL: &str = "WITH RECURSIVE line(id, parent, depth) AS (\
             SELECT s.id, s.parent_session_id, 0 FROM {sessions} AS s WHERE s.id = ?1 \
             UNION ALL SELECT s.id, s.parent_session_id, line.depth + 1 FROM line \
             JOIN {sessions} AS s ON s.id = line.parent WHERE line.depth < 100) \
             SELECT id, MIN(depth) AS depth FROM line GROUP BY id ORDER BY depth DESC";
        self.read_ids(SQL, id).await
    }

    /// The sessions that name this one as their parent, oldest first.
    pub async fn children(&self, id: &SessionId) -> Result<Vec<SessionId>, StoreError> {
        const SQL: &str = "SELECT s.id FROM {sessions} AS s WHERE s.parent_session_id = ?1 \
             ORDER BY s.started_at, s.id";
        self.read_ids(SQL, id).await
    }

    async fn read_ids(
        &self,
        sql: &'static str,
        id: &SessionId,
    ) -> Result<Vec<SessionId>, StoreError> {
        let rows = sqlx::query(self.sql(sql))
            .bind(id.as_str())
            .fetch_all(self.readers())
            .await
            .map_err(|error| self.error(error))?;
        rows.iter()
            .map(|found| row::required_text(found, "id").map(SessionId::from_stored))
            .collect::<Result<_, _>>()
            .map_err(|error| self.error(error))
    }

    /// Sets the model a session talks to, and how.
    pub async fn set_model(
        &self,
        id: &SessionId,
        model: &str,
        config: Option<&Value>,
    ) -> Result<(), StoreError> {
        let mut write = self.begin().await?;
        let done = sqlx::query(
            "UPDATE sessions SET model = ?2, model_config = COALESCE(?3, model_config) WHERE id = ?1",
        )
        .bind(id.as_str())
        .bind(model)
        .bind(config.map(Value::to_string))
        .execute(&mut *write)
        .await
        .map_err(|error| self.error(error))?;
        require_row(done.rows_affected(), id)?;
        write.commit().await
    }

    /// Sets what the model is told first.
    pub async fn set_system_prompt(&self, id: &SessionId, prompt: &str) -> Result<(), StoreError> {
        let mut write = self.begin().await?;
        let done = sqlx::query("UPDATE sessions SET system_prompt = ?2 WHERE id = ?1")
            .bind(id.as_str())
            .bind(prompt)
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(error))?;
        require_row(done.rows_affected(), id)?;
        write.commit().await
    }

    /// Deletes a session with its messages. What worked for it goes too; what continues it or branched off stays
    /// and stands on its own. Returns whether it was there.
    pub async fn delete_session(&self, id: &SessionId) -> Result<bool, StoreError> {
        let mut write = self.begin().await?;
        let mut doomed = delegate_sessions(&mut write, id)
            .await
            .map_err(|error| self.error(error))?;
        doomed.push(id.as_str().to_owned());
        let mut deleted = 0;
        for statement in [
            "UPDATE sessions SET parent_session_id = NULL \
             WHERE parent_session_id IN (SELECT value FROM json_each(?1))",
            "DELETE FROM messages WHERE session_id IN (SELECT value FROM json_each(?1))",
            "DELETE FROM compression_locks WHERE session_id IN (SELECT value FROM json_each(?1))",
            "DELETE FROM sessions WHERE id IN (SELECT value FROM json_each(?1))",
        ] {
            deleted = sqlx::query(statement)
                .bind(Value::from(doomed.clone()).to_string())
                .execute(&mut *write)
                .await
                .map_err(|error| self.error(error))?
                .rows_affected();
        }
        write.commit().await?;
        Ok(deleted > 0)
    }

    fn read_session(
        &self,
        found: Result<Option<SqliteRow>, sqlx::Error>,
    ) -> Result<Option<Session>, StoreError> {
        found
            .and_then(|found| found.as_ref().map(Session::read).transpose())
            .map_err(|error| self.error(error))
    }

    fn read_sessions(
        &self,
        found: Result<Vec<SqliteRow>, sqlx::Error>,
    ) -> Result<Vec<Session>, StoreError> {
        found
            .and_then(|rows| rows.iter().map(Session::read).collect())
            .map_err(|error| self.error(error))
    }
}

/// An update that met no row had the wrong id.
fn require_row(rows: u64, id: &SessionId) -> Result<(), StoreError> {
    if rows == 0 {
        return Err(StoreError::NoSuchSession { id: id.clone() });
    }
    Ok(())
}

async fn insert_session(
    connection: &mut SqliteConnection,
    session: &NewSession,
) -> Result<(), sqlx::Error> {
    let origin = session.origin.as_ref();
    sqlx::query(
        "INSERT INTO sessions (id, source, user_id, session_key, chat_id, chat_type, thread_id, display_name, \
         origin_json, model, model_config, system_prompt, parent_session_id, cwd, git_branch, git_repo_root, \
         profile_name, started_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18) \
         ON CONFLICT(id) DO UPDATE SET \
         user_id = COALESCE(sessions.user_id, excluded.user_id), \
         session_key = COALESCE(sessions.session_key, excluded.session_key), \
         chat_id = COALESCE(sessions.chat_id, excluded.chat_id), \
         chat_type = COALESCE(sessions.chat_type, excluded.chat_type), \
         thread_id = COALESCE(sessions.thread_id, excluded.thread_id), \
         display_name = COALESCE(sessions.display_name, excluded.display_name), \
         origin_json = COALESCE(sessions.origin_json, excluded.origin_json), \
         model = COALESCE(sessions.model, excluded.model), \
         model_config = COALESCE(sessions.model_config, excluded.model_config), \
         system_prompt = COALESCE(sessions.system_prompt, excluded.system_prompt), \
         parent_session_id = COALESCE(sessions.parent_session_id, excluded.parent_session_id), \
         cwd = COALESCE(sessions.cwd, excluded.cwd), \
         git_branch = COALESCE(sessions.git_branch, excluded.git_branch), \
         git_repo_root = COALESCE(sessions.git_repo_root, excluded.git_repo_root), \
         profile_name = COALESCE(sessions.profile_name, excluded.profile_name)",
    )
    .bind(session.id.as_str())
    .bind(&session.source)
    .bind(origin.and_then(|origin| origin.user_id.clone()))
    .bind(session.session_key.as_ref().map(SessionKey::as_str))
    .bind(origin.and_then(|origin| origin.chat_id.clone()))
    .bind(origin.map(|origin| origin.chat_type.clone()))
    .bind(origin.and_then(|origin| origin.thread_id.clone()))
    .bind(
        session
            .display_name
            .clone()
            .or_else(|| origin?.chat_name.clone()),
    )
    .bind(origin.map(|origin| origin.to_json().to_string()))
    .bind(&session.model)
    .bind(session.model_config.as_ref().map(Value::to_string))
    .bind(&session.system_prompt)
    .bind(session.parent.as_ref().map(SessionId::as_str))
    .bind(&session.cwd)
    .bind(&session.git_branch)
    .bind(&session.git_repo_root)
    .bind(&session.profile_name)
    .bind(session.started_at.unwrap_or_else(epoch_seconds))
    .execute(connection)
    .await?;
    Ok(())
}

/// The sessions that were started to work for this one, and for those.
async fn delegate_sessions(
    connection: &mut SqliteConnection,
    id: &SessionId,
) -> Result<Vec<String>, sqlx::Error> {
    let rows = sqlx::query(
        "WITH RECURSIVE workers(id) AS (\
         SELECT ?1 UNION SELECT s.id FROM workers JOIN sessions AS s ON s.parent_session_id = workers.id \
         WHERE CASE WHEN json_valid(s.model_config) \
         THEN json_extract(s.model_config, '$._delegate_from') END IS NOT NULL) \
         SELECT id FROM workers WHERE id != ?1",
    )
    .bind(id.as_str())
    .fetch_all(connection)
    .await?;
    rows.iter()
        .map(|found| row::required_text(found, "id"))
        .collect()
}
