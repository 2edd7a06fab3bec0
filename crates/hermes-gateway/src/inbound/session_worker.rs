//! The worker of one conversation: takes its events in order, runs its turns one after another, and ends when idle.

pub(super) mod background;
pub(super) mod steering;
pub(super) mod turn_handle;
pub(super) mod waiting_turns;

use std::{panic::AssertUnwindSafe, pin::Pin, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use hermes_config::BusyInputMode;
use hermes_store::{SessionKey, runtime::InboxKey};
use tokio::{sync::mpsc, task::JoinHandle, time::Instant};

use self::{
    turn_handle::TurnHandle,
    waiting_turns::{ALBUM_QUIET, MAX_WAITING_TURNS, WaitingTurn, WorkerState},
};
use super::{
    InboundCore, approvals::deciding::MessageUse, routing::chat::Chat, turn::answer_messages,
};
use crate::{
    chat_commands::parse_button,
    platform::{InboundEvent, InboundKind, InboundMessage},
};

/// A worker without work ends after so long.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a turn may take to end when the gateway stops.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Events that wait for a worker. It takes them at once, unless it executes a command. Further ones stay in the inbox.
pub(super) const MAX_WAITING_EVENTS: usize = 1000;
/// Events that are read from the inbox at once when there is room.
const TAKEN_UP_AT_ONCE: usize = 100;
/// What is older than this does not act.
const MAX_COMMAND_AGE_SECONDS: f64 = 60.0;

/// An admitted event of a conversation.
#[derive(Clone)]
pub(super) struct WorkerInput {
    pub(super) chat: Chat,
    pub(super) event: InboundEvent,
    pub(super) key: InboxKey,
    /// How often it was begun before this process.
    pub(super) attempts: i64,
    /// An earlier process may have answered it.
    pub(super) is_left_over: bool,
}

impl WorkerInput {
    pub(super) fn message(&self) -> Option<&InboundMessage> {
        match &self.event.kind {
            InboundKind::Message(message) => Some(message),
            _ => None,
        }
    }

    /// Whether it is too old to act, as a command or an approval.
    pub(super) fn is_stale(&self) -> bool {
        is_stale(&self.event, &self.chat)
    }
}

/// Whether an event is too old to act.
pub(super) fn is_stale(event: &InboundEvent, chat: &Chat) -> bool {
    let sent_at = event.sent_at;
    sent_at.is_some_and(|sent_at| chat.platform_time() - sent_at > MAX_COMMAND_AGE_SECONDS)
}

pub(super) struct SessionWorker {
    core: Arc<InboundCore>,
    key: SessionKey,
    inputs: mpsc::Receiver<Box<WorkerInput>>,
    state: Arc<WorkerState>,
    /// As the last event showed it.
    chat: Option<Chat>,
    turn: Option<JoinHandle<()>>,
    /// A command that is being executed. What comes after it waits.
    command: Option<BoxFuture<'static, ()>>,
}

enum WorkerStep {
    Input(Box<WorkerInput>),
    TurnEnded,
    CommandEnded,
    AlbumComplete,
    /// Something was left in the inbox, or there is room for it now.
    DeferredChanged,
    Idle,
    Stopped,
}

impl SessionWorker {
    pub(super) fn new(
        core: Arc<InboundCore>,
        key: SessionKey,
        inputs: mpsc::Receiver<Box<WorkerInput>>,
        state: Arc<WorkerState>,
    ) -> Self {
        Self {
            core,
            key,
            inputs,
            state,
            chat: None,
            turn: None,
            command: None,
        }
    }

    /// Works until there is nothing to do for a while, or the gateway stops.
    pub(super) async fn run(mut self) {
        loop {
            // Boxed: a worker without work is small.
            Box::pin(self.take_up_deferred()).await;
            self.start_next();
            match self.next_step().await {
                WorkerStep::Input(input) => Box::pin(self.take_input(*input)).await,
                WorkerStep::TurnEnded => {
                    self.turn = None;
                    self.state.set_current(None);
                }
                WorkerStep::CommandEnded => self.command = None,
                WorkerStep::AlbumComplete | WorkerStep::DeferredChanged => {}
                WorkerStep::Idle => {
                    let (key, inputs) = (&self.key, &mut self.inputs);
                    if self.core.retire_worker(key, inputs, &self.state) {
                        return;
                    }
                }
                WorkerStep::Stopped => break,
            }
        }
        if let Some(turn) = self.turn.take()
            && tokio::time::timeout(STOP_GRACE, turn).await.is_err()
        {
            tracing::warn!(session_key = %self.key, "turn did not end with the gateway");
        }
    }

    async fn next_step(&mut self) -> WorkerStep {
        let stop = self.core.stop.clone();
        let is_free = self.turn.is_none() && self.command.is_none();
        let album_end = self.state.album_end().filter(|_| is_free);
        let is_idle = is_free && self.state.queue_length() == 0;
        let takes_input = self.command.is_none();
        let turn_end = async {
            match &mut self.turn {
                Some(turn) => {
                    // It catches its own panics.
                    let _ = turn.await;
                }
                None => std::future::pending().await,
            }
        };
        let command_end = async {
            match &mut self.command {
                Some(command) => Pin::new(command).await,
                None => std::future::pending().await,
            }
        };
        let album_end = async {
            match album_end {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let idle = async {
            if is_idle {
                tokio::time::sleep(IDLE_TIMEOUT).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => WorkerStep::Stopped,
            () = command_end => WorkerStep::CommandEnded,
            input = self.inputs.recv(), if takes_input => match input {
                Some(input) => WorkerStep::Input(input),
                None => WorkerStep::Stopped,
            },
            () = turn_end => WorkerStep::TurnEnded,
            () = self.state.wait_for_deferred() => WorkerStep::DeferredChanged,
            () = album_end => WorkerStep::AlbumComplete,
            () = idle => WorkerStep::Idle,
        }
    }

    /// Starts the turn that waits first, if nothing goes on and it is complete.
    fn start_next(&mut self) {
        if self.turn.is_some() || self.command.is_some() {
            return;
        }
        if let Some(turn) = self.state.take_ready() {
            let handle = Arc::new(TurnHandle::default());
            self.state.set_current(Some(handle.clone()));
            let state = Some(self.state.clone());
            self.turn = Some(self.core.spawn_turn(turn, handle, state));
        }
    }

    /// Takes an event. A message that has no room stays in the inbox.
    async fn take_input(&mut self, input: WorkerInput) {
        self.chat = Some(input.chat.clone());
        let Some(message) = self.take_event(input).await else {
            return;
        };
        if self.state.is_full() {
            self.state.count_deferred();
            self.core.defer(&message, &self.state).await;
            return;
        }
        let place = self.queue_message(message.clone());
        if let (Some(place), Some(_)) = (place, &self.turn) {
            self.tell_busy(&message, place).await;
        }
    }

    /// Takes events from the inbox for which there was no room when they came. Those that wait for this worker came
    /// before them, or are left in the inbox too.
    async fn take_up_deferred(&mut self) {
        while self.command.is_none() && self.inputs.is_empty() {
            if let Some(input) = self.state.next_taken_up() {
                if let Some(message) = self.take_event(input).await {
                    self.queue_message(message);
                }
                self.state.discount_deferred(1);
                continue;
            }
            let room = MAX_WAITING_TURNS.saturating_sub(self.state.waiting_count());
            let (Some(chat), true) = (&self.chat, self.state.deferred_count() > 0 && room > 0)
            else {
                return;
            };
            let most = room.min(TAKEN_UP_AT_ONCE);
            let taken = self.core.take_deferred(chat, most, &self.state).await;
            if taken.is_empty() {
                // Being written: that is announced.
                return;
            }
            self.state.add_taken_up(taken);
        }
    }

    /// Deals with an event at once, unless it is a message for the model.
    async fn take_event(&mut self, input: WorkerInput) -> Option<WorkerInput> {
        if matches!(input.event.kind, InboundKind::StopPressed) {
            if !input.is_stale() {
                self.state.stop_turn(&self.core);
            }
            self.core.finish(&input.key).await;
            return None;
        }
        if let InboundKind::ButtonPress(press) = &input.event.kind
            && let Some(request) = parse_button(&press.data)
        {
            self.command = Some(self.core.begin_button_command(input, request, &self.state));
            return None;
        }
        let input = match self.core.begin_command(input, &self.state) {
            Ok(command) => {
                self.command = Some(command);
                return None;
            }
            Err(input) => *input,
        };
        if input.message().is_none() {
            self.core.finish(&input.key).await;
            return None;
        }
        match self.core.decide_by_message(&input, &self.state).await {
            MessageUse::Answer => {
                self.core.finish(&input.key).await;
                None
            }
            MessageUse::Aside if !self.state.is_full() => {
                if let Some(place) = self.queue_message(input.clone()) {
                    self.core.tell_queued(&input, place).await;
                }
                None
            }
            MessageUse::Aside | MessageUse::Other => Some(input),
        }
    }

    /// Adds a message to what waits. Returns its place, unless it belongs to an album that waits already.
    fn queue_message(&self, input: WorkerInput) -> Option<usize> {
        let input = *self.state.add_to_album(input).err()?;
        let album = input.message().and_then(|message| message.album_id.clone());
        let turn = WaitingTurn {
            album: album.map(|album| (album, Instant::now() + ALBUM_QUIET)),
            ..WaitingTurn::new(input)
        };
        Some(self.state.push(turn))
    }

    /// A message came while a turn goes on.
    async fn tell_busy(&mut self, input: &WorkerInput, place: usize) {
        match self.core.busy_mode() {
            BusyInputMode::Interrupt => {
                self.state.stop_turn(&self.core);
            }
            BusyInputMode::Queue => self.core.tell_queued(input, place).await,
            // The turn takes it with its next request.
            BusyInputMode::Steer => {}
        }
    }
}

impl InboundCore {
    async fn tell_queued(&self, input: &WorkerInput, place: usize) {
        let text = format!("Queued, place {place}.");
        let key = super::dedupe_key("queued", &input.key);
        self.reply(&input.chat, &input.event, &text, &key).await;
    }

    /// Runs a turn as a task of its own. A panic ends only that turn. With a state, what waits there may join it.
    pub(super) fn spawn_turn(
        self: &Arc<Self>,
        turn: WaitingTurn,
        handle: Arc<TurnHandle>,
        state: Option<Arc<WorkerState>>,
    ) -> JoinHandle<()> {
        let core = self.clone();
        self.tasks.spawn(async move {
            let inputs = turn.inputs.clone();
            let answering = answer_messages(core.clone(), turn, handle.clone(), state);
            if AssertUnwindSafe(answering).catch_unwind().await.is_ok() {
                return;
            }
            tracing::error!("turn of a chat panicked: this is a bug in hermes");
            if let Some(input) = inputs.first() {
                let key = super::dedupe_key("answer", &input.key);
                let text = "Something went wrong here, and your message was not answered. This is a bug in hermes.";
                core.reply(&input.chat, &input.event, text, &key).await;
            }
            for input in inputs.iter().chain(&handle.joined()) {
                core.finish(&input.key).await;
            }
        })
    }
}

#[cfg(test)]
mod tests;
