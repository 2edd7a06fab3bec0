//! From a stored update to the worker of its conversation: decoding, who may, and whether the bot is meant.

pub(super) mod admission;
pub(super) mod deferred;
pub(super) mod group_albums;
pub(super) mod menu_commands;
pub(super) mod own_messages;

use std::{collections::HashSet, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use hermes_store::{SessionKey, runtime::InboxKey};
use tokio::sync::mpsc::{self, error::TrySendError};

use super::{
    InboundCore,
    accounts::intake::StoredUpdate,
    routing::chat::{Chat, LiveAccount},
    session_worker::waiting_turns::WorkerState,
    session_worker::{MAX_WAITING_EVENTS, SessionWorker, WorkerInput},
};
use crate::{
    chat_commands::{self, CommandName},
    platform::{ButtonPress, InboundEvent, InboundKind, PostError},
};

/// How often the confirmation of a button is tried where it tells how old the press is, and the pause between.
const CONFIRM_ATTEMPTS: u32 = 3;
const CONFIRM_PAUSE: Duration = Duration::from_secs(1);

/// The worker of a conversation, as others see it.
pub(super) struct LiveWorker {
    /// Boxed: a channel has room for 32 from the start.
    inputs: mpsc::Sender<Box<WorkerInput>>,
    state: Arc<WorkerState>,
}

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
        let Some(mut chat) = self.admit(account, &mut event, &update).await else {
            return;
        };
        if let InboundKind::Command(call) = &event.kind {
            self.acknowledge(account, &event, None);
            if let Some(meant) = self.find_meant_chat(&chat, &event, call) {
                event.chat = meant.address.clone();
                chat = meant;
            }
        }
        let command = match &event.kind {
            InboundKind::ButtonPress(press) => {
                let command = chat_commands::parse_button(&press.data);
                if command.is_none() {
                    self.take_button_press(&chat, &event, press);
                    self.finish(&update.key).await;
                    return;
                }
                command
            }
            _ => None,
        };
        let input = WorkerInput {
            chat,
            event,
            key: update.key,
            attempts: update.attempts,
            is_left_over: update.is_left_over,
        };
        match command {
            Some(command) => self.take_command_press(input, command.name),
            None => self.place(input).await,
        }
    }

    /// Hands an event over, after opening the thread that its answer belongs to.
    async fn place(self: &Arc<Self>, mut input: WorkerInput) {
        if !self.wants_thread(&input.chat, &input.event) {
            self.hand_over(input).await;
            return;
        }
        // A request to the platform: other chats do not wait for it.
        let core = self.clone();
        self.tasks.spawn(async move {
            if let Some(chat) = core.open_answer_thread(&input.chat, &input.event).await {
                input.chat = chat;
            }
            core.hand_over(input).await;
        });
    }

    /// Gives an event to the worker of its conversation. One for which there is no room stays in the inbox.
    pub(super) async fn hand_over(self: &Arc<Self>, input: WorkerInput) {
        if let Err((input, state)) = self.send_to_worker(input) {
            self.defer(&input, &state).await;
        }
    }

    /// Sends an event to the worker of its conversation, starting one if there is none.
    fn send_to_worker(
        self: &Arc<Self>,
        input: WorkerInput,
    ) -> Result<(), (Box<WorkerInput>, Arc<WorkerState>)> {
        let key = input.chat.key.clone();
        let mut workers = self.workers.lock();
        let worker = workers.entry(key.clone()).or_insert_with(|| {
            let (sender, inputs) = mpsc::channel(MAX_WAITING_EVENTS);
            let state = Arc::new(WorkerState::default());
            let worker = SessionWorker::new(self.clone(), key.clone(), inputs, state.clone());
            let core = self.clone();
            self.tasks.spawn(async move {
                if AssertUnwindSafe(worker.run()).catch_unwind().await.is_err() {
                    tracing::error!(session_key = %key, "worker of a conversation panicked");
                    core.workers.lock().remove(&key);
                }
            });
            LiveWorker {
                inputs: sender,
                state,
            }
        });
        match worker.inputs.try_send(Box::new(input)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(input) | TrySendError::Closed(input)) => {
                // Under the lock, so that the worker does not end meanwhile.
                worker.state.count_deferred();
                Err((input, worker.state.clone()))
            }
        }
    }

    /// The conversations in which a turn goes on.
    pub(super) fn busy_conversations(&self) -> HashSet<SessionKey> {
        let workers = self.workers.lock();
        let busy = workers.iter().filter(|(_, worker)| worker.state.is_busy());
        busy.map(|(key, _)| key.clone()).collect()
    }

    /// Ends a worker, unless something came meanwhile.
    pub(super) fn retire_worker(
        &self,
        key: &SessionKey,
        inputs: &mut mpsc::Receiver<Box<WorkerInput>>,
        state: &WorkerState,
    ) -> bool {
        let mut workers = self.workers.lock();
        let is_idle = inputs.is_empty() && state.queue_length() == 0;
        if is_idle {
            workers.remove(key);
        }
        is_idle
    }

    /// A button that is a command is confirmed before anything else. Telegram does not say when it was pressed; but if
    /// nobody waits for the confirmation any more, that was long ago, and nothing is done.
    fn take_command_press(self: &Arc<Self>, input: WorkerInput, command: CommandName) {
        let core = self.clone();
        self.tasks.spawn(async move {
            let account = &input.chat.account;
            match confirm_press(&input, command).await {
                Err(PostError::TooLate) if command.acts() => {
                    if command != CommandName::Stop {
                        core.mark_expired(account, &input.event).await;
                    }
                    core.finish(&input.key).await;
                    return;
                }
                Err(error) => {
                    tracing::info!(platform = %account.account, %error, "failed to acknowledge a button");
                }
                Ok(()) => {}
            }
            core.hand_over(input).await;
        });
    }

    /// A button is confirmed at once, and what it decides is told to whoever pressed it.
    fn take_button_press(self: &Arc<Self>, chat: &Chat, event: &InboundEvent, press: &ButtonPress) {
        let notice = self.decide_by_button(chat, event, press);
        let (core, account) = (self.clone(), chat.account.clone());
        let event = event.clone();
        self.tasks.spawn(async move {
            let text = Some(notice.text).filter(|text| !text.is_empty());
            let shown = account.client.acknowledge(&event, text).await;
            if let Err(error) = shown {
                tracing::warn!(platform = %account.account, %error, "failed to acknowledge a button");
            }
            if notice.is_expired {
                core.mark_expired(&account, &event).await;
            }
        });
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

/// Confirms the button of a command. After an outage the first requests may fail, and with them what they would tell.
async fn confirm_press(input: &WorkerInput, command: CommandName) -> Result<(), PostError> {
    let tells_age = input.event.sent_at.is_none() && command.acts() && command != CommandName::Stop;
    let mut attempts = if tells_age { CONFIRM_ATTEMPTS } else { 1 };
    loop {
        let confirmed = input.chat.account.client.acknowledge(&input.event, None);
        attempts -= 1;
        match confirmed.await {
            Err(error) if error.is_temporary() && attempts > 0 => {
                tokio::time::sleep(CONFIRM_PAUSE).await;
            }
            confirmed => return confirmed,
        }
    }
}
