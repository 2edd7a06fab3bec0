//! What a scripted agent has done for one run.

use hermes_hub::TenantId;
use hermes_protocol::RunEvent;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(super) struct Journal {
    pub(super) tenant: TenantId,
    pub(super) script: String,
    /// `None` is one that cannot be read.
    pub(super) events: watch::Sender<Vec<Option<RunEvent>>>,
    pub(super) stop: CancellationToken,
}

impl Journal {
    pub(super) fn add(&self, event: Option<RunEvent>) {
        self.events.send_modify(|events| {
            if !is_over(events) {
                events.push(event);
            }
        });
    }
}

pub(super) fn is_over(events: &[Option<RunEvent>]) -> bool {
    events
        .iter()
        .flatten()
        .last()
        .is_some_and(RunEvent::is_final)
}
