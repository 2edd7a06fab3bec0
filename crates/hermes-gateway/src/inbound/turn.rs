//! One turn of a chat: from the messages it answers to the answer in the outbox.

use std::sync::Arc;

use hermes_agent::{message::Content, model::ModelOverrides};
use hermes_config::sync::Mutex;
use hermes_store::{SessionId, StoreError, epoch_seconds};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    InboundCore,
    chat::Chat,
    chat_observer::ChatObserver,
    media::{self, ReceivedFile},
    recovery::{self, StoredProgress},
    session_worker::{WaitingTurn, WorkerInput},
    sessions::OpenedSession,
    user_content::{self, Audience, ReceivedMessage},
};
use crate::{
    outbound::{AnswerRequest, AnswerStream, QueuedReply, StreamMode, is_silence},
    platform::AttachmentKind,
    runs::{ChatSurface, RunInput, RunSource, Runs, StartError, TurnRequest, TurnResult},
};

/// Stops a turn, however far it is.
#[derive(Default)]
pub(super) struct TurnHandle {
    /// Cancelled before the run has begun.
    preparing: CancellationToken,
    run: Mutex<Option<String>>,
}

impl TurnHandle {
    pub(super) fn stop(&self, runs: &Runs) {
        self.preparing.cancel();
        let run = self.run.lock().clone();
        if let Some(run) = run {
            runs.abandon(&run);
        }
    }

    /// The run of the turn. If it was to stop before, it stops now.
    fn set_run(&self, run: &str, runs: &Runs) {
        *self.run.lock() = Some(run.to_owned());
        if self.preparing.is_cancelled() {
            runs.abandon(run);
        }
    }
}

