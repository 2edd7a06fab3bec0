//! What a user can do with a conversation besides sending messages: undo, retry, set title or model, reload, and
//! switch to another session.

use std::mem;

use futures::future::BoxFuture;
use hermes_config::Settings;
use hermes_mcp::ReloadReport;
use hermes_store::{EndReason, ModelUsage, NewSession, Session, StoreError};
use tokio_util::sync::CancellationToken;

use super::{Conversation, ConversationError, SessionReference, TurnDisplay, TurnOutcome, prompt};
use crate::{
    conversation::storage::{message_rows, session_row::model_config},
    message::Content,
    model::{ModelOverrides, Selection},
};

#[derive(Debug, Clone, PartialEq)]
pub struct UndoResult {
    pub turns: u32,
    /// The user message of the first removed turn.
    pub prompt: Content,
}

impl Conversation {
    /// Removes the last turns. Fewer than requested is not an error, none is.
    pub async fn undo(&mut self, turns: u32) -> Result<UndoResult, ConversationError> {
        let nothing = || StoreError::NothingToRewind {
            id: self.session.id.clone(),
        };
        if !self.is_stored() {
            return Err(nothing().into());
        }
        let mut undone: Option<UndoResult> = None;
        for turn in 1..=turns.max(1) {
            match self.agent.store().rewind_last_turn(&self.session.id).await {
                Ok(rewound) => {
                    undone = Some(UndoResult {
                        turns: turn,
                        prompt: message_rows::row_content(&rewound.prompt.body),
                    });
                }
                Err(StoreError::NothingToRewind { .. }) => break,
                Err(error) => {
                    self.history.must_reload = true;
                    return Err(error.into());
                }
            }
        }
        let undone = undone.ok_or_else(nothing)?;
        self.reload_messages().await?;
        Ok(undone)
    }

    /// Removes the last turn and sends its user message again.
    pub fn retry<'a>(
        &'a mut self,
        display: &'a mut dyn TurnDisplay,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<TurnOutcome, ConversationError>> {
        Box::pin(async move {
            // Without a model the removed turn would be lost.
            self.find_model().await?;
            let undone = self.undo(1).await?;
            self.send_user_message(undone.prompt, display, cancel).await
        })
    }

    /// Sets the title; an empty one removes it. Returns the new title.
    pub async fn set_title(&mut self, title: &str) -> Result<Option<String>, ConversationError> {
        self.store_row().await?;
        Ok(self
            .agent
            .store()
            .set_title(&self.session.id, title)
            .await?)
    }

    /// The usage of the session so far, by model.
    pub async fn usage(&self) -> Result<(Option<Session>, Vec<ModelUsage>), ConversationError> {
        let session = self.session().await?;
        let models = self.agent.store().model_usage(&self.session.id).await?;
        Ok((session, models))
    }

    /// Switches to another model. The prompt is rebuilt.
    pub fn set_model(
        &mut self,
        model: Option<String>,
        provider: Option<String>,
    ) -> BoxFuture<'_, Result<Selection, ConversationError>> {
        Box::pin(async move {
            let overrides = ModelOverrides {
                model,
                provider,
                ..ModelOverrides::default()
            };
            let selection = self.agent.find_model(&overrides).await?;
            if self.is_stored() {
                let config = model_config(&selection.stored());
                let store = self.agent.store();
                store
                    .set_model(&self.session.id, &selection.endpoint.model, Some(&config))
                    .await?;
            }
            self.setup.model_overrides = overrides;
            self.model.notes.extend(selection.notes.iter().cloned());
            self.model.selection.set(Some(selection.clone()));
            self.prompt.text = None;
            Ok(selection)
        })
    }

    /// Applies other settings: servers are started and stopped, the prompt is rebuilt, and the model is
    /// resolved again unless one was chosen.
    pub fn reload(&mut self, settings: Settings) -> BoxFuture<'_, Option<ReloadReport>> {
        Box::pin(async move {
            let report = self.agent.reload(settings).await;
            if let Some(selection) = self.model.selection.get() {
                self.model.remembered = Some(selection.stored());
                self.model.selection.set(None);
            }
            self.prompt.text = None;
            self.prompt.missing_servers = prompt::missing_servers_section(&[]);
            report
        })
    }

    /// Ends this session and starts another with the same setup.
    pub fn start_new_session(
        &mut self,
        row: NewSession,
        reason: EndReason,
    ) -> BoxFuture<'_, Result<(), ConversationError>> {
        Box::pin(async move {
            let next = Self::new(self.agent.clone(), row, self.setup.clone());
            self.replace_session(next, reason).await
        })
    }

    /// Ends this session and resumes a stored one.
    pub fn switch_session<'a>(
        &'a mut self,
        which: &'a SessionReference,
        reason: EndReason,
    ) -> BoxFuture<'a, Result<(), ConversationError>> {
        Box::pin(async move {
            let next = Self::resume(self.agent.clone(), which, self.setup.clone()).await?;
            if next.session.id == self.session.id {
                *self = next;
                return Ok(());
            }
            self.replace_session(next, reason).await
        })
    }

    async fn replace_session(
        &mut self,
        mut next: Self,
        reason: EndReason,
    ) -> Result<(), ConversationError> {
        next.prompt
            .missing_servers
            .clone_from(&self.prompt.missing_servers);
        next.tools.switches.clone_from(&self.tools.switches);
        let last = mem::replace(self, next);
        last.close(reason).await
    }

    /// Stores the row before the first message.
    async fn store_row(&mut self) -> Result<(), ConversationError> {
        if self.is_stored() {
            return Ok(());
        }
        let selection = self.find_model().await.ok();
        self.ensure_row(selection.as_ref()).await
    }
}
