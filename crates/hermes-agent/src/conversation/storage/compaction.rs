//! Compaction of a stored conversation: the model for summaries, and replacing the old rows.

use std::{
    mem,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::future::BoxFuture;
use hermes_config::AuxiliaryTask;
use hermes_store::{
    CompactionFailure, MessageId, NewMessage, SessionId, Store, StoreError, StoredMessage,
};
use tokio_util::sync::CancellationToken;

use crate::{
    compact::{
        Compacted, CompactionMethod, CompactionOutcome, CompactionReason, Compactor, SummaryFailure,
    },
    conversation::{
        Conversation, ConversationError, TurnDisplay,
        storage::{
            message_rows,
            recorder::{TurnRecorder, stored_usage},
        },
    },
    message::Message,
    model::{Auxiliary, Model, ModelError, ModelEventSink, ModelReply, ModelRequest, Selection},
    turn::{self, MessageDetail},
};

/// How long one process may hold the right to compact.
const LEASE_DURATION: Duration = Duration::from_mins(10);

/// A compactor and the model it was made for.
pub(crate) struct CachedCompactor {
    model: String,
    context: Option<u32>,
    compactor: Arc<Compactor>,
}

impl Conversation {
    /// The compactor for this model. It remembers failures of earlier runs.
    pub(crate) async fn compactor(
        &mut self,
        selection: &Selection,
    ) -> Result<Arc<Compactor>, ConversationError> {
        let context = selection.model.context_length();
        let model = &selection.endpoint.model;
        if let Some(made) = &self.model.compactor
            && (&made.model, made.context) == (model, context)
        {
            return Ok(made.compactor.clone());
        }
        let settings = self.agent.settings().compression.clone();
        let task = AuxiliaryTask::Compression;
        let summariser = match self.agent.auxiliary(Some(selection), task).await {
            Ok(auxiliary) => Some(Arc::new(MeteredModel {
                model: auxiliary,
                store: self.agent.store().clone(),
                session: self.session.id.clone(),
            }) as Arc<dyn Model>),
            Err(error) => {
                tracing::warn!(%error, "no model for conversation summaries");
                None
            }
        };
        let mut compactor = Compactor::new(settings, context, summariser);
        if let Some(failure) = self
            .agent
            .store()
            .compaction_failure(&self.session.id)
            .await?
        {
            let since_1970 = Duration::try_from_secs_f64(failure.until).unwrap_or_default();
            let until = SystemTime::UNIX_EPOCH + since_1970;
            compactor =
                compactor.with_cooldown(until, u32::try_from(failure.streak).unwrap_or_default());
        }
        let compactor = Arc::new(compactor);
        self.model.compactor = Some(CachedCompactor {
            model: model.clone(),
            context,
            compactor: compactor.clone(),
        });
        Ok(compactor)
    }

    /// Compacts the conversation on the user's request.
    pub fn compress<'a>(
        &'a mut self,
        display: &'a mut dyn TurnDisplay,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<CompactionOutcome, ConversationError>> {
        Box::pin(async move {
            let selection = self.find_model().await?;
            self.refresh_messages().await?;
            let compactor = self.compactor(&selection).await?;
            let toolbox = self.toolbox();
            let mut recorder =
                TurnRecorder::new(display, self.agent.store(), &self.session.id, &selection);
            self.history.must_reload = true;
            let mut messages = mem::take(&mut self.history.messages);
            messages.insert(0, Message::system(self.build_system_prompt()));
            let ran = turn::compact_and_store(
                &compactor,
                &mut messages,
                toolbox.definitions(),
                (CompactionReason::Requested, None),
                &mut recorder,
                &cancel,
            )
            .await;
            messages.remove(0);
            self.history.messages = messages;
            self.history.rows = None;
            self.history.must_reload = ran.is_err();
            ran.map_err(|error| crate::turn::TurnError::Persist(error).into())
        })
    }
}

struct MeteredModel {
    model: Auxiliary,
    store: Store,
    session: SessionId,
}

impl Model for MeteredModel {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn provider(&self) -> &str {
        Model::provider(&self.model)
    }

    fn context_length(&self) -> Option<u32> {
        self.model.context_length()
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        _sink: ModelEventSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            let reply = self.model.complete(request).await?;
            let usage = stored_usage(reply.usage.unwrap_or_default());
            let task = AuxiliaryTask::Compression.key();
            let recorded = self
                .store
                .record_usage(&self.session, self.name(), Some(task), &usage);
            if let Err(error) = recorded.await {
                tracing::warn!(%error, "failed to record the usage of a summary");
            }
            Ok(reply)
        })
    }
}

/// Replaces a session's rows under a lease.
pub(crate) struct HistoryReplacement<'a> {
    pub(crate) store: &'a Store,
    pub(crate) session: &'a SessionId,
}

impl HistoryReplacement<'_> {
    pub(crate) async fn acquire_lease(&self) -> Result<bool, StoreError> {
        let holder = lease_holder();
        self.store
            .lock_compaction(self.session, &holder, LEASE_DURATION)
            .await
    }

    pub(crate) async fn release_lease(&self) -> Result<(), StoreError> {
        self.store
            .unlock_compaction(self.session, &lease_holder())
            .await
    }

    /// Replaces the old rows by the compacted list.
    pub(crate) async fn replace(&self, old: &[Message], new: &Compacted) -> Result<(), StoreError> {
        let rows = self.store.active_messages(self.session).await?;
        let through = rows.last().map_or(MessageId(0), |row| row.id);
        // The rows of the old messages, in order. A row with an unknown role has no message, and the system
        // prompt no row.
        let mut next = 0;
        let old: Vec<Option<NewMessage>> = old
            .iter()
            .map(|message| {
                let is_its_own = |row: &StoredMessage| {
                    message_rows::row_to_message(&row.body).as_ref() == Some(message)
                };
                let index = next + rows[next..].iter().position(is_its_own)?;
                next = index + 1;
                Some(rows[index].body.clone())
            })
            .collect();
        let list: Vec<NewMessage> = new
            .messages
            .iter()
            .zip(&new.origins)
            .filter(|(message, _)| !matches!(message, Message::System { .. }))
            .map(|(message, origin)| {
                let kept = origin.and_then(|index| old.get(index)?.clone());
                let row = message_rows::message_to_row(message, &MessageDetail::default());
                match kept {
                    Some(kept) if message_rows::row_to_message(&kept).as_ref() == Some(message) => {
                        kept
                    }
                    // Shortened: the time stays, the text is the new one.
                    Some(kept) => NewMessage {
                        content: row.content,
                        api_content: None,
                        token_count: None,
                        ..kept
                    },
                    None => row,
                }
            })
            .collect();
        self.store
            .compact(self.session, &lease_holder(), through, &list)
            .await?;
        if new.means == CompactionMethod::Summary {
            self.store
                .set_compaction_failure(self.session, None)
                .await?;
        }
        Ok(())
    }

    pub(crate) async fn record_failure(&self, failure: &SummaryFailure) -> Result<(), StoreError> {
        let since_1970 = failure
            .cooldown_until
            .duration_since(SystemTime::UNIX_EPOCH);
        let failure = CompactionFailure {
            until: since_1970.unwrap_or_default().as_secs_f64(),
            error: failure.error.clone(),
            streak: failure.consecutive_failures.into(),
        };
        self.store
            .set_compaction_failure(self.session, Some(&failure))
            .await
    }
}

/// Who holds the lease: this process.
fn lease_holder() -> String {
    format!("hermes:{}", std::process::id())
}
