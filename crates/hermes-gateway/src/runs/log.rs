//! The event log of a run: written to the store, and from there to watchers.
//!
//! A turn must not wait for a disk, so it passes events to a [`Writer`], which stores them in order and then announces
//! them. Text deltas in quick succession are joined to one event.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hermes_store::{
    StoreError, epoch_seconds,
    runtime::{RunStatus, RuntimeStore},
};
use serde_json::{Map, Value, json};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

const JOINING: Duration = Duration::from_millis(25);

/// How much of a run is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) last: i64,
    pub(super) is_over: bool,
}

enum Entry {
    Text(String),
    Event(Map<String, Value>, Option<RunStatus>),
    End,
}

/// The sending side. Clones write to the same run.
#[derive(Clone)]
pub(super) struct RunLog {
    run: Arc<str>,
    /// Unbounded, since a turn cannot wait here: the output of a model and its tools is the bound.
    entries: mpsc::UnboundedSender<Entry>,
    waiting: Arc<AtomicUsize>,
}

/// The receiving side: stores events.
pub(super) struct Writer {
    run: Arc<str>,
    store: RuntimeStore,
    entries: mpsc::UnboundedReceiver<Entry>,
    progress: watch::Sender<Progress>,
}

pub(super) fn new(
    run: &str,
    store: RuntimeStore,
    progress: watch::Sender<Progress>,
) -> (RunLog, Writer) {
    // See `RunLog::entries`.
    let (sender, entries) = mpsc::unbounded_channel();
    let run: Arc<str> = run.into();
    let log = RunLog {
        run: run.clone(),
        entries: sender,
        waiting: Arc::default(),
    };
    let writer = Writer {
        run,
        store,
        entries,
        progress,
    };
    (log, writer)
}

pub(super) fn event(run: &str, name: &str, members: Value) -> Map<String, Value> {
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
        self.put(Entry::Text(text));
    }

    pub(super) fn event(&self, name: &str, members: Value) {
        self.put(Entry::Event(event(&self.run, name, members), None));
    }

    pub(super) fn started(&self, session: Option<&str>) {
        let event = event(&self.run, "run.started", json!({"session_id": session}));
        self.put(Entry::Event(event, Some(RunStatus::Running)));
    }

    pub(super) fn asked(&self, members: Value) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let event = event(&self.run, "approval.request", members);
        self.put(Entry::Event(event, Some(RunStatus::WaitingForApproval)));
    }

    pub(super) fn decided(&self, members: Value) {
        let is_last = self.waiting.fetch_sub(1, Ordering::Relaxed) == 1;
        let event = event(&self.run, "approval.responded", members);
        self.put(Entry::Event(event, is_last.then_some(RunStatus::Running)));
    }

    pub(super) fn end(&self) {
        self.put(Entry::End);
    }

    fn put(&self, entry: Entry) {
        // Events after the end are dropped.
        let _ = self.entries.send(entry);
    }
}

impl Writer {
    /// Stores what comes until the end.
    pub(super) async fn run(mut self) -> Result<(), StoreError> {
        let mut is_open = true;
        while is_open {
            let mut batch = Batch::default();
            let Some(first) = self.entries.recv().await else {
                break;
            };
            let mut joining = matches!(first, Entry::Text(_));
            let deadline = Instant::now() + JOINING;
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
                joining &= matches!(next, Entry::Text(_));
                is_open = batch.add(next);
            }
            self.store(batch).await?;
        }
        Ok(())
    }

    async fn store(&self, batch: Batch) -> Result<(), StoreError> {
        let events: Vec<_> = batch
            .events
            .into_iter()
            .map(|piece| match piece {
                Piece::Text(text) => event(&self.run, "message.delta", json!({"delta": text})),
                Piece::Event(event) => event,
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
struct Batch {
    events: Vec<Piece>,
    status: Option<RunStatus>,
}

enum Piece {
    Text(String),
    Event(Map<String, Value>),
}

impl Batch {
    fn add(&mut self, entry: Entry) -> bool {
        match (entry, self.events.last_mut()) {
            (Entry::Text(text), Some(Piece::Text(before))) => before.push_str(&text),
            (Entry::Text(text), _) => self.events.push(Piece::Text(text)),
            (Entry::Event(event, status), _) => {
                self.events.push(Piece::Event(event));
                self.status = status.or(self.status);
            }
            (Entry::End, _) => return false,
        }
        true
    }
}