/// Why a turn could not be run.
#[derive(Debug, thiserror::Error)]
enum ChatTurnError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Answers messages. Whatever goes wrong is told to the user in one sentence.
pub(super) async fn answer_messages(
    core: Arc<InboundCore>,
    waiting: WaitingTurn,
    handle: Arc<TurnHandle>,
) {
    let Some(first) = waiting.inputs.first() else {
        return;
    };
    let turn = ChatTurn {
        chat: first.chat.clone(),
        dedupe_key: super::dedupe_key("answer", &first.key),
        core,
        inputs: &waiting.inputs,
        content: waiting.content.as_ref(),
        session: waiting.session.as_ref(),
        handle: &handle,
    };
    match turn.run().await {
        Ok(TurnProgress::Done) => turn.finish().await,
        Ok(TurnProgress::Interrupted) => turn.core.routing.mark_resume_pending(&turn.chat.key),
        Err(ChatTurnError::Start(StartError::Stopping)) => {}
        Err(error) => {
            tracing::error!(session_key = %turn.chat.key, %error, "turn of a chat failed");
            let text = "Something went wrong here and your message was not answered. It is in the log of the gateway.";
            turn.reply(text).await;
            turn.finish().await;
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
    inputs: &'a [WorkerInput],
    /// What is said instead of what the inputs say.
    content: Option<&'a Content>,
    /// The session, if it is not the one of the chat.
    session: Option<&'a SessionId>,
    handle: &'a TurnHandle,
    dedupe_key: String,
}

impl ChatTurn<'_> {
    async fn run(&self) -> Result<TurnProgress, ChatTurnError> {
        let mut is_new = false;
        for input in self.inputs {
            is_new |= self
                .core
                .gateway
                .store()
                .start_update(&input.key, Some(&self.chat.key))
                .await?;
        }
        if !is_new {
            return Ok(TurnProgress::Done);
        }
        self.show_receipt();
        let prepared = tokio::select! {
            prepared = self.prepare() => prepared?,
            () = self.handle.preparing.cancelled() => None,
        };
        match prepared {
            Some(prepared) => self.run_prepared(prepared).await,
            None => Ok(TurnProgress::Done),
        }
    }

    /// Adds a reaction to the message, where that is wanted.
    fn show_receipt(&self) {
        let (Some(message_id), true) =
            (self.message_id(), self.chat.account.settings.has_reactions)
        else {
            return;
        };
        let chat = self.chat.clone();
        self.core.tasks.spawn(async move {
            let client = &chat.account.client;
            if let Err(error) = client.react(&chat.address, &message_id, RECEIPT).await {
                tracing::debug!(session_key = %chat.key, %error, "reaction was not added");
            }
        });
    }

    /// What the turn begins with; `None` if there is nothing to ask the model.
    async fn prepare(&self) -> Result<Option<PreparedTurn>, ChatTurnError> {
        let session = match self.session {
            Some(id) => OpenedSession {
                id: id.clone(),
                notice: None,
            },
            None => self.core.open_session(&self.chat).await?,
        };
        let attempts = self.inputs.iter().map(|input| input.attempts).max();
        let message_id = self.message_id();
        if attempts.unwrap_or_default() > 0 {
            let progress = recovery::find_progress(
                self.core.gateway.agent().store(),
                &session.id,
                message_id.as_deref(),
                attempts.unwrap_or_default(),
            );
            match progress.await? {
                StoredProgress::Nothing => {}
                StoredProgress::Answered(text) => {
                    self.reply(&text).await;
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
                StoredProgress::Interrupted | StoredProgress::Superseded => return Ok(None),
                StoredProgress::TooOften => {
                    let text =
                        "I could not answer this: the gateway stopped twice while I worked on it.";
                    self.reply(text).await;
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
        let received = self.receive_messages().await;
        if self.is_voice_alone() {
            let text = "I cannot listen to voice messages: no transcription engine is set up here. Please write to me.";
            self.reply(text).await;
            return Ok(None);
        }
        let audience = Audience {
            is_shared: self.chat.is_shared,
            supports_images: self.supports_images(&received).await,
        };
        let built = user_content::build_content(&received, audience, epoch_seconds());
        Ok(Some(PreparedTurn {
            session: session.id,
            input: Some(built.content),
            note: match (session.notice, built.note) {
                (Some(notice), Some(note)) => Some(format!("{notice}\n\n{note}")),
                (notice, note) => notice.or(note),
            },
        }))
    }

    async fn receive_messages(&self) -> Vec<ReceivedMessage<'_>> {
        let client = &*self.chat.account.client;
        let home = self.core.gateway.home();
        let mut received = Vec::with_capacity(self.inputs.len());
        for input in self.inputs {
            let Some(message) = input.message() else {
                continue;
            };
            let files = media::receive_files(client, home, &message.attachments).await;
            received.push(ReceivedMessage {
                event: &input.event,
                message,
                files,
            });
        }
        received
    }

    /// Whether somebody spoke and wrote nothing.
    fn is_voice_alone(&self) -> bool {
        let mut messages = self
            .inputs
            .iter()
            .filter_map(WorkerInput::message)
            .peekable();
        messages.peek().is_some()
            && messages.all(|message| {
                message.text.trim().is_empty()
                    && !message.attachments.is_empty()
                    && message
                        .attachments
                        .iter()
                        .all(|attachment| attachment.kind == AttachmentKind::Voice)
            })
    }

    /// Whether the model of this chat sees pictures; only asked if there is one.
    async fn supports_images(&self, received: &[ReceivedMessage<'_>]) -> bool {
        let is_image = |file: &ReceivedFile| matches!(file, ReceivedFile::Image { .. });
        if !received
            .iter()
            .any(|message| message.files.iter().any(is_image))
        {
            return false;
        }
        let (model, provider) = self.core.chosen_model(&self.chat.key);
        let overrides = ModelOverrides {
            model,
            provider,
            ..ModelOverrides::default()
        };
        let found = self.core.gateway.agent().find_model(&overrides).await;
        found.is_ok_and(|selection| selection.endpoint.supports_images)
    }

    fn message_id(&self) -> Option<String> {
        let message = self.inputs.first()?.message()?;
        Some(message.id.clone())
    }

    async fn run_prepared(&self, prepared: PreparedTurn) -> Result<TurnProgress, ChatTurnError> {
        let stream = self.core.outbox.open_answer(self.answer_request());
        let (observer, end) =
            ChatObserver::new(self.core.clone(), self.chat.clone(), stream.feed());
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
        self.finish_answer(stream, result, &observer.take_said())
            .await
    }

    fn answer_request(&self) -> AnswerRequest {
        let message_id = self.message_id();
        let reply = self
            .core
            .new_reply(&self.chat, "", message_id.as_deref(), &self.dedupe_key);
        AnswerRequest {
            account: reply.account,
            chat: reply.chat,
            reply_to: reply.reply_to,
            event: self.inputs.first().map(|input| input.event.clone()),
            dedupe_key: reply.dedupe_key,
            mode: if self.chat.account.settings.is_streaming {
                StreamMode::On
            } else {
                StreamMode::Off
            },
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
        let message_id = self.message_id();
        let reply = QueuedReply {
            first_posted: finished.first_posted,
            ..self
                .core
                .new_reply(&self.chat, &text, message_id.as_deref(), &self.dedupe_key)
        };
        self.core.outbox.queue_reply(reply).await?;
        Ok(TurnProgress::Done)
    }

    async fn reply(&self, text: &str) {
        let message_id = self.message_id();
        self.core
            .queue_text(&self.chat, text, message_id.as_deref(), &self.dedupe_key)
            .await;
    }

    /// The messages have been dealt with.
    async fn finish(&self) {
        for input in self.inputs {
            self.core.finish(&input.key).await;
        }
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
