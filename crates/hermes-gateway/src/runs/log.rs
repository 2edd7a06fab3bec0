//! The event log of a run: written to the store, and from there read by watchers, stored events first, then live ones.
//!
//! Events of a run are made here, once: what is stored is what watchers, a Hub among them, receive. A turn must not wait
//! for a disk, so it passes events to an [`EventWriter`], which stores them in order and then announces them. Text deltas
//! in quick succession are joined to one event.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hermes_protocol::{EventEnvelope, RunEvent};
use hermes_store::{
    StoreError, epoch_seconds, runtime,
    runtime::{RunStatus, RuntimeStore},
};
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

#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are events, and all are boxed in the channel"
)]
enum LogEntry {
    Event(EventEnvelope, Option<RunStatus>),
    End,
}

impl LogEntry {
    fn is_text(&self) -> bool {
        let Self::Event(envelope, _) = self else {
            return false;
        };
        matches!(envelope.event, RunEvent::MessageDelta { .. })
    }
}

/// The sending side. Clones write to the same run.
#[derive(Clone)]
pub(super) struct RunLog {
    run: Arc<str>,
    /// Unbounded, since a turn cannot wait here: the output of a model and its tools is the bound. Boxed, because a channel
    /// has room for 32 from the start.
    entries: mpsc::UnboundedSender<Box<LogEntry>>,
    waiting: Arc<AtomicUsize>,
}

/// The receiving side: stores events.
pub(super) struct EventWriter {
    run: Arc<str>,
    store: RuntimeStore,
    entries: mpsc::UnboundedReceiver<Box<LogEntry>>,
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

/// An event that happens now.
pub(super) fn new_event(run: &str, event: RunEvent) -> EventEnvelope {
    EventEnvelope {
        run_id: run.to_owned(),
        timestamp: epoch_seconds(),
        event,
    }
}

impl RunLog {
    pub(super) fn record(&self, event: RunEvent) {
        let status = self.status_after(&event);
        self.push(LogEntry::Event(new_event(&self.run, event), status));
    }

    /// The status of the run after an event, if the event changes it.
    fn status_after(&self, event: &RunEvent) -> Option<RunStatus> {
        match event {
            RunEvent::Started { .. } => Some(RunStatus::Running),
            RunEvent::ApprovalRequest { .. } => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                Some(RunStatus::WaitingForApproval)
            }
            RunEvent::ApprovalResponded { .. } => {
                let is_last = self.waiting.fetch_sub(1, Ordering::Relaxed) == 1;
                is_last.then_some(RunStatus::Running)
            }
            _ => None,
        }
    }

    pub(super) fn end(&self) {
        self.push(LogEntry::End);
    }

    fn push(&self, entry: LogEntry) {
        // Events after the end are dropped.
        let _ = self.entries.send(Box::new(entry));
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
            let mut joining = first.is_text();
            let deadline = Instant::now() + TEXT_JOIN_WINDOW;
            is_open = batch.add(*first);
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
                joining &= next.is_text();
                is_open = batch.add(*next);
            }
            self.store(batch).await?;
        }
        Ok(())
    }

    async fn store(&self, batch: EventBatch) -> Result<(), StoreError> {
        let events: Vec<_> = batch.events.iter().map(EventEnvelope::to_body).collect();
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
    events: Vec<EventEnvelope>,
    status: Option<RunStatus>,
}

impl EventBatch {
    /// Adds an entry, joining text to the text before it. Returns whether more may follow.
    fn add(&mut self, entry: LogEntry) -> bool {
        let LogEntry::Event(envelope, status) = entry else {
            return false;
        };
        self.status = status.or(self.status);
        let before = self.events.last_mut().map(|before| &mut before.event);
        match (before, &envelope.event) {
            (
                Some(RunEvent::MessageDelta { delta: before, .. }),
                RunEvent::MessageDelta { delta, .. },
            ) => before.push_str(delta),
            _ => self.events.push(envelope),
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
    buffered: VecDeque<runtime::RunEvent>,
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
    pub async fn next(&mut self) -> Result<Option<runtime::RunEvent>, StoreError> {
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
