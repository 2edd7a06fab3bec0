//! Commands about the sessions of a chat: begin, list, switch, take back, name, summarize.

use std::fmt::Write as _;

use hermes_agent::message::Content;
use hermes_store::{
    EndReason, Session, SessionId, SessionOrder, SessionQuery, SessionSummary, StoreError,
};
use jiff::{Timestamp, tz::TimeZone};

use super::command_context::{CommandRun, failed};
use crate::chat_commands::{
    ChatCommandContext as _, CommandError, CompressOutcome, SessionLine, UndoOutcome,
};

/// The most sessions that are listed.
const MAX_LISTED_SESSIONS: usize = 20;
/// Sessions of a platform that are searched for those of one chat.
const SEARCHED_SESSIONS: u32 = 500;

impl CommandRun {
    /// The sessions of this chat, the last used first.
    async fn sessions(&self) -> Result<Vec<SessionSummary>, CommandError> {
        let chat = &self.input.chat;
        let query = SessionQuery {
            sources: vec![chat.label().to_owned()],
            order: SessionOrder::Active,
            limit: SEARCHED_SESSIONS,
            ..SessionQuery::default()
        };
        let store = self.core.gateway.agent().store();
        let mut found = store.list_sessions(&query).await.map_err(failed)?;
        found.retain(|summary| self.is_of_chat(&summary.session));
        Ok(found)
    }

    /// Whether a session belongs to this chat: nobody reads conversations of others.
    fn is_of_chat(&self, session: &Session) -> bool {
        session.session_key.as_ref() == Some(&self.input.chat.key)
    }

    async fn switch_to(&self, summary: &SessionSummary) -> Result<(), StoreError> {
        let (core, chat) = (&self.core, &self.input.chat);
        let next = summary.session.id.clone();
        core.gateway.agent().store().reopen_session(&next).await?;
        let before = core
            .routing
            .replace_session(
                &chat.key,
                &chat.origin,
                next.clone(),
                EndReason::SessionSwitch,
            )
            .await?;
        if let Some(before) = before.filter(|before| *before != next) {
            core.gateway.runs().release_session(&before).await;
        }
        Ok(())
    }

    /// Ends the session and begins another one.
    pub(in crate::inbound) async fn begin_session(
        &self,
        title: Option<&str>,
    ) -> Result<String, CommandError> {
        self.stop_turn().await?;
        let chat = &self.input.chat;
        let id = self
            .core
            .start_session(chat, EndReason::SessionReset)
            .await
            .map_err(failed)?;
        if let Some(title) = title {
            let store = self.core.gateway.agent().store();
            let row = chat.session_row(id.clone());
            store.create_session(&row).await.map_err(failed)?;
            store.set_title(&id, title).await.map_err(failed)?;
        }
        Ok(id.to_string())
    }

    /// The sessions of this chat, for people.
    pub(in crate::inbound) async fn session_lines(&self) -> Result<Vec<SessionLine>, CommandError> {
        let current = self.session_id().await?;
        let mut found = self.sessions().await?;
        found.truncate(MAX_LISTED_SESSIONS);
        Ok(found
            .iter()
            .map(|summary| session_line(summary, &current))
            .collect())
    }

    /// Makes another session of this chat its current one.
    pub(in crate::inbound) async fn resume_session(
        &self,
        session: &str,
    ) -> Result<SessionLine, CommandError> {
        self.check_idle()?;
        let found = self.sessions().await?;
        let wanted = session.to_lowercase();
        let is_titled = |summary: &&SessionSummary| {
            let title = summary.session.title.as_deref().unwrap_or_default();
            title.to_lowercase() == wanted
        };
        let mut by_id = found
            .iter()
            .filter(|summary| summary.session.id.as_str().starts_with(session));
        let summary = match (by_id.next(), by_id.next()) {
            (Some(summary), None) => Some(summary),
            (Some(_), Some(_)) => {
                return Err(CommandError::new(format!(
                    "Several conversations begin with `{session}`; write more of the id."
                )));
            }
            (None, _) => found.iter().find(is_titled),
        };
        let Some(summary) = summary else {
            return Err(CommandError::new(format!(
                "This chat has no conversation `{session}`. `/sessions` lists them."
            )));
        };
        self.switch_to(summary).await.map_err(failed)?;
        Ok(session_line(summary, &summary.session.id))
    }

