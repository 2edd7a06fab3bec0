//! A turn while it goes on, as others see it: stopped by them, joined by messages.

use hermes_config::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{inbound::session_worker::WorkerInput, runs::Runs};

/// Stops a turn, however far it is, and knows which messages became part of it.
#[derive(Default)]
pub(in crate::inbound) struct TurnHandle {
    /// Cancelled before the run has begun.
    pub(in crate::inbound) preparing: CancellationToken,
    run: Mutex<Option<String>>,
    /// Messages that became part of the turn while it went on.
    joined: Mutex<Vec<WorkerInput>>,
    /// The last of them that the model got: the answer is under its name.
    answered: Mutex<Option<WorkerInput>>,
}

impl TurnHandle {
    pub(in crate::inbound) fn join(&self, inputs: &[WorkerInput]) {
        self.joined.lock().extend_from_slice(inputs);
    }

    /// They do not become part of it after all.
    pub(in crate::inbound) fn leave(&self, inputs: &[WorkerInput]) {
        let is_left = |one: &WorkerInput| inputs.iter().any(|input| input.key == one.key);
        self.joined.lock().retain(|one| !is_left(one));
    }

    pub(in crate::inbound) fn joined(&self) -> Vec<WorkerInput> {
        self.joined.lock().clone()
    }

    pub(in crate::inbound) fn set_answered(&self, inputs: &[WorkerInput]) {
        *self.answered.lock() = inputs.first().cloned();
    }

    pub(in crate::inbound) fn answered(&self) -> Option<WorkerInput> {
        self.answered.lock().clone()
    }

    pub(in crate::inbound) fn stop(&self, runs: &Runs) {
        self.preparing.cancel();
        let run = self.run.lock().clone();
        if let Some(run) = run {
            runs.abandon(&run);
        }
    }

    /// The run of the turn. If it was to stop before, it stops now.
    pub(in crate::inbound) fn set_run(&self, run: &str, runs: &Runs) {
        *self.run.lock() = Some(run.to_owned());
        if self.preparing.is_cancelled() {
            runs.abandon(run);
        }
    }
}
