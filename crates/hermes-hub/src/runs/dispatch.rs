//! Dispatches queued runs: each tenant's oldest first, up to the tenant's limit.

use std::{sync::Arc, time::Duration};

use super::Runs;
use crate::{
    TenantId,
    agents::Waking,
    shapes::{AccessStatus, AgentPhase},
    state::StateError,
};

/// How often the queues are checked without a notification, so that a lost one does no harm.
const ROUND: Duration = Duration::from_secs(2);

const MOST_QUEUES: u32 = 10_000;

impl Runs {
    /// Dispatches until the Hub stops.
    pub(super) async fn dispatch_queues(self: &Arc<Self>) {
        loop {
            tokio::select! {
                () = self.queued.notified() => {}
                () = tokio::time::sleep(ROUND) => {}
                () = self.closing.cancelled() => return,
            }
            if let Err(error) = self.dispatch_round().await {
                tracing::warn!(%error, "failed to read the run queues");
                tokio::time::sleep(ROUND).await;
            }
        }
    }

    async fn dispatch_round(self: &Arc<Self>) -> Result<(), StateError> {
        for tenant in self.state.waiting_tenants(MOST_QUEUES).await? {
            let Some(most) = self.places(&tenant).await else {
                continue;
            };
            while let Some(record) = self.state.claim_run(&tenant, most).await? {
                self.begin(record);
            }
        }
        Ok(())
    }

    /// A tenant's limit of concurrent runs; `None` if it may not run now.
    async fn places(&self, tenant: &TenantId) -> Option<u32> {
        let terms = self.agents.tenancy().terms(tenant).await.ok()?;
        let waits_for_order = terms.waking == Waking::Order
            && !matches!(
                self.agents.state(tenant).await.state,
                AgentPhase::Running | AgentPhase::Idle
            );
        let may_run = terms.access == AccessStatus::Active && !waits_for_order;
        may_run.then_some(terms.max_concurrent_runs)
    }
}
