//! Takes runs out of the queues: each tenant's oldest first, as many at once as the tenant may have.

use std::{sync::Arc, time::Duration};

use super::Runs;
use crate::{
    TenantId,
    agents::Waking,
    shapes::{AccessStatus, AgentPhase},
    state::StateError,
};

/// How often the queues are looked at although nobody said anything: a lost word does no harm.
const ROUND: Duration = Duration::from_secs(2);

/// Queues that are looked at in one round.
const MOST_QUEUES: u32 = 10_000;

impl Runs {
    /// Works on the queues until the Hub ends.
    pub(super) async fn dispatch_queues(self: &Arc<Self>) {
        loop {
            tokio::select! {
                () = self.queued.notified() => {}
                () = tokio::time::sleep(ROUND) => {}
                () = self.closing.cancelled() => return,
            }
            if let Err(error) = self.dispatch_round().await {
                tracing::warn!("the queues can not be read: {error}");
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

    /// How many runs a tenant may have at once; none if it may not run now.
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
