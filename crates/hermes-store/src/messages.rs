//! Messages: what was said, in the order of its ids. Rows are added and put aside, never changed silently.

use serde_json::Value;
use sqlx::{SqliteConnection, sqlite::SqliteRow};

use crate::{
    MessageId, SessionId, Store, StoreError,
    clock::epoch_seconds,
    db::{self, SqliteErrorKind, row},
};

mod compact;
mod content;
mod platform_message;
mod read;
mod rewind;
mod texts;

pub use crate::messages::texts::{RecentTexts, TextMessage};
pub use compact::CompactionFailure;
pub use content::Content;
pub(crate) use content::is_structured;
pub use platform_message::PlatformTurn;
pub use read::{ActiveRows, MessageQuery, MessageRows, MessageWindow};
pub use rewind::RewindResult;

/// The columns [`StoredMessage`] is read from.
macro_rules! message_columns {
    () => {
        "m.id, m.session_id, m.role, m.content, m.tool_call_id, m.tool_calls, m.tool_name, m.effect_disposition, \
         m.timestamp, m.token_count, m.finish_reason, m.reasoning, m.reasoning_content, m.reasoning_details, \
         m.codex_reasoning_items, m.codex_message_items, m.platform_message_id, m.observed, m.active, m.compacted, \
         m.api_content"
    };
}
use message_columns;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Role {
    /// A person.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
    /// Instructions.
    System,
    /// A role only another program knows.
    Other(String),
}

impl Role {
    /// The word stored.
    pub fn as_str(&self) -> &str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::System => "system",
            Self::Other(role) => role,
        }
    }
}

