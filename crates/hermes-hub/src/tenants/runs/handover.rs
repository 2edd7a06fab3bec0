//! Runs of tenants whose lease this node takes or gives up.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{PreviousEnd, RunHandle, Runs};
use crate::{RunId, TenantId, api_types::RunStatus, storage::state::StateError};

impl Runs {
    /// Goes on with the runs that the last holder of a tenant's lease has left.
    pub async fn adopt(self: &Arc<Self>, tenant: &TenantId) -> Result<(), StateError> {
        for record in self.state.adopt_runs(tenant).await? {
            if self.handle(&record.run.run_id).is_none() {
                self.spawn_run(record, PreviousEnd::NodeLost);
            }
        }
        self.notify_queues();
        Ok(())
    }

    /// Leaves a tenant's runs as they are. Returns when nothing of this node works on them, or after this time.
    pub async fn detach_tenant(&self, tenant: &TenantId, timeout: Duration) {
        let handles = self.handles_of(tenant);
        for handle in &handles {
            handle.leave.cancel();
        }
        let ended = futures::future::join_all(handles.iter().map(|handle| handle.done.cancelled()));
        if tokio::time::timeout(timeout, ended).await.is_err() {
            tracing::warn!(%tenant, "runs did not stop before the lease ended; their writes are refused");
        }
    }

    /// Begins no more runs of the queues. Those under way go on.
    pub fn stop_claiming(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// Whether this node works on a run of a tenant.
    pub fn is_busy(&self, tenant: &TenantId) -> bool {
        self.lock_active()
            .values()
            .any(|handle| handle.tenant == *tenant)
    }

    /// Stops the runs of this node that somebody has asked to stop, wherever that was.
    pub async fn notice_stops(&self) -> Result<(), StateError> {
        for (_, run) in self.state.stopping_runs().await? {
            if let Some(handle) = self.handle(&run) {
                self.notice_stop(&run, &handle).await?;
            }
        }
        Ok(())
    }

    /// Something happened to a run on another node: its watchers read it, and its task looks for decisions.
    pub async fn notice_run(&self, run: &RunId) -> Result<(), StateError> {
        self.watchers.read_again(run);
        let Some(handle) = self.handle(run) else {
            return Ok(());
        };
        handle.decision_made.notify_one();
        self.notice_stop(run, &handle).await
    }

    /// Stops a run if somebody has asked for that on another node.
    async fn notice_stop(&self, run: &RunId, handle: &RunHandle) -> Result<(), StateError> {
        if handle.stop.is_cancelled() {
            return Ok(());
        }
        let record = self.state.run(&handle.tenant, run).await?;
        let Some(record) = record.filter(|one| one.run.status == RunStatus::Stopping) else {
            return Ok(());
        };
        if let Some(cause) = record.run.error {
            let _ = handle.cause.set(cause);
        }
        handle.stop.cancel();
        Ok(())
    }

    /// Notices may have been lost.
    pub fn notice_all_runs(&self) {
        self.watchers.read_all_again();
        for handle in self.lock_active().values() {
            handle.decision_made.notify_one();
        }
        self.notify_queues();
    }

    fn handles_of(&self, tenant: &TenantId) -> Vec<Arc<RunHandle>> {
        let active = self.lock_active();
        let of_tenant = active.values().filter(|handle| handle.tenant == *tenant);
        of_tenant.cloned().collect()
    }
}
