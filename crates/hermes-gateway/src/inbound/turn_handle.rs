//! A turn while it goes on, as others see it: stopped by them, joined by messages.

use hermes_config::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::session_worker::WorkerInput;
use crate::runs::Runs;

/// Stops a turn, however far it is, and knows which messages became part of it.
#[derive(Default)]
pub(super) struct TurnHandle {
    /// Cancelled before the run has begun.
    pub(super) preparing: CancellationToken,
    run: Mutex<Option<String>>,
    /// Messages that became part of the turn while it went on.
    joined: Mutex<Vec<WorkerInput>>,
    /// The last of them that the model got: the answer is under its name.
    answered: Mutex<Option<WorkerInput>>,
}

impl TurnHandle {
    pub(super) fn join(&self, inputs: &[WorkerInput]) {
        self.joined.lock().extend_from_slice(inputs);
    }

    /// They do not become part of it after all.
    pub(super) fn leave(&self, inputs: &[WorkerInput]) {
        let is_left = |one: &WorkerInput| inputs.iter().any(|input| input.key == one.key);
        self.joined.lock().retain(|one| !is_left(one));
    }

    pub(super) fn joined(&self) -> Vec<WorkerInput> {
        self.joined.lock().clone()
    }

    pub(super) fn set_answered(&self, inputs: &[WorkerInput]) {
        *self.answered.lock() = inputs.first().cloned();
    }

    pub(super) fn answered(&self) -> Option<WorkerInput> {
        self.answered.lock().clone()
    }

    pub(super) fn stop(&self, runs: &Runs) {
        self.preparing.cancel();
        let run = self.run.lock().clone();
        if let Some(run) = run {
            runs.abandon(&run);
        }
    }

    /// The run of the turn. If it was to stop before, it stops now.
    pub(super) fn set_run(&self, run: &str, runs: &Runs) {
        *self.run.lock() = Some(run.to_owned());
        if self.preparing.is_cancelled() {
            runs.abandon(run);
        }
    }
}
