//! One turn of a chat: from the messages it answers to the answer in the outbox.

pub(super) mod chat_observer;
pub(super) mod media;
pub(super) mod recovery;
pub(super) mod turn_content;
pub(super) mod user_content;

use std::{sync::Arc, time::Duration};

use hermes_agent::message::Content;
use hermes_store::{SessionId, StoreError};
use serde_json::json;

use self::{chat_observer::ChatObserver, recovery::StoredProgress};
use super::{
    InboundCore,
    routing::{chat::Chat, sessions::OpenedSession},
    session_worker::WorkerInput,
    session_worker::{
        steering::TurnSteering,
        turn_handle::TurnHandle,
        waiting_turns::{WaitingTurn, WorkerState},
    },
};
use crate::{
    outbound::{AnswerPreview, AnswerRequest, AnswerStream, QueuedReply, StreamMode, is_silence},
    runs::{ChatSurface, MeterError, RunInput, RunSource, StartError, TurnRequest, TurnResult},
};

/// Why a turn could not be run.
#[derive(Debug, thiserror::Error)]
enum ChatTurnError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Start(#[from] StartError),
}

impl ChatTurnError {
    /// Whether it may work again, as a store after a full disk.
    fn may_pass(&self) -> bool {
        match self {
            Self::Store(error) | Self::Start(StartError::Store(error)) => error.may_pass(),
            Self::Start(StartError::Meter(MeterError::Unavailable { .. })) => true,
            Self::Start(_) => false,
        }
    }
}

/// The pauses before a turn is tried again that the store could not take.
const FIRST_STORE_PAUSE: Duration = Duration::from_secs(1);
const MAX_STORE_PAUSE: Duration = Duration::from_secs(30);

/// Answers messages. Whatever goes wrong is told to the user in one sentence.
pub(super) async fn answer_messages(
    core: Arc<InboundCore>,
    waiting: WaitingTurn,
    handle: Arc<TurnHandle>,
    state: Option<Arc<WorkerState>>,
) {
    let Some(first) = waiting.inputs.first() else {
        return;
    };
    let turn = ChatTurn {
        chat: first.chat.clone(),
        first,
        core,
        inputs: &waiting.inputs,
        content: waiting.content.as_ref(),
        session: waiting.session.as_ref(),
        handle: &handle,
        state,
    };
    let mut is_started = false;
    let mut pause = FIRST_STORE_PAUSE;
    loop {
        match turn.run(&mut is_started).await {
            Ok(TurnProgress::Done) => return turn.finish().await,
            Ok(TurnProgress::Interrupted) => {
                return turn.core.routing.mark_resume_pending(&turn.chat.key);
            }
            Err(ChatTurnError::Start(StartError::Stopping)) => return,
            Err(ChatTurnError::Start(StartError::Meter(MeterError::Refused { message }))) => {
                tracing::info!(session_key = %turn.chat.key, "turn of a chat was refused");
                if let Err(error) = turn.reply(&message).await {
                    tracing::error!(session_key = %turn.chat.key, %error, "failed to queue a reply");
                }
                return turn.finish().await;
            }
            Err(error) if error.may_pass() => {
                tracing::error!(session_key = %turn.chat.key, %error, ?pause, "turn of a chat could not begin; trying again");
            }
            Err(error) => {
                tracing::error!(session_key = %turn.chat.key, %error, "turn of a chat failed");
                let text = "Something went wrong here and your message was not answered. It is in the log of the gateway.";
                if let Err(error) = turn.reply(text).await {
                    tracing::error!(session_key = %turn.chat.key, %error, "failed to queue a reply");
                }
                return turn.finish().await;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(MAX_STORE_PAUSE),
            // The next process finds it in the inbox.
            () = turn.core.stop.cancelled() => return,
            () = turn.handle.preparing.cancelled() => return turn.finish().await,
        }
    }
}

enum TurnProgress {
    Done,
    /// The gateway stops, and the next one goes on.
    Interrupted,
}

/// The session of a turn, and what it begins with.
struct PreparedTurn {
    session: SessionId,
    /// `None` to continue an interrupted turn.
    input: Option<Content>,
    note: Option<String>,
}

struct ChatTurn<'a> {
    core: Arc<InboundCore>,
    chat: Chat,
    first: &'a WorkerInput,
    inputs: &'a [WorkerInput],
    /// What is said instead of what the inputs say.
    content: Option<&'a Content>,
    /// The session, if it is not the one of the chat.
    session: Option<&'a SessionId>,
    handle: &'a Arc<TurnHandle>,
    /// Where messages wait that may join it.
    state: Option<Arc<WorkerState>>,
}

