//! The worker of one conversation: takes its events in order, runs its turns one after another, and ends when idle.

use std::{collections::VecDeque, panic::AssertUnwindSafe, pin::Pin, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use hermes_agent::message::Content;
use hermes_config::{BusyInputMode, sync::Mutex};
use hermes_store::{SessionId, SessionKey, epoch_seconds, runtime::InboxKey};
use tokio::{sync::mpsc, task::JoinHandle, time::Instant};

use super::{
    InboundCore,
    chat::Chat,
    turn::{TurnHandle, answer_messages},
};
use crate::{
    chat_commands::parse_button,
    platform::{InboundEvent, InboundKind, InboundMessage},
};

/// Pictures of an album come as messages of their own; after so long without another one it is complete.
const ALBUM_QUIET: Duration = Duration::from_millis(1500);
/// A worker without work ends after so long.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a turn may take to end when the gateway stops.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Events that wait for a worker. It takes them at once, so this is only reached by a flood.
pub(super) const MAX_WAITING_EVENTS: usize = 1000;
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
        is_stale(&self.event)
    }
}

/// Whether an event is too old to act.
pub(super) fn is_stale(event: &InboundEvent) -> bool {
    let sent_at = event.sent_at;
    sent_at.is_some_and(|sent_at| epoch_seconds() - sent_at > MAX_COMMAND_AGE_SECONDS)
}

/// What one turn will answer.
pub(super) struct WaitingTurn {
    /// Several for an album.
    pub(super) inputs: Vec<WorkerInput>,
    /// What is said instead of what the inputs say.
    pub(super) content: Option<Content>,
    /// The session, if it is not the one of the chat.
    pub(super) session: Option<SessionId>,
    /// An album that may grow until then.
    pub(super) album: Option<(String, Instant)>,
}

impl WaitingTurn {
    pub(super) fn new(input: WorkerInput) -> Self {
        Self {
            inputs: vec![input],
            content: None,
            session: None,
            album: None,
        }
    }

    fn is_ready(&self) -> bool {
        let album = self.album.as_ref();
        album.is_none_or(|(_, until)| *until <= Instant::now())
    }
}

/// What goes on in a conversation, and what waits. Commands see and change it.
#[derive(Default)]
pub(super) struct WorkerState {
    current: Mutex<Option<Arc<TurnHandle>>>,
    waiting: Mutex<VecDeque<WaitingTurn>>,
}

impl WorkerState {
    /// Stops the turn that goes on. Returns whether there was one.
    pub(super) fn stop_turn(&self, core: &InboundCore) -> bool {
        let current = self.current.lock().clone();
        if let Some(current) = &current {
            current.stop(core.gateway.runs());
        }
        current.is_some()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.current.lock().is_some()
    }

    pub(super) fn waiting_count(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Adds a turn. Returns its place; 1 is the next.
    pub(super) fn push(&self, turn: WaitingTurn) -> usize {
        let mut waiting = self.waiting.lock();
        waiting.push_back(turn);
        waiting.len()
    }

    /// Takes everything that waits.
    pub(super) fn take_waiting(&self) -> Vec<WaitingTurn> {
        self.waiting.lock().drain(..).collect()
    }

    fn take_ready(&self) -> Option<WaitingTurn> {
        let mut waiting = self.waiting.lock();
        if !waiting.front()?.is_ready() {
            return None;
        }
        waiting.pop_front()
    }

    /// Adds a picture to the album that waits last, if it belongs there.
    fn add_to_album(&self, input: WorkerInput) -> Result<(), Box<WorkerInput>> {
        let album = input
            .message()
            .and_then(|message| message.album_id.as_ref());
        let mut waiting = self.waiting.lock();
        match (album, waiting.back_mut()) {
            (
                Some(album),
                Some(WaitingTurn {
                    album: Some((last, until)),
                    inputs,
                    ..
                }),
            ) if last == album => {
                *until = Instant::now() + ALBUM_QUIET;
                inputs.push(input);
                Ok(())
            }
            _ => Err(Box::new(input)),
        }
    }

    /// When the album that waits first is complete.
    fn album_end(&self) -> Option<Instant> {
        let waiting = self.waiting.lock();
        Some(waiting.front()?.album.as_ref()?.1)
    }
}

pub(super) struct SessionWorker {
    core: Arc<InboundCore>,
    key: SessionKey,
    inputs: mpsc::Receiver<WorkerInput>,
    state: Arc<WorkerState>,
    turn: Option<JoinHandle<()>>,
    /// A command that is being executed. What comes after it waits.
    command: Option<BoxFuture<'static, ()>>,
}

enum WorkerStep {
    Input(Box<WorkerInput>),
    TurnEnded,
    CommandEnded,
    AlbumComplete,
    Idle,
    Stopped,
}

impl SessionWorker {
    pub(super) fn new(
        core: Arc<InboundCore>,
        key: SessionKey,
        inputs: mpsc::Receiver<WorkerInput>,
    ) -> Self {
        Self {
            core,
            key,
            inputs,
            state: Arc::default(),
            turn: None,
            command: None,
        }
    }

