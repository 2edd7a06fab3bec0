//! The event log of a run: written to the store, and from there read by watchers, stored events first, then live ones.
//!
//! A turn must not wait for a disk, so it passes events to a [`EventWriter`], which stores them in order and then announces
//! them. Text deltas in quick succession are joined to one event.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hermes_store::{
    StoreError, epoch_seconds,
    runtime::{RunEvent, RunStatus, RuntimeStore},
};
use serde_json::{Map, Value, json};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

const TEXT_JOIN_WINDOW: Duration = Duration::from_millis(25);

/// How much of a run is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RunProgress {
    pub(super) last: i64,
    pub(super) is_over: bool,
}

enum LogEntry {
    Text(String),
    Event(Map<String, Value>, Option<RunStatus>),
    End,
}

/// The sending side. Clones write to the same run.
#[derive(Clone)]
pub(super) struct RunLog {
    run: Arc<str>,
    /// Unbounded, since a turn cannot wait here: the output of a model and its tools is the bound.
    entries: mpsc::UnboundedSender<LogEntry>,
    waiting: Arc<AtomicUsize>,
}

/// The receiving side: stores events.
pub(super) struct EventWriter {
    run: Arc<str>,
    store: RuntimeStore,
    entries: mpsc::UnboundedReceiver<LogEntry>,
    progress: watch::Sender<RunProgress>,
}

pub(super) fn new_log(
    run: &str,
    store: RuntimeStore,
    progress: watch::Sender<RunProgress>,
) -> (RunLog, EventWriter) {
    // See `RunLog::entries`.
    let (sender, entries) = mpsc::unbounded_channel();
    let run: Arc<str> = run.into();
    let log = RunLog {
        run: run.clone(),
        entries: sender,
        waiting: Arc::default(),
    };
    let writer = EventWriter {
        run,
        store,
        entries,
        progress,
    };
    (log, writer)
}

pub(super) fn event_body(run: &str, name: &str, members: Value) -> Map<String, Value> {
    let mut event = Map::new();
    event.insert("event".into(), name.into());
    event.insert("run_id".into(), run.into());
    event.insert("timestamp".into(), json!(epoch_seconds()));
    if let Value::Object(members) = members {
        event.extend(members);
    }
    event
}

impl RunLog {
    pub(super) fn text(&self, text: String) {
        self.push(LogEntry::Text(text));
    }

    pub(super) fn event(&self, name: &str, members: Value) {
        self.push(LogEntry::Event(event_body(&self.run, name, members), None));
    }

    pub(super) fn started(&self, session: Option<&str>) {
        let event = event_body(&self.run, "run.started", json!({"session_id": session}));
        self.push(LogEntry::Event(event, Some(RunStatus::Running)));
    }

    pub(super) fn approval_requested(&self, members: Value) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let event = event_body(&self.run, "approval.request", members);
        self.push(LogEntry::Event(event, Some(RunStatus::WaitingForApproval)));
    }

    pub(super) fn approval_decided(&self, members: Value) {
        let is_last = self.waiting.fetch_sub(1, Ordering::Relaxed) == 1;
        let event = event_body(&self.run, "approval.responded", members);
        self.push(LogEntry::Event(
            event,
            is_last.then_some(RunStatus::Running),
        ));
    }

    pub(super) fn end(&self) {
        self.push(LogEntry::End);
    }

    fn push(&self, entry: LogEntry) {
        // Events after the end are dropped.
        let _ = self.entries.send(entry);
    }
}

impl EventWriter {
    /// Stores what comes until the end.
    pub(super) async fn run(mut self) -> Result<(), StoreError> {
        let mut is_open = true;
        while is_open {
            let mut batch = EventBatch::default();
            let Some(first) = self.entries.recv().await else {
                break;
            };
            let mut joining = matches!(first, LogEntry::Text(_));
            let deadline = Instant::now() + TEXT_JOIN_WINDOW;
            is_open = batch.add(first);
            while is_open {
                let next = if joining {
                    match tokio::time::timeout_at(deadline, self.entries.recv()).await {
                        Ok(next) => next,
                        Err(_) => break,
                    }
                } else {
                    self.entries.try_recv().ok()
                };
                let Some(next) = next else { break };
                joining &= matches!(next, LogEntry::Text(_));
                is_open = batch.add(next);
            }
            self.store(batch).await?;
        }
        Ok(())
    }

    async fn store(&self, batch: EventBatch) -> Result<(), StoreError> {
        let events: Vec<_> = batch
            .events
            .into_iter()
            .map(|piece| match piece {
                EventPiece::Text(text) => {
                    event_body(&self.run, "message.delta", json!({"delta": text}))
                }
                EventPiece::Event(event) => event,
            })
            .collect();
        if events.is_empty() {
            return Ok(());
        }
        let last = self
            .store
            .append_run_events(&self.run, &events, batch.status)
            .await?;
        self.progress.send_modify(|progress| progress.last = last);
        Ok(())
    }
}

/// What is stored at once.
#[derive(Default)]
struct EventBatch {
    events: Vec<EventPiece>,
    status: Option<RunStatus>,
}

enum EventPiece {
    Text(String),
    Event(Map<String, Value>),
}

impl EventBatch {
    fn add(&mut self, entry: LogEntry) -> bool {
        match (entry, self.events.last_mut()) {
            (LogEntry::Text(text), Some(EventPiece::Text(before))) => before.push_str(&text),
            (LogEntry::Text(text), _) => self.events.push(EventPiece::Text(text)),
            (LogEntry::Event(event, status), _) => {
                self.events.push(EventPiece::Event(event));
                self.status = status.or(self.status);
            }
            (LogEntry::End, _) => return false,
        }
        true
    }
}

/// How many events are read at once.
const PAGE_SIZE: u32 = 200;

/// A watcher of a run. It reads from the store, so a slow watcher blocks nobody.
pub struct RunWatcher {
    store: RuntimeStore,
    run: String,
    after: i64,
    /// None if the run ended before.
    progress: Option<watch::Receiver<RunProgress>>,
    buffered: VecDeque<RunEvent>,
}

impl RunWatcher {
    pub(super) fn new(
        store: RuntimeStore,
        run: &str,
        after: i64,
        progress: Option<watch::Receiver<RunProgress>>,
    ) -> Self {
        Self {
            store,
            run: run.to_owned(),
            after,
            progress,
            buffered: VecDeque::new(),
        }
    }

    /// The next event, or `None` when the run is over. May be dropped and called again.
    pub async fn next(&mut self) -> Result<Option<RunEvent>, StoreError> {
        loop {
            if let Some(event) = self.buffered.pop_front() {
                self.after = event.seq;
                return Ok(Some(event));
            }
            // Read before the store: events stored later are announced again.
            let is_over = match &mut self.progress {
                Some(progress) => progress.borrow_and_update().is_over,
                None => true,
            };
            let page = self
                .store
                .run_events_after(&self.run, self.after, PAGE_SIZE);
            self.buffered = page.await?.into();
            if !self.buffered.is_empty() {
                continue;
            }
            if is_over {
                return Ok(None);
            }
            if let Some(progress) = &mut self.progress
                && progress.changed().await.is_err()
            {
                self.progress = None;
            }
        }
    }
}
