//! Follows a turn for its chat: the growing answer, its steps, and approvals.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures::future::{BoxFuture, ready};
use hermes_agent::{conversation::SteeringMessage, model::ModelEvent, turn::TurnEvent};
use hermes_config::sync::Mutex;
use hermes_store::runtime::{ApprovalOutcome, NewApproval};
use tokio::sync::oneshot;

use crate::{
    inbound::{InboundCore, routing::chat::Chat, session_worker::steering::TurnSteering},
    outbound::AnswerFeed,
    runs::{ServerQuestion, TurnObserver, TurnResult},
};

/// Passes what happens in a turn on to the chat.
pub(in crate::inbound) struct ChatObserver {
    core: Arc<InboundCore>,
    chat: Chat,
    feed: AnswerFeed,
    steering: Option<TurnSteering>,
    /// The answer so far.
    said: Mutex<String>,
    /// Whether the next text begins another reply of the model: what was said before a tool call is not the answer.
    begins_reply: AtomicBool,
    ended: Mutex<Option<oneshot::Sender<TurnResult>>>,
}

impl ChatObserver {
    /// An observer, and where the end of the turn arrives.
    pub(in crate::inbound) fn new(
        core: Arc<InboundCore>,
        chat: Chat,
        feed: AnswerFeed,
        steering: Option<TurnSteering>,
    ) -> (Arc<Self>, oneshot::Receiver<TurnResult>) {
        let (ended, end) = oneshot::channel();
        let observer = Self {
            core,
            chat,
            feed,
            steering,
            said: Mutex::default(),
            begins_reply: AtomicBool::new(false),
            ended: Mutex::new(Some(ended)),
        };
        (Arc::new(observer), end)
    }

    /// The answer so far.
    pub(in crate::inbound) fn take_said(&self) -> String {
        std::mem::take(&mut *self.said.lock())
    }

    fn begin_reply(&self) {
        self.said.lock().clear();
        self.feed.begin_reply();
    }
}

impl TurnObserver for ChatObserver {
    fn turn_started(&self, _run: &str) {}

    fn show_event(&self, event: &TurnEvent) {
        match event {
            TurnEvent::Model(ModelEvent::TextDelta(text)) => {
                if self.begins_reply.swap(false, Ordering::Relaxed) {
                    self.begin_reply();
                }
                self.said.lock().push_str(text);
                self.feed.push_text(text);
            }
            TurnEvent::Model(ModelEvent::TextRetracted) => self.begin_reply(),
            TurnEvent::CallStarted(call) => {
                self.begins_reply.store(true, Ordering::Relaxed);
                self.feed.start_step(&call.id, &call.name);
            }
            TurnEvent::CallEnded { call, output, .. } => {
                self.feed.end_step(&call.id, output.is_error);
            }
            _ => {}
        }
    }

    fn take_user_messages(&self) -> BoxFuture<'_, Vec<SteeringMessage>> {
        match &self.steering {
            Some(steering) => Box::pin(steering.take_messages()),
            None => Box::pin(ready(Vec::new())),
        }
    }

    fn approval_opened(&self, approval: &NewApproval, question: Option<ServerQuestion>) {
        self.core.show_approval(&self.chat, approval, question);
    }

    fn approval_closed(&self, id: &str, outcome: ApprovalOutcome) {
        self.core.close_approval(id, outcome);
    }

    fn turn_ended(&self, result: TurnResult) {
        if let Some(ended) = self.ended.lock().take() {
            // Nobody waits any more when the worker was stopped.
            let _ = ended.send(result);
        }
    }
}
