//! Clients of platforms, against platforms over real sockets.

mod discord;
mod egress;
mod slack;
mod telegram;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::BoxFuture;
use hermes_gateway::platform::{
    ConnectionState, FatalError, InboundEvent, InboundKind, InboundMessage, IntakeError,
    PlatformClient, PlatformHealth, RawUpdate, UpdateIntake,
};
use hermes_testkit::eventually;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(30);

/// An intake in memory, which skips what it knows.
#[derive(Default)]
pub(crate) struct MemoryIntake {
    state: Mutex<IntakeState>,
}

#[derive(Default)]
struct IntakeState {
    updates: Vec<RawUpdate>,
    cursor: Option<Value>,
    /// So many calls fail.
    failures: usize,
    calls: usize,
    /// The next call waits until this is cancelled.
    held: Option<CancellationToken>,
}

impl MemoryIntake {
    pub(crate) fn with_cursor(cursor: Value) -> Self {
        let intake = Self::default();
        intake.state.lock().unwrap().cursor = Some(cursor);
        intake
    }

    /// Lets the next calls of `store` fail.
    pub(crate) fn fail(&self, times: usize) {
        self.state.lock().unwrap().failures = times;
    }

    /// Lets the next call of `store` wait until this is cancelled.
    pub(crate) fn hold_next(&self, until: &CancellationToken) {
        self.state.lock().unwrap().held = Some(until.clone());
    }

    /// What was stored, once each.
    pub(crate) fn updates(&self) -> Vec<RawUpdate> {
        self.state.lock().unwrap().updates.clone()
    }

    pub(crate) fn last_cursor(&self) -> Option<Value> {
        self.state.lock().unwrap().cursor.clone()
    }

    /// How often something was to be stored.
    pub(crate) fn calls(&self) -> usize {
        self.state.lock().unwrap().calls
    }
}

impl UpdateIntake for MemoryIntake {
    fn store(
        &self,
        updates: Vec<RawUpdate>,
        cursor: Option<Value>,
    ) -> BoxFuture<'_, Result<(), IntakeError>> {
        Box::pin(async move {
            let held = {
                let mut state = self.state.lock().unwrap();
                state.calls += 1;
                state.held.take()
            };
            if let Some(held) = held {
                held.cancelled().await;
            }
            let mut state = self.state.lock().unwrap();
            if state.failures > 0 {
                state.failures -= 1;
                return Err(IntakeError("the disk is full".into()));
            }
            for update in updates {
                let is_known = |known: &RawUpdate| known.event_id == update.event_id;
                if !state.updates.iter().any(is_known) {
                    state.updates.push(update);
                }
            }
            if cursor.is_some() {
                state.cursor = cursor;
            }
            Ok(())
        })
    }

    fn cursor(&self) -> BoxFuture<'_, Result<Option<Value>, IntakeError>> {
        Box::pin(async { Ok(self.last_cursor()) })
    }
}

/// A client that receives until it is dropped.
struct ReceivingClient<C> {
    client: Arc<C>,
    intake: Arc<MemoryIntake>,
    health: Arc<PlatformHealth>,
    stop: CancellationToken,
    task: JoinSet<Result<(), FatalError>>,
}

impl<C: PlatformClient> ReceivingClient<C> {
    fn start(client: C) -> Self {
        Self::start_with(client, Arc::default())
    }

    fn start_with(client: C, intake: Arc<MemoryIntake>) -> Self {
        let client = Arc::new(client);
        let health = Arc::new(PlatformHealth::new(Duration::from_secs(30)));
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        let (own, stored, state, stopped) = (
            Arc::clone(&client),
            Arc::clone(&intake),
            Arc::clone(&health),
            stop.clone(),
        );
        task.spawn(async move { own.receive(&*stored, &state, stopped).await });
        Self {
            client,
            intake,
            health,
            stop,
            task,
        }
    }

    async fn wait_connected(&self) {
        let is_connected = || self.health.state() == ConnectionState::Connected;
        assert!(
            eventually(LIMIT, is_connected).await,
            "{:?}",
            self.health.state()
        );
    }

    /// Waits until so many updates are stored.
    async fn wait_updates(&self, count: usize) {
        assert!(
            eventually(LIMIT, || self.intake.updates().len() >= count).await,
            "{:?} {:?}",
            self.health.state(),
            self.intake.updates()
        );
    }

    fn events(&self) -> Vec<InboundEvent> {
        let updates = self.intake.updates();
        let decoded = updates
            .iter()
            .filter_map(|update| self.client.decode(&update.payload));
        decoded.collect()
    }

    fn messages(&self) -> Vec<InboundMessage> {
        let events = self.events().into_iter();
        let messages = events.filter_map(|event| match event.kind {
            InboundKind::Message(message) => Some(*message),
            _ => None,
        });
        messages.collect()
    }

    fn texts(&self) -> Vec<String> {
        let messages = self.messages().into_iter();
        messages.map(|message| message.text).collect()
    }

    /// Stops it.
    async fn end(mut self) -> Result<(), FatalError> {
        self.stop.cancel();
        self.task.join_next().await.unwrap().unwrap()
    }

    /// Waits until it gives up by itself.
    async fn failure(&mut self) -> FatalError {
        let ended = tokio::time::timeout(LIMIT, self.task.join_next()).await;
        ended.unwrap().unwrap().unwrap().unwrap_err()
    }
}