impl ChatTurn<'_> {
    /// `is_started` says whether this process has begun it before, and is set when it has.
    async fn run(&self, is_started: &mut bool) -> Result<TurnProgress, ChatTurnError> {
        let is_again = *is_started;
        if !is_again {
            if !self.start().await? {
                return Ok(TurnProgress::Done);
            }
            *is_started = true;
            self.core
                .show_receipt(&self.chat, self.message_id().as_deref());
        }
        let prepared = tokio::select! {
            prepared = self.prepare(is_again) => prepared?,
            () = self.handle.preparing.cancelled() => None,
        };
        match prepared {
            Some(prepared) => self.run_prepared(prepared).await,
            None => Ok(TurnProgress::Done),
        }
    }

    /// Marks the messages as begun. Returns whether one of them was not done yet.
    async fn start(&self) -> Result<bool, StoreError> {
        let mut is_new = false;
        for input in self.inputs {
            let store = self.core.gateway.store();
            is_new |= store.start_update(&input.key, Some(&self.chat.key)).await?;
        }
        Ok(is_new)
    }

    /// What the turn begins with; `None` if there is nothing to ask the model.
    async fn prepare(&self, is_again: bool) -> Result<Option<PreparedTurn>, ChatTurnError> {
        let session = match self.session {
            Some(id) => OpenedSession {
                id: id.clone(),
                notice: None,
            },
            None => self.core.open_session(&self.chat).await?,
        };
        let attempts = self.inputs.iter().map(|input| input.attempts).max();
        let attempts = attempts.unwrap_or_default().max(i64::from(is_again));
        let message_id = self.message_id();
        if attempts > 0 {
            let answered = self.answered();
            let progress = recovery::find_progress(
                self.core.gateway.agent().store(),
                &session.id,
                answered.message().map(|message| message.id.as_str()),
                attempts,
            );
            match progress.await? {
                StoredProgress::Nothing => {}
                StoredProgress::Answered(text) => {
                    self.queue_answer(&session.id, &text, None).await?;
                    return Ok(None);
                }
                StoredProgress::Interrupted if self.core.routing.may_resume(&self.chat.key) => {
                    self.core.routing.touch(&self.chat.key, &self.chat.origin);
                    return Ok(Some(PreparedTurn {
                        session: session.id,
                        input: None,
                        note: None,
                    }));
                }
                StoredProgress::Interrupted => {
                    let text = "The gateway was stopped while I worked on this, too long ago to go on. Write again if you still need it.";
                    self.reply(text).await?;
                    return Ok(None);
                }
                StoredProgress::Superseded => {
                    let (account, address) = (&self.chat.account.account, &self.chat.address);
                    self.core
                        .outbox
                        .discard_preview(account, address, &self.answer_key())
                        .await?;
                    return Ok(None);
                }
                StoredProgress::TooOften => {
                    let text =
                        "I could not answer this: the gateway stopped twice while I worked on it.";
                    self.reply(text).await?;
                    return Ok(None);
                }
            }
        }
        self.core.routing.touch(&self.chat.key, &self.chat.origin);
        if let Some(content) = self.content {
            return Ok(Some(PreparedTurn {
                session: session.id,
                input: Some(content.clone()),
                note: session.notice,
            }));
        }
        let built = match self.core.read_inputs(&self.chat, self.inputs).await {
            Ok(built) => built,
            Err(unread) => {
                let core = &self.core;
                core.record_unread(&self.chat, &session.id, message_id, &unread)
                    .await?;
                self.reply(&unread.to_string()).await?;
                return Ok(None);
            }
        };
        if let Some(notice) = &built.notice {
            let dedupe_key = super::dedupe_key("notice", &self.first.key);
            self.core
                .queue_text(&self.chat, notice, message_id.as_deref(), &dedupe_key)
                .await;
        }
        let overheard = self.core.overheard_before_thread(&self.chat).await?;
        let notes: Vec<String> = [session.notice, overheard, built.note]
            .into_iter()
            .flatten()
            .collect();
        Ok(Some(PreparedTurn {
            session: session.id,
            input: Some(built.content),
            note: (!notes.is_empty()).then(|| notes.join("\n\n")),
        }))
    }

    fn message_id(&self) -> Option<String> {
        let message = self.first.message()?;
        Some(message.id.clone())
    }

    /// The message that the answer is under: the last one that the model got.
    fn answered(&self) -> WorkerInput {
        let joined = self.handle.answered();
        joined.unwrap_or_else(|| self.first.clone())
    }

    fn answer_key(&self) -> String {
        super::dedupe_key("answer", &self.answered().key)
    }

    async fn run_prepared(&self, prepared: PreparedTurn) -> Result<TurnProgress, ChatTurnError> {
        let stream = self.core.outbox.open_answer(self.answer_request());
        let steering = self.state.as_ref().map(|state| TurnSteering {
            core: self.core.clone(),
            state: state.clone(),
            handle: self.handle.clone(),
        });
        let (core, chat) = (self.core.clone(), self.chat.clone());
        let (observer, end) = ChatObserver::new(core, chat, stream.feed(), steering);
        let session = prepared.session.clone();
        let request = self.turn_request(prepared, observer.clone());
        let text = request
            .input
            .as_ref()
            .map(|input| input.text().into_owned());
        let input = json!({"input": text, "session_key": self.chat.key.as_str()});
        let runs = self.core.gateway.runs();
        let started = runs
            .start(
                RunInput::Turn(Box::new(request)),
                RunSource::Platform,
                input,
                None,
            )
            .await?;
        self.handle.set_run(&started.id, runs);
        let result = end.await.unwrap_or(TurnResult::Stopped);
        self.finish_answer(&session, stream, result, &observer.take_said())
            .await
    }

    fn answer_request(&self) -> AnswerRequest {
        let message_id = self.message_id();
        let reply = self
            .core
            .new_reply(&self.chat, "", message_id.as_deref(), &self.answer_key());
        AnswerRequest {
            account: reply.account,
            chat: reply.chat,
            reply_to: reply.reply_to,
            event: Some(self.first.event.clone()),
            dedupe_key: reply.dedupe_key,
            mode: if self.chat.account.settings.is_streaming {
                StreamMode::On
            } else {
                StreamMode::Off
            },
            shows_typing: self.chat.account.settings.shows_typing,
        }
    }

    fn turn_request(&self, prepared: PreparedTurn, observer: Arc<ChatObserver>) -> TurnRequest {
        let (model, provider) = self.core.chosen_model(&self.chat.key);
        let is_continued = prepared.input.is_none();
        let mut row = self.chat.session_row(prepared.session.clone());
        if self.session.is_some() {
            // The chat is in another one.
            row.session_key = None;
        }
        let surface = ChatSurface {
            platform: self.chat.account.account.platform.name().to_owned(),
            platform_note: platform_note(&self.chat),
            row,
            session_key: self.chat.key.clone(),
            message_id: self.message_id(),
            note: prepared.note,
            provider,
            cron_origin: Some(self.chat.cron_origin()),
            observer,
        };
        TurnRequest {
            input: prepared.input,
            results: Vec::new(),
            client_tools: None,
            instructions: is_continued.then(|| CONTINUED_NOTE.to_owned()),
            history: Vec::new(),
            session: prepared.session,
            model,
            surface: Some(Box::new(surface)),
        }
    }

    /// Turns what is shown into the answer.
    async fn finish_answer(
        &self,
        session: &SessionId,
        stream: AnswerStream,
        result: TurnResult,
        said: &str,
    ) -> Result<TurnProgress, ChatTurnError> {
        let text = match result {
            TurnResult::Answered { text } if text.trim().is_empty() => {
                "The model gave no answer.".to_owned()
            }
            TurnResult::Answered { text } => text,
            TurnResult::Failed(failure) => format!("That did not work: {}", failure.message),
            TurnResult::Stopped => stopped_text(said),
            // What is shown stays: the next process goes on with it.
            TurnResult::ShutDown => return Ok(TurnProgress::Interrupted),
        };
        let finished = stream.finish(&text).await;
        if is_silence(&text) {
            return Ok(TurnProgress::Done);
        }
        self.queue_answer(session, &text, finished.first_posted)
            .await?;
        Ok(TurnProgress::Done)
    }

    /// Queues the answer. What is stored as one gets the platform's id of its message.
    async fn queue_answer(
        &self,
        session: &SessionId,
        text: &str,
        first_posted: Option<AnswerPreview>,
    ) -> Result<(), StoreError> {
        let store = self.core.gateway.agent().store();
        let message_id = self.message_id();
        let key = self.answer_key();
        let reply = QueuedReply {
            first_posted,
            shown_message: store.last_answer(session, text).await?,
            may_be_posted: self.may_be_answered(),
            ..self
                .core
                .new_reply(&self.chat, text, message_id.as_deref(), &key)
        };
        self.core.outbox.queue_reply(reply).await.map(drop)
    }

    async fn reply(&self, text: &str) -> Result<(), StoreError> {
        let message_id = self.message_id();
        let key = self.answer_key();
        let reply = QueuedReply {
            may_be_posted: self.may_be_answered(),
            ..self
                .core
                .new_reply(&self.chat, text, message_id.as_deref(), &key)
        };
        self.core.outbox.queue_reply(reply).await.map(drop)
    }

    /// Whether an earlier process may have sent an answer that it could not record.
    fn may_be_answered(&self) -> bool {
        self.inputs.iter().any(|input| input.is_left_over)
    }

    /// The messages have been dealt with.
    async fn finish(&self) {
        for input in self.inputs.iter().chain(&self.handle.joined()) {
            self.core.finish(&input.key).await;
        }
    }
}

