//! `session_search`: searches the messages of other sessions.

mod stored;

use std::sync::Arc;

use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    model::ToolDefinition,
    tools::{
        ToolError,
        arguments::ToolArguments,
        into_output,
        tool::{Concurrency, Tool, ToolContext, ToolOutput},
        tool_definition,
    },
};

const DEFAULT_SESSIONS: usize = 3;
const MAX_SESSIONS: usize = 20;
const MATCHES_PER_SESSION: usize = 3;
const DEFAULT_WINDOW: usize = 5;
const MAX_WINDOW: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionQuery {
    pub text: String,
    /// Only messages of these roles; all, if empty.
    pub roles: Vec<String>,
    pub order: SessionOrder,
    /// Only this session.
    pub session: Option<String>,
    pub exclude_session: String,
    pub limit: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOrder {
    Relevance,
    Newest,
    Oldest,
}

/// A match, or a message around it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FoundMessage {
    pub session_id: String,
    pub message_id: i64,
    pub role: String,
    /// When, for people.
    pub time: String,
    /// The text, or the matching part.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FoundSession {
    pub session_id: String,
    pub title: Option<String>,
    pub source: String,
    /// When it began, for people.
    pub started: String,
}

pub trait SessionSearch: Send + Sync {
    /// Messages that match, each with its session.
    fn search(
        &self,
        query: SessionQuery,
    ) -> BoxFuture<'_, Result<Vec<(FoundSession, FoundMessage)>, String>>;

    fn recent<'a>(
        &'a self,
        exclude_session: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<FoundSession>, String>>;

    /// The messages around one, or the first of a session.
    fn messages<'a>(
        &'a self,
        session: &'a str,
        resolve_context: Option<i64>,
        window: usize,
    ) -> BoxFuture<'a, Result<Vec<FoundMessage>, String>>;
}

pub struct SessionSearchTool {
    sessions: Arc<dyn SessionSearch>,
}

impl SessionSearchTool {
    pub fn new(sessions: Arc<dyn SessionSearch>) -> Self {
        Self { sessions }
    }
}

impl Tool for SessionSearchTool {
    fn definition(&self) -> ToolDefinition {
        tool_definition(
            "session_search",
            "Finds what was said in earlier sessions. With query: sessions whose messages contain all its words; put \
             words that belong together in double quotes. With session_id and around_message_id: the messages around one \
             that was found. With session_id alone: its beginning. With neither: the last sessions.",
            json!({
                "query": {"type": "string", "description": "Words to find"},
                "limit": {"type": "integer", "description": "Most sessions", "default": DEFAULT_SESSIONS, "minimum": 1, "maximum": MAX_SESSIONS},
                "sort": {"type": "string", "enum": ["relevance", "newest", "oldest"], "default": "relevance"},
                "session_id": {"type": "string", "description": "Only this session"},
                "around_message_id": {"type": "integer", "description": "With session_id: show the messages around this one"},
                "window": {"type": "integer", "description": "Messages to show on each side", "default": DEFAULT_WINDOW, "minimum": 1, "maximum": MAX_WINDOW},
                "role_filter": {"type": "string", "description": "Only messages of these roles, separated by commas: user, assistant, tool"},
            }),
            &[],
        )
    }

    fn toolset(&self) -> &'static str {
        "session_search"
    }

    fn concurrency(&self, _arguments: &Map<String, Value>, _context: &ToolContext) -> Concurrency {
        Concurrency::Parallel
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            into_output(
                self.run_search(&ToolArguments::new(arguments), context)
                    .await,
            )
        })
    }
}

impl SessionSearchTool {
    async fn run_search(
        &self,
        arguments: &ToolArguments,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let limit = arguments.size("limit", DEFAULT_SESSIONS, 1..=MAX_SESSIONS)?;
        let window = arguments.size("window", DEFAULT_WINDOW, 1..=MAX_WINDOW)?;
        let resolve_context = arguments
            .number("around_message_id")?
            .and_then(|id| i64::try_from(id).ok());
        let session = arguments
            .text("session_id")?
            .filter(|session| !session.is_empty());
        let text = arguments
            .text("query")?
            .filter(|text| !text.trim().is_empty());
        let result = match (text, session) {
            (Some(text), session) if resolve_context.is_none() => {
                let query = SessionQuery {
                    text,
                    roles: parse_roles(arguments)?,
                    order: parse_order(arguments)?,
                    session,
                    exclude_session: context.session.to_string(),
                    // Several matches may be of the same session.
                    limit: limit * MATCHES_PER_SESSION * 5,
                };
                let sessions = self.sessions.search(query).await.map_err(ToolError::new)?;
                json!({"sessions": group_by_session(sessions, limit)})
            }
            (_, Some(session)) => {
                let messages = self
                    .sessions
                    .messages(&session, resolve_context, window)
                    .await
                    .map_err(ToolError::new)?;
                json!({"session_id": session, "messages": messages})
            }
            (_, None) => {
                let recent = self
                    .sessions
                    .recent(&context.session, limit)
                    .await
                    .map_err(ToolError::new)?;
                json!({"sessions": recent})
            }
        };
        Ok(ToolOutput::json(&result))
    }
}

fn parse_order(arguments: &ToolArguments) -> Result<SessionOrder, ToolError> {
    Ok(
        match arguments.choice("sort", &["relevance", "newest", "oldest"])? {
            "newest" => SessionOrder::Newest,
            "oldest" => SessionOrder::Oldest,
            _ => SessionOrder::Relevance,
        },
    )
}

fn parse_roles(arguments: &ToolArguments) -> Result<Vec<String>, ToolError> {
    let text = arguments.text("role_filter")?.unwrap_or_default();
    let roles = text
        .split(',')
        .map(|role| role.trim().to_owned())
        .filter(|role| !role.is_empty());
    roles
        .map(|role| match role.as_str() {
            "user" | "assistant" | "tool" | "system" => Ok(role),
            _ => Err(ToolError::new(format!(
                "`{role}` is not a role; use user, assistant, tool or system"
            ))),
        })
        .collect()
}

/// The first sessions, ordered by their best match, with a few matches each.
fn group_by_session(hits: Vec<(FoundSession, FoundMessage)>, limit: usize) -> Vec<Value> {
    let mut sessions: Vec<(FoundSession, Vec<FoundMessage>)> = Vec::new();
    for (session, message) in hits {
        let known = sessions
            .iter_mut()
            .find(|(known, _)| known.session_id == session.session_id);
        if let Some((_, messages)) = known {
            if messages.len() < MATCHES_PER_SESSION {
                messages.push(message);
            }
        } else if sessions.len() < limit {
            sessions.push((session, vec![message]));
        }
    }
    let render = |(session, matches)| {
        let mut value = json!(session);
        value["matches"] = json!(matches);
        value
    };
    sessions.into_iter().map(render).collect()
}
