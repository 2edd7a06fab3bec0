//! From a stored update to the worker of its conversation: decoding, who may, and whether the bot is meant.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt as _;
use hermes_agent::approval::{SubmitOutcome, SubmittedDecision};
use hermes_store::{SessionKey, runtime::InboxKey};
use tokio::sync::mpsc;

use super::{
    InboundCore,
    approval_cards::parse_button,
    chat::{Chat, LiveAccount},
    intake::StoredUpdate,
    session_worker::{MAX_WAITING_EVENTS, SessionWorker, WorkerInput, is_stale},
    user_content::sender_name,
};
use crate::{
    chat_commands,
    platform::{ButtonPress, InboundEvent, InboundKind, Sender},
};

impl InboundCore {
    /// Takes an update on its way. Whatever happens, the next one follows.
    pub(super) async fn dispatch(
        self: &Arc<Self>,
        account: &Arc<LiveAccount>,
        update: StoredUpdate,
    ) {
        let key = update.key.clone();
        if !self.taken.lock().insert(key.clone()) {
            return;
        }
        let work = AssertUnwindSafe(self.dispatch_update(account, update)).catch_unwind();
        if work.await.is_err() {
            tracing::error!(platform = %account.account, event = key.event_id, "update could not be handled: this is a bug in hermes");
            self.finish(&key).await;
        }
    }

    async fn dispatch_update(self: &Arc<Self>, account: &Arc<LiveAccount>, update: StoredUpdate) {
        let Some(mut event) = account.client.decode(&update.payload) else {
            self.forget(&update.key).await;
            return;
        };
        if let InboundKind::ChatMigrated { new_id } = &event.kind {
            self.migrate_chat(account, &event.chat.id, new_id).await;
            self.finish(&update.key).await;
            return;
        }
        let Some(chat) = self.admit(account, &mut event, &update).await else {
            return;
        };
        if let InboundKind::ButtonPress(press) = &event.kind {
            let is_command = chat_commands::parse_button(&press.data).is_some();
            self.take_button_press(&chat, &event, press, is_command);
            if !is_command {
                self.finish(&update.key).await;
                return;
            }
        }
        let input = WorkerInput {
            chat,
            event,
            key: update.key,
            attempts: update.attempts,
        };
        self.place(input);
    }

    /// Hands an event over, after opening the thread that its answer belongs to.
    fn place(self: &Arc<Self>, mut input: WorkerInput) {
        if !self.wants_thread(&input.chat, &input.event) {
            self.hand_over(input);
            return;
        }
        // A request to the platform: other chats do not wait for it.
        let core = self.clone();
        self.tasks.spawn(async move {
            if let Some(chat) = core.open_answer_thread(&input.chat, &input.event).await {
                input.chat = chat;
            }
            core.hand_over(input);
        });
    }

    /// Gives an event to the worker of its conversation, starting one if there is none.
    pub(super) fn hand_over(self: &Arc<Self>, input: WorkerInput) {
        let key = input.chat.key.clone();
        let mut workers = self.workers.lock();
        let worker = workers.entry(key.clone()).or_insert_with(|| {
            let (sender, inputs) = mpsc::channel(MAX_WAITING_EVENTS);
            let worker = SessionWorker::new(self.clone(), key.clone(), inputs);
            let core = self.clone();
            self.tasks.spawn(async move {
                if AssertUnwindSafe(worker.run()).catch_unwind().await.is_err() {
                    tracing::error!(session_key = %key, "worker of a conversation panicked");
                    core.workers.lock().remove(&key);
                }
            });
            sender
        });
        if let Err(error) = worker.try_send(input) {
            // It stays in the inbox, and is found when the account is started next.
            tracing::error!(%error, "too many messages wait in a conversation");
            let (mpsc::error::TrySendError::Full(input) | mpsc::error::TrySendError::Closed(input)) =
                error;
            self.taken.lock().remove(&input.key);
        }
    }

    /// Ends a worker, unless something came meanwhile.
    pub(super) fn retire_worker(
        &self,
        key: &SessionKey,
        inputs: &mut mpsc::Receiver<WorkerInput>,
    ) -> bool {
        let mut workers = self.workers.lock();
        let is_idle = inputs.is_empty();
        if is_idle {
            workers.remove(key);
        }
        is_idle
    }

    /// A button is confirmed at once, and what it decides is told to whoever pressed it.
    fn take_button_press(
        self: &Arc<Self>,
        chat: &Chat,
        event: &InboundEvent,
        press: &ButtonPress,
        is_command: bool,
    ) {
        let notice = if is_command {
            ButtonNotice::new("")
        } else {
            self.decide_by_button(chat, event, press)
        };
        let (core, account) = (self.clone(), chat.account.clone());
        let event = event.clone();
        self.tasks.spawn(async move {
            let text = Some(notice.text.as_str()).filter(|text| !text.is_empty());
            let shown = account.client.acknowledge(&event, text).await;
            if let Err(error) = shown {
                tracing::warn!(platform = %account.account, %error, "failed to acknowledge a button");
            }
            if notice.is_expired {
                core.mark_expired(&account, &event).await;
            }
        });
    }

    fn decide_by_button(
        &self,
        chat: &Chat,
        event: &InboundEvent,
        press: &ButtonPress,
    ) -> ButtonNotice {
        let Some((answer, id)) = parse_button(&press.data) else {
            return ButtonNotice::new("This button does nothing any more.");
        };
        let account = &chat.account.account;
        if is_stale(event) || !self.cards.is_in_chat(id, account, &chat.address.id) {
            return ButtonNotice::expired();
        }
        let decision = SubmittedDecision {
            answer,
            by: decided_by(event.sender.as_ref(), chat),
            reason: None,
        };
        match self.gateway.runs().decide_approval(id, decision) {
            SubmitOutcome::Accepted => ButtonNotice::new("Done."),
            SubmitOutcome::NotPermanent => {
                ButtonNotice::new("This cannot be allowed permanently. Choose another answer.")
            }
            SubmitOutcome::NotWaiting | SubmitOutcome::Refused => ButtonNotice::expired(),
        }
    }

    /// Marks an update as done.
    pub(super) async fn finish(&self, key: &InboxKey) {
        if let Err(error) = self.gateway.store().finish_update(key).await {
            tracing::error!(event = key.event_id, %error, "failed to mark an update as done");
        }
        self.taken.lock().remove(key);
    }

    /// Whether this process works on an update.
    pub(super) fn is_taken(&self, key: &InboxKey) -> bool {
        self.taken.lock().contains(key)
    }

    /// The same for an update whose content is nobody's business.
    pub(super) async fn forget(&self, key: &InboxKey) {
        if let Err(error) = self.gateway.store().drop_update_payload(key).await {
            tracing::error!(event = key.event_id, %error, "failed to drop an update");
        }
        self.taken.lock().remove(key);
    }
}

/// What somebody sees who pressed a button.
struct ButtonNotice {
    text: String,
    /// Whether the message of the button is out of date.
    is_expired: bool,
}

impl ButtonNotice {
    fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            is_expired: false,
        }
    }

    fn expired() -> Self {
        Self {
            text: "This request has expired.".to_owned(),
            is_expired: true,
        }
    }
}

/// Who decided, for the record and for the chat.
pub(super) fn decided_by(sender: Option<&Sender>, chat: &Chat) -> String {
    let platform = chat.account.account.platform;
    match sender {
        Some(sender) => format!("{} ({platform})", sender_name(sender)),
        None => platform.to_string(),
    }
}