    /// Takes back turns.
    pub(in crate::inbound) async fn undo_turns(
        &self,
        turns: u32,
    ) -> Result<UndoOutcome, CommandError> {
        self.check_idle()?;
        let id = self.session_id().await?;
        let store = self.core.gateway.agent().store();
        let mut outcome = UndoOutcome {
            turns: 0,
            text: String::new(),
        };
        for _ in 0..turns {
            match store.rewind_last_turn(&id).await {
                Ok(rewound) => {
                    outcome.turns += 1;
                    let content = rewound.prompt.body.content;
                    outcome.text = content
                        .map(|content| content.text().into_owned())
                        .unwrap_or_default();
                }
                Err(StoreError::NothingToRewind { .. } | StoreError::NoSuchSession { .. }) => {
                    break;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(outcome)
    }

    /// Takes back the last turn and runs it again.
    pub(in crate::inbound) async fn retry_turn(&self) -> Result<(), CommandError> {
        self.check_idle()?;
        let id = self.session_id().await?;
        let store = self.core.gateway.agent().store();
        let rewound = match store.rewind_last_turn(&id).await {
            Ok(rewound) => rewound,
            Err(StoreError::NothingToRewind { .. } | StoreError::NoSuchSession { .. }) => {
                return Err(CommandError::new("There is nothing to try again."));
            }
            Err(error) => return Err(failed(error)),
        };
        let content = match rewound.prompt.body.content {
            Some(hermes_store::Content::Parts(parts)) => serde_json::from_value(parts.clone())
                .unwrap_or_else(|_| Content::Text(parts.to_string())),
            Some(content) => Content::Text(content.text().into_owned()),
            None => Content::default(),
        };
        self.push_turn(self.turn_with(content));
        Ok(())
    }

    /// Names the conversation.
    pub(in crate::inbound) async fn rename_session(
        &self,
        title: &str,
    ) -> Result<String, CommandError> {
        let id = self.session_id().await?;
        let store = self.core.gateway.agent().store();
        let row = self.input.chat.session_row(id.clone());
        store.create_session(&row).await.map_err(failed)?;
        let title = store.set_title(&id, title).await.map_err(failed)?;
        Ok(title.unwrap_or_default())
    }

    /// Summarizes the conversation.
    pub(in crate::inbound) async fn compress_session(
        &self,
    ) -> Result<CompressOutcome, CommandError> {
        self.check_idle()?;
        let Some(session) = self.stored_session().await? else {
            return Err(CommandError::new("There is nothing to summarize yet."));
        };
        let stop = self.core.stop.child_token();
        let done = self
            .core
            .gateway
            .runs()
            .compress_session(&session.id, stop)
            .await;
        let done = done.map_err(failed)?;
        Ok(CompressOutcome {
            messages_before: done.before,
            messages_after: done.after,
        })
    }

    /// Runs a turn with a skill. Returns whether there is one of that name.
    pub(in crate::inbound) fn begin_skill_turn(&self, name: &str, text: &str) -> bool {
        let Ok(view) = self.core.gateway.agent().skills().view(name) else {
            return false;
        };
        let mut said = format!(
            "[Use the skill `{}`. Its instructions:]\n\n{}",
            view.skill.name,
            view.body.trim()
        );
        // Writing to a string cannot fail.
        if !view.files.is_empty() {
            let files = view.files.join(", ");
            let _ = write!(
                said,
                "\n\n[Files of the skill, to be read with `skill_view`: {files}]"
            );
        }
        if !text.is_empty() {
            let _ = write!(said, "\n\n{text}");
        }
        self.push_turn(self.turn_with(said));
        true
    }
}

fn session_line(summary: &SessionSummary, current: &SessionId) -> SessionLine {
    let session = &summary.session;
    #[expect(clippy::cast_possible_truncation, reason = "whole seconds are enough")]
    let active = Timestamp::from_second(summary.last_active as i64);
    let active = active.map(|time| {
        let local = time.to_zoned(TimeZone::system());
        local.strftime("%Y-%m-%d %H:%M").to_string()
    });
    SessionLine {
        id: session.id.to_string(),
        title: session.title.clone(),
        preview: Some(summary.preview.clone()).filter(|preview| !preview.is_empty()),
        messages: usize::try_from(session.message_count).unwrap_or_default(),
        last_active: active.unwrap_or_default(),
        is_current: session.id == *current,
    }
}