impl InboundCore {
    /// Adds a reaction to a message, where that is wanted.
    pub(super) fn show_receipt(&self, chat: &Chat, message_id: Option<&str>) {
        let (Some(message_id), true) = (message_id, chat.account.settings.has_reactions) else {
            return;
        };
        let (chat, message_id) = (chat.clone(), message_id.to_owned());
        self.tasks.spawn(async move {
            let client = &chat.account.client;
            if let Err(error) = client.react(&chat.address, &message_id, RECEIPT).await {
                tracing::debug!(session_key = %chat.key, %error, "reaction was not added");
            }
        });
    }
}

/// The reaction that a received message gets.
const RECEIPT: &str = "\u{1f440}";

/// What stays of an answer that was stopped: what was said of it, or nothing.
fn stopped_text(said: &str) -> String {
    match said.trim() {
        "" => "[SILENT]".to_owned(),
        said => format!("{said} … (stopped)"),
    }
}

/// Told to the model when a turn goes on after a restart.
const CONTINUED_NOTE: &str = "The gateway was restarted while you worked on the last message. Results of tools that are \
     missing were lost with it. Go on from here, and do not mention the restart unless it matters.";

/// What the model is told about the chat.
fn platform_note(chat: &Chat) -> String {
    let platform = chat.account.account.platform;
    let place = if chat.address.is_direct() {
        format!("a direct chat on {platform}")
    } else if chat.is_shared {
        format!("a group on {platform}, where several people read and write")
    } else {
        format!("a group on {platform}, where others read along")
    };
    format!(
        "You talk with people in {place}. Keep answers short; simple Markdown is shown, wide tables are not. To send a \
         file, write `MEDIA:` and its absolute path on a line of its own. If there is nothing to say, answer [SILENT]."
    )
}