    /// Works until there is nothing to do for a while, or the gateway stops.
    pub(super) async fn run(mut self) {
        loop {
            self.start_next();
            match self.next_step().await {
                WorkerStep::Input(input) => self.take_input(*input).await,
                WorkerStep::TurnEnded => {
                    self.turn = None;
                    *self.state.current.lock() = None;
                }
                WorkerStep::CommandEnded => self.command = None,
                WorkerStep::AlbumComplete => {}
                WorkerStep::Idle => {
                    if self.core.retire_worker(&self.key, &mut self.inputs) {
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
        let is_idle = is_free && self.state.waiting_count() == 0;
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
                Some(input) => WorkerStep::Input(Box::new(input)),
                None => WorkerStep::Stopped,
            },
            () = turn_end => WorkerStep::TurnEnded,
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
            *self.state.current.lock() = Some(handle.clone());
            self.turn = Some(self.core.spawn_turn(turn, handle));
        }
    }

    async fn take_input(&mut self, input: WorkerInput) {
        if matches!(input.event.kind, InboundKind::StopPressed) {
            if !input.is_stale() {
                self.state.stop_turn(&self.core);
            }
            self.core.finish(&input.key).await;
            return;
        }
        if let InboundKind::ButtonPress(press) = &input.event.kind
            && let Some(request) = parse_button(&press.data)
        {
            self.command = Some(self.core.begin_button_command(input, request, &self.state));
            return;
        }
        let input = match self.core.begin_command(input, &self.state) {
            Ok(command) => {
                self.command = Some(command);
                return;
            }
            Err(input) => *input,
        };
        if input.message().is_none() || self.core.decide_by_word(&input, &self.state).await {
            self.core.finish(&input.key).await;
            return;
        }
        self.take_message(input).await;
    }

    async fn take_message(&mut self, input: WorkerInput) {
        let Err(input) = self.state.add_to_album(input) else {
            return;
        };
        let album = input.message().and_then(|message| message.album_id.clone());
        let turn = WaitingTurn {
            album: album.map(|album| (album, Instant::now() + ALBUM_QUIET)),
            ..WaitingTurn::new(WorkerInput::clone(&input))
        };
        let place = self.state.push(turn);
        if self.turn.is_none() {
            return;
        }
        match self.core.busy_mode() {
            BusyInputMode::Interrupt => {
                self.state.stop_turn(&self.core);
            }
            BusyInputMode::Queue | BusyInputMode::Steer => {
                let text = format!("Queued, place {place}.");
                let key = super::dedupe_key("queued", &input.key);
                self.core
                    .reply(&input.chat, &input.event, &text, &key)
                    .await;
            }
        }
    }
}

impl InboundCore {
    /// Runs a turn as a task of its own. A panic ends only that turn.
    pub(super) fn spawn_turn(
        self: &Arc<Self>,
        turn: WaitingTurn,
        handle: Arc<TurnHandle>,
    ) -> JoinHandle<()> {
        let core = self.clone();
        self.tasks.spawn(async move {
            let first = turn.inputs.first().cloned();
            let answering = answer_messages(core.clone(), turn, handle);
            if AssertUnwindSafe(answering).catch_unwind().await.is_ok() {
                return;
            }
            tracing::error!("turn of a chat panicked: this is a bug in hermes");
            if let Some(input) = first {
                let key = super::dedupe_key("answer", &input.key);
                let text = "Something went wrong here, and your message was not answered. This is a bug in hermes.";
                core.reply(&input.chat, &input.event, text, &key).await;
                core.finish(&input.key).await;
            }
        })
    }
}
