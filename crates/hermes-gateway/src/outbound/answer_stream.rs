//! One turn's answer, shown while it grows.
//!
//! A task shows the newest text, in the platform's own way where there is one, else by editing messages. It owns the typing
//! sign. What it has shown is handed to the outbox with the final text, so that it becomes the final messages in place.

mod feed;
mod preview;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hermes_store::StoreError;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::preview::PreviewTask;
use super::{Outbox, TypingSign, reply_plan::is_silence};
use crate::platform::{Account, ChatAddress, InboundEvent, LivePreview, SharedClient};

pub use feed::AnswerFeed;

/// How long a request of the preview that is under way may take when the answer is final. It must not arrive after it.
const END_TIMEOUT: Duration = Duration::from_secs(15);
const REMOVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether answers are shown while they grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StreamMode {
    #[default]
    On,
    /// The typing sign alone.
    Off,
}

/// The answer that is about to grow.
#[derive(Debug, Clone)]
pub struct AnswerRequest {
    pub account: Account,
    pub chat: ChatAddress,
    /// The message to reply to.
    pub reply_to: Option<String>,
    /// What is answered.
    pub event: Option<InboundEvent>,
    /// The key of the reply that it becomes.
    pub dedupe_key: String,
    pub mode: StreamMode,
    pub shows_typing: bool,
}

/// A growing answer. Dropped, it ends: the typing sign too.
pub struct AnswerStream {
    feed: AnswerFeed,
    typing: Option<TypingSign>,
    guard: DropGuard,
    is_finishing: Arc<AtomicBool>,
    task: Option<JoinHandle<AnswerPreview>>,
    outbox: Outbox,
    account: Account,
    chat: ChatAddress,
    dedupe_key: String,
}

/// What is left of the stream for the final message.
#[derive(Default)]
pub struct FinishedAnswer {
    /// What shows the answer: for [`QueuedReply::first_posted`](super::QueuedReply::first_posted).
    pub first_posted: Option<AnswerPreview>,
}

/// What shows an answer that is not final.
#[derive(Default)]
pub struct AnswerPreview {
    /// The messages that show its parts, in order.
    pub(super) shown: Vec<SentPart>,
    /// Shows the part after those, in the platform's own way.
    pub(super) native: Option<Box<dyn LivePreview>>,
}

/// A message that shows a part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SentPart {
    pub(super) message_id: String,
    pub(super) text: String,
    /// Whether it has the button that stops the answer: the final message has none.
    pub(super) has_stop: bool,
}

impl AnswerPreview {
    pub(super) fn is_empty(&self) -> bool {
        self.shown.is_empty() && self.native.is_none()
    }

    /// Removes everything, as far as the platform lets it.
    pub(super) async fn remove(mut self, client: Option<&SharedClient>, chat: &ChatAddress) {
        let removal = async {
            if let Some(mut native) = self.native.take() {
                native.discard().await;
            }
            for part in &self.shown {
                if let Some(client) = client
                    && let Err(error) = client.delete(chat, &part.message_id).await
                {
                    tracing::debug!(%error, "preview could not be deleted");
                }
            }
        };
        if tokio::time::timeout(REMOVE_TIMEOUT, removal).await.is_err() {
            tracing::debug!("preview could not be deleted in time");
        }
    }
}

impl Outbox {
    /// Begins to show an answer. Nothing is sent but the typing sign until there is something to show.
    pub fn open_answer(&self, request: AnswerRequest) -> AnswerStream {
        let feed = AnswerFeed::default();
        let stop = CancellationToken::new();
        let is_finishing = Arc::new(AtomicBool::new(false));
        let typing = request
            .shows_typing
            .then(|| self.show_typing(&request.account, &request.chat));
        let (account, chat) = (request.account.clone(), request.chat.clone());
        let dedupe_key = request.dedupe_key.clone();
        let task = (request.mode == StreamMode::On).then(|| {
            let preview = PreviewTask::new(
                Arc::clone(&self.inner),
                request,
                feed.clone(),
                stop.clone(),
                Arc::clone(&is_finishing),
            );
            self.inner.tasks.spawn(preview.run())
        });
        AnswerStream {
            feed,
            typing,
            guard: stop.drop_guard(),
            is_finishing,
            task,
            outbox: self.clone(),
            account,
            chat,
            dedupe_key,
        }
    }

    /// Deletes what shows an answer that an earlier process did not finish, and that nobody will.
    pub async fn discard_preview(
        &self,
        account: &Account,
        chat: &ChatAddress,
        dedupe_key: &str,
    ) -> Result<(), StoreError> {
        let shown = self.inner.runtime.preview_messages(dedupe_key).await?;
        if shown.is_empty() {
            return Ok(());
        }
        let shown = shown.into_iter().map(|message_id| SentPart {
            message_id,
            text: String::new(),
            has_stop: false,
        });
        let preview = AnswerPreview {
            shown: shown.collect(),
            native: None,
        };
        self.remove_preview(account, chat, dedupe_key, preview)
            .await;
        Ok(())
    }
}

impl AnswerStream {
    /// Where the turn writes. It never waits.
    pub fn feed(&self) -> AnswerFeed {
        self.feed.clone()
    }

    /// Ends the stream: the answer is complete. What it has shown goes on as the final message; of silence nothing stays.
    pub async fn finish(self, final_text: &str) -> FinishedAnswer {
        let Self {
            typing,
            guard,
            is_finishing,
            task,
            ..
        } = self;
        is_finishing.store(true, Ordering::Release);
        drop(guard);
        let preview = async {
            match task {
                None => None,
                Some(task) => match tokio::time::timeout(END_TIMEOUT, task).await {
                    Ok(Ok(preview)) => Some(preview),
                    Ok(Err(error)) => {
                        tracing::error!(%error, "answer preview failed");
                        None
                    }
                    Err(_) => {
                        tracing::warn!("answer preview did not end in time");
                        None
                    }
                },
            }
        };
        let typing = async {
            if let Some(typing) = typing {
                typing.end().await;
            }
        };
        let (preview, ()) = tokio::join!(preview, typing);
        let preview = preview.filter(|preview| !preview.is_empty());
        if is_silence(final_text)
            && let Some(preview) = preview
        {
            self.outbox
                .remove_preview(&self.account, &self.chat, &self.dedupe_key, preview)
                .await;
            return FinishedAnswer::default();
        }
        FinishedAnswer {
            first_posted: preview,
        }
    }
}
