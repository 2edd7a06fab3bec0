//! This node among the others: that it works, what time it is for all of them, and its end.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use super::Leases;
use crate::{
    api_types::Time,
    storage::state::{GrantedLease, NodeReport, StateError},
};

const MAX_ANSWER_TIME: Duration = Duration::from_secs(2);

impl Leases {
    /// There may be work for a tenant that no node has.
    pub fn look_for_work(&self) {
        if self.is_shared {
            self.work_waits.notify_one();
        }
    }

    /// Returns when there may be.
    pub async fn wait_for_work(&self) {
        self.work_waits.notified().await;
    }

    /// Tells the other nodes that this one works. Returns whether somebody wants it drained.
    pub async fn report_node(&self, report: &NodeReport) -> Result<bool, StateError> {
        let asked_at = Instant::now();
        let standing = self.state.report_node(report).await?;
        // An answer that took long says little about the time now: this process may have stood still meanwhile.
        if let Some(time) = standing.database_time
            && asked_at.elapsed() < MAX_ANSWER_TIME
        {
            let offset = Time::follow_database(time);
            self.clock_offset.store(offset, Ordering::Relaxed);
        }
        Ok(standing.is_draining)
    }

    /// The time by which jobs are due: the database's where nodes share one, so that a wrong clock of a node has no
    /// effect.
    pub fn shared_time(&self) -> Time {
        let offset = self.clock_offset.load(Ordering::Relaxed);
        Time::from_millis(Time::by_machine().millis().saturating_add(offset))
    }

    /// Runs something until the leases are given up at shutdown.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let closing = self.closing.clone();
        self.tasks.spawn(async move {
            closing.run_until_cancelled(work).await;
        });
    }

    /// Gives up all leases without telling anybody.
    pub fn lose_all(&self) {
        let leases = {
            let mut held = self.held.lock();
            let tenants = held.tenants();
            let leases = tenants.iter().filter_map(|tenant| held.take(tenant));
            leases.map(|lease| (lease, Duration::ZERO)).collect()
        };
        self.lose(leases);
    }

    /// Hands all leases over. Nothing may work under them any more.
    pub async fn close(&self) {
        self.start_draining();
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        let leases: Vec<GrantedLease> = {
            let mut held = self.held.lock();
            let tenants = held.tenants();
            tenants
                .iter()
                .filter_map(|tenant| held.take(tenant))
                .collect()
        };
        if !leases.is_empty() {
            self.give_up(leases).await;
        }
    }

    /// Takes no more leases.
    pub fn start_draining(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }
}
