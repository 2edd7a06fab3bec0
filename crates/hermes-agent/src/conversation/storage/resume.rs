//! Resuming a stored session.

use std::{path::PathBuf, sync::Arc};

use futures::future::BoxFuture;
use hermes_store::{ActiveRows, NewSession, Session};
use serde_json::Value;

use crate::{
    conversation::{
        Agent, Conversation, ConversationError, ConversationSetup, CwdOnResume,
        state::SessionRow,
        storage::{message_rows, past_calls::read_past_calls},
    },
    model::StoredModel,
    turn::MessageDetail,
};

/// How many continuations under another id are followed, against cycles.
const MAX_CONTINUATIONS: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionReference {
    /// An id, the beginning of one, or a title.
    Named(String),
    Titled(String),
    Newest {
        /// Such as `cli`.
        source: String,
    },
}

impl Conversation {
    /// Resumes a session: with its messages, its prompt, its model unless another is requested, and its directory
    /// if that still exists.
    pub fn resume(
        agent: Agent,
        which: &SessionReference,
        setup: ConversationSetup,
    ) -> BoxFuture<'_, Result<Self, ConversationError>> {
        Box::pin(async move {
            let session = find_session(&agent, which).await?;
            agent.store().reopen_session(&session.id).await?;
            let row = NewSession::new(session.id.clone(), session.source.clone());
            let mut conversation = Self::new(agent, row, setup);
            conversation.session.row = SessionRow::Stored;
            conversation.model.remembered = stored_model(&session);
            if conversation.setup.cwd_on_resume == CwdOnResume::Restore {
                let cwd = session.cwd.map(PathBuf::from);
                if let Some(cwd) = cwd.filter(|cwd| cwd.is_dir()) {
                    conversation.session.cwd = cwd;
                }
            }
            conversation.know_past_calls();
            conversation.prompt.text = session.system_prompt.filter(|prompt| !prompt.is_empty());
            conversation.reload_messages().await?;
            Ok(conversation)
        })
    }

    /// Has the approvals know which files the session has written so far.
    fn know_past_calls(&mut self) {
        let store = self.agent.store().clone();
        let (id, cwd) = (self.session.id.clone(), self.session.cwd.clone());
        let approvals = (*self.tools.approvals).clone();
        let approvals = approvals.with_past_calls(Arc::new(move || {
            let (store, id, cwd) = (store.clone(), id.clone(), cwd.clone());
            Box::pin(async move { read_past_calls(&store, &id, &cwd).await })
        }));
        self.tools.approvals = Arc::new(approvals);
    }

    /// Loads the messages anew, if they have to be or if others have changed the session since.
    pub async fn refresh_messages(&mut self) -> Result<(), ConversationError> {
        let history = &self.history;
        let is_current = match history.rows {
            _ if history.must_reload => false,
            _ if !history.must_check => true,
            Some(rows) => self.agent.store().active_rows(&self.session.id).await? == rows,
            None => false,
        };
        if !is_current {
            self.reload_messages().await?;
        }
        self.history.must_check = false;
        Ok(())
    }

    /// Loads the messages from the store. Calls without a result get one.
    pub(crate) async fn reload_messages(&mut self) -> Result<(), ConversationError> {
        let store = self.agent.store();
        let rows = store.active_messages(&self.session.id).await?;
        let history = message_rows::build_history(&rows);
        let missing: Vec<_> = history
            .to_store
            .iter()
            .map(|message| message_rows::message_to_row(message, &MessageDetail::default()))
            .collect();
        let mut known = ActiveRows::from_messages(&rows);
        known.add(store.append_all(&self.session.id, &missing).await?);
        self.history.rows = Some(known);
        self.history.messages = history.messages;
        self.tools.todo.restore_from(&self.history.messages);
        self.history.must_reload = false;
        Ok(())
    }
}

async fn find_session(
    agent: &Agent,
    which: &SessionReference,
) -> Result<Session, ConversationError> {
    let store = agent.store();
    let session = match which {
        SessionReference::Named(reference) => store.find_session(reference).await?,
        SessionReference::Titled(title) => store.session_by_title(title).await?,
        SessionReference::Newest { source } => store.newest_session(source).await?,
    };
    let mut session = session.ok_or_else(|| match which {
        SessionReference::Named(reference) | SessionReference::Titled(reference) => {
            ConversationError::NoSuchSession {
                reference: reference.clone(),
            }
        }
        SessionReference::Newest { .. } => ConversationError::NothingToContinue,
    })?;
    // Other programs continue a compacted conversation under another id.
    for _ in 0..MAX_CONTINUATIONS {
        if session.end_reason.as_deref() != Some("compression") {
            break;
        }
        let Some(next) = store.children(&session.id).await?.pop() else {
            break;
        };
        match store.session(&next).await? {
            Some(next) => session = next,
            None => break,
        }
    }
    Ok(session)
}

fn stored_model(session: &Session) -> Option<StoredModel> {
    let written = |key: &str| {
        let text = session.model_config.as_ref()?.get(key)?.as_str()?;
        Some(text.to_owned()).filter(|text| !text.is_empty())
    };
    let is_ours = session
        .model_config
        .as_ref()
        .is_some_and(|config| config.get("provider").is_some_and(Value::is_string));
    let (provider, base_url) = if is_ours {
        (written("provider"), written("base_url"))
    } else {
        let usage = &session.usage;
        (
            usage.billing_provider.clone(),
            usage.billing_base_url.clone(),
        )
    };
    Some(StoredModel {
        model: session.model.clone().filter(|model| !model.is_empty())?,
        provider,
        base_url,
    })
}
