//! Dispatches queued runs: each tenant's oldest first, up to the tenant's limit.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::Runs;
use crate::{
    TenantId,
    api_types::{AccessStatus, AgentPhase},
    storage::state::StateError,
    tenants::agents::WakePolicy,
};

/// How often the queues are checked without a notification, so that a lost one does no harm.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

const MAX_QUEUES: u32 = 10_000;

impl Runs {
    /// Dispatches until the Hub stops.
    pub(super) async fn dispatch_queues(self: &Arc<Self>) {
        loop {
            tokio::select! {
                () = self.queue_changed.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = self.closing.cancelled() => return,
            }
            if let Err(error) = self.dispatch_round().await {
                tracing::warn!(%error, "failed to read the run queues");
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
    }

    async fn dispatch_round(self: &Arc<Self>) -> Result<(), StateError> {
        if self.is_draining.load(Ordering::Relaxed) {
            return Ok(());
        }
        for tenant in self.state.waiting_tenants(MAX_QUEUES).await? {
            if !self.agents.leases().is_mine(&tenant) {
                continue;
            }
            let Some(most) = self.max_concurrent_runs(&tenant).await else {
                continue;
            };
            while let Some(record) = self.state.claim_run(&tenant, most).await? {
                self.agents.leases().mark_used(&tenant);
                self.spawn_run(record, self.previous_end);
            }
        }
        Ok(())
    }

    /// A tenant's limit of concurrent runs; `None` if it may not run now.
    async fn max_concurrent_runs(&self, tenant: &TenantId) -> Option<u32> {
        let spec = self.agents.tenant_lookup().agent_spec(tenant).await.ok()?;
        let waits_for_order = spec.wake_policy == WakePolicy::Manual
            && !matches!(
                self.agents.state(tenant).await.state,
                AgentPhase::Running | AgentPhase::Idle
            );
        let may_run = spec.access == AccessStatus::Active && !waits_for_order;
        may_run.then_some(spec.max_concurrent_runs)
    }
}