impl From<String> for Role {
    fn from(role: String) -> Self {
        match role.as_str() {
            "user" => Self::User,
            "assistant" => Self::Assistant,
            "tool" => Self::Tool,
            "system" => Self::System,
            _ => Self::Other(role),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    pub role: Role,
    /// What is said. None when the model only calls tools.
    pub content: Option<Content>,
    /// The call a tool's result answers.
    pub tool_call_id: Option<String>,
    /// The tool of that call.
    pub tool_name: Option<String>,
    /// The calls the model makes, an array of `{id, type, function: {name, arguments}}`, kept whole.
    pub tool_calls: Option<Value>,
    /// What a tool did to the world.
    pub effect_disposition: Option<String>,
    /// Why the model stopped.
    pub finish_reason: Option<String>,
    /// What the model thought.
    pub reasoning: Option<String>,
    /// The same, as some providers want it back.
    pub reasoning_content: Option<String>,
    /// The same, in parts.
    pub reasoning_details: Option<Value>,
    /// Reasoning items of the responses API.
    pub codex_reasoning_items: Option<Value>,
    /// Message items of the responses API.
    pub codex_message_items: Option<Value>,
    /// Seconds since 1970; now, if not given.
    pub timestamp: Option<f64>,
    /// Its size for the model.
    pub token_count: Option<i64>,
    pub platform_message_id: Option<String>,
    /// Seen in a group, but not addressed to the bot.
    pub observed: bool,
    /// The exact text sent to the model, where it differs. Never shown.
    pub api_content: Option<String>,
}

impl NewMessage {
    pub fn new(role: Role, content: impl Into<Content>) -> Self {
        Self {
            content: Some(content.into()),
            ..Self::without_content(role)
        }
    }

    pub fn without_content(role: Role) -> Self {
        Self {
            role,
            content: None,
            tool_call_id: None,
            tool_name: None,
            tool_calls: None,
            effect_disposition: None,
            finish_reason: None,
            reasoning: None,
            reasoning_content: None,
            reasoning_details: None,
            codex_reasoning_items: None,
            codex_message_items: None,
            timestamp: None,
            token_count: None,
            platform_message_id: None,
            observed: false,
            api_content: None,
        }
    }

    fn tool_call_count(&self) -> i64 {
        match &self.tool_calls {
            None | Some(Value::Null) => 0,
            Some(Value::Array(calls)) => i64::try_from(calls.len()).unwrap_or(i64::MAX),
            Some(_) => 1,
        }
    }
}

/// Whether a stored message still counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageState {
    /// Part of what the model sees.
    Active,
    /// Summed up since; still searched and shown.
    Compacted,
    /// Taken back by the user.
    Rewound,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredMessage {
    pub id: MessageId,
    pub session: SessionId,
    /// Whether it still counts.
    pub state: MessageState,
    /// Seconds since 1970; also in the body, so that a body written again keeps its time.
    pub timestamp: f64,
    pub body: NewMessage,
}

impl StoredMessage {
    fn read(found: &SqliteRow) -> Result<Self, sqlx::Error> {
        let text = |column| row::text(found, column);
        let timestamp = row::real(found, "timestamp")?.unwrap_or_default();
        let active = row::optional_integer(found, "active")?.unwrap_or(1) != 0;
        let compacted = row::integer(found, "compacted")? != 0;
        Ok(Self {
            id: MessageId(row::integer(found, "id")?),
            session: SessionId::from_stored(row::required_text(found, "session_id")?),
            state: match (active, compacted) {
                (true, _) => MessageState::Active,
                (false, true) => MessageState::Compacted,
                (false, false) => MessageState::Rewound,
            },
            timestamp,
            body: NewMessage {
                role: row::required_text(found, "role")?.into(),
                content: text("content")?.map(Content::decode),
                tool_call_id: text("tool_call_id")?,
                tool_name: text("tool_name")?,
                tool_calls: row::json(found, "tool_calls")?,
                effect_disposition: text("effect_disposition")?,
                finish_reason: text("finish_reason")?,
                reasoning: text("reasoning")?,
                reasoning_content: text("reasoning_content")?,
                reasoning_details: row::json(found, "reasoning_details")?,
                codex_reasoning_items: row::json(found, "codex_reasoning_items")?,
                codex_message_items: row::json(found, "codex_message_items")?,
                timestamp: Some(timestamp),
                token_count: row::optional_integer(found, "token_count")?,
                platform_message_id: text("platform_message_id")?,
                observed: row::integer(found, "observed")? != 0,
                api_content: text("api_content")?,
            },
        })
    }
}

impl Store {
    /// Adds a message to a session and counts it.
    pub async fn append(
        &self,
        session: &SessionId,
        message: &NewMessage,
    ) -> Result<MessageId, StoreError> {
        let ids = self
            .append_all(session, std::slice::from_ref(message))
            .await?;
        ids.first()
            .copied()
            .ok_or_else(|| StoreError::NoSuchSession {
                id: session.clone(),
            })
    }

    /// Adds several messages at once: all of them, or none.
    pub async fn append_all(
        &self,
        session: &SessionId,
        messages: &[NewMessage],
    ) -> Result<Vec<MessageId>, StoreError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let mut write = self.begin().await?;
        let ids = insert_messages(&mut write, session, messages)
            .await
            .map_err(|error| self.append_error(session, error))?;
        let calls: i64 = messages.iter().map(NewMessage::tool_call_count).sum();
        sqlx::query(
            "UPDATE sessions SET message_count = COALESCE(message_count, 0) + ?2, \
             tool_call_count = COALESCE(tool_call_count, 0) + ?3 WHERE id = ?1",
        )
        .bind(session.as_str())
        .bind(i64::try_from(messages.len()).unwrap_or(i64::MAX))
        .bind(calls)
        .execute(&mut *write)
        .await
        .map_err(|error| self.error(error))?;
        write.commit_without_checkpoint().await?;
        Ok(ids)
    }

    fn append_error(&self, session: &SessionId, error: sqlx::Error) -> StoreError {
        match db::sqlite_error_kind(&error) {
            Some(SqliteErrorKind::ForeignKey) => StoreError::NoSuchSession {
                id: session.clone(),
            },
            _ => self.error(error),
        }
    }
}

/// Inserts live rows. Each is at least a microsecond after the one before, so that equal ones stay apart.
async fn insert_messages(
    connection: &mut SqliteConnection,
    session: &SessionId,
    messages: &[NewMessage],
) -> Result<Vec<MessageId>, sqlx::Error> {
    let mut now = epoch_seconds();
    let mut ids = Vec::with_capacity(messages.len());
    for message in messages {
        let timestamp = message.timestamp.unwrap_or(now);
        let json = |value: &Option<Value>| {
            value
                .as_ref()
                .filter(|value| !value.is_null())
                .map(Value::to_string)
        };
        let done = sqlx::query(
            "INSERT INTO messages (session_id, role, content, tool_call_id, tool_calls, tool_name, \
             effect_disposition, timestamp, token_count, finish_reason, reasoning, reasoning_content, \
             reasoning_details, codex_reasoning_items, codex_message_items, platform_message_id, observed, active, \
             compacted, api_content) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, 1, 0, ?18)",
        )
        .bind(session.as_str())
        .bind(message.role.as_str())
        .bind(message.content.as_ref().map(Content::encode))
        .bind(&message.tool_call_id)
        .bind(json(&message.tool_calls))
        .bind(&message.tool_name)
        .bind(&message.effect_disposition)
        .bind(timestamp)
        .bind(message.token_count)
        .bind(&message.finish_reason)
        .bind(&message.reasoning)
        .bind(&message.reasoning_content)
        .bind(json(&message.reasoning_details))
        .bind(json(&message.codex_reasoning_items))
        .bind(json(&message.codex_message_items))
        .bind(&message.platform_message_id)
        .bind(message.observed)
        .bind(&message.api_content)
        .execute(&mut *connection)
        .await?;
        ids.push(MessageId(done.last_insert_rowid()));
        now = (now + 1e-6).max(timestamp + 1e-6);
    }
    Ok(ids)
}
