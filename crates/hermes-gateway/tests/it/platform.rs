//! Clients of platforms, against platforms over real sockets.

mod discord;
mod slack;
mod telegram;

use std::sync::Mutex;

use futures::future::BoxFuture;
use hermes_gateway::platform::{IntakeError, RawUpdate, UpdateIntake};
use serde_json::Value;

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
            let mut state = self.state.lock().unwrap();
            state.calls += 1;
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
