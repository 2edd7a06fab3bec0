//! The tasks behind this node's leases, where several nodes share a database: renewing them, taking work, beginning
//! and ending the work for tenants, and handing tenants over.

use std::time::Duration;

use futures::{StreamExt as _, future::join_all, stream};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Hub;
use crate::{
    TenantId,
    api_types::TenantStatus,
    storage::state::{NodeReport, StateError},
    tenants::leases::{LeaseChanges, LeaseEnd, Leases},
};

/// How often leases are looked at, and free ones taken, without a notice.
const ROUND_INTERVAL: Duration = Duration::from_millis(500);

/// How often idle leases are given up.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);

/// How often a node that drains looks for tenants that it can hand over.
const DRAIN_INTERVAL: Duration = Duration::from_millis(200);

/// How many idle tenants are handed over at once.
const CONCURRENT_HANDOVERS: usize = 8;

/// How long requests, and then agents, get to end when their tenant is handed over.
const HANDOVER_GRACE: Duration = Duration::from_secs(5);

impl Hub {
    pub(crate) fn leases(&self) -> &std::sync::Arc<Leases> {
        self.agents().leases()
    }

    /// Registers this node and begins to work for tenants.
    pub(super) async fn start_leases(&self) -> Result<(), StateError> {
        let leases = self.leases();
        if !leases.is_shared() {
            return Ok(());
        }
        leases.report_node(&self.node_report()).await?;
        self.state().undrain_node().await?;
        leases.spawn(renew_leases(self.clone()));
        leases.spawn(follow_leases(self.clone()));
        leases.spawn(place_tenants(self.clone()));
        leases.spawn(release_idle_leases(self.clone()));
        Ok(())
    }

    fn node_report(&self) -> NodeReport {
        NodeReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at(),
            capacity: u32::try_from(self.leases().capacity()).unwrap_or(u32::MAX),
        }
    }

    /// Begins to work for a tenant whose lease was taken.
    async fn begin_tenant(&self, tenant: &TenantId) {
        let mut is_unfinished = false;
        if let Ok(Some(record)) = self.state().tenant(tenant).await {
            self.note_beginning(&record);
            super::provisioning::provision_if_unfinished(self, &record);
            is_unfinished = record.status == TenantStatus::Provisioning;
        }
        if let Err(error) = self.runs().adopt(tenant).await {
            tracing::warn!(%tenant, %error, "failed to resume the tenant's runs");
        }
        if let Err(problem) = self.scheduler().reload_jobs(tenant).await {
            tracing::warn!(%tenant, %problem, "failed to read the tenant's cron jobs");
        }
        // Without a home nobody can tell. Whoever makes it looks then.
        if !is_unfinished {
            self.start_if_always_on(tenant).await;
        }
    }

    /// Ends what works for a tenant whose lease is lost, before it expires.
    async fn end_tenant(&self, tenant: &TenantId) {
        let grace = self.leases().stop_grace(tenant);
        // At once: what runs would still write is refused, and another node may begin soon.
        tokio::join!(
            self.runs().detach_tenant(tenant, grace),
            self.agents().stop_for_handover(tenant, grace)
        );
        self.leases().finish_stop(tenant).await;
    }

    /// Hands a tenant over to whichever node takes it next.
    async fn hand_over(&self, tenant: &TenantId) {
        let handover = self.leases().start_handover(tenant, HANDOVER_GRACE).await;
        let Some(_handover) = handover else { return };
        self.runs().detach_tenant(tenant, HANDOVER_GRACE).await;
        self.agents()
            .stop_for_handover(tenant, HANDOVER_GRACE)
            .await;
        let end = match self.leases().save_home(tenant).await {
            Ok(()) => LeaseEnd::HandedOver,
            Err(problem) => {
                tracing::warn!(%tenant, %problem, "failed to store the home of a tenant that is handed over");
                LeaseEnd::Lost
            }
        };
        self.leases().release(tenant, end).await;
    }

    /// Another process works under this node's id: its leases and its audit chain are not this one's any more.
    fn stop_replaced(&self) {
        tracing::error!(
            node = self.node(),
            "another process uses this node's id; stopping"
        );
        self.leases().start_draining();
        self.leases().lose_all();
        self.0.lifecycle.replaced.cancel();
    }

    /// Takes no new leases, lets runs end within the grace period, and hands all tenants over.
    pub(crate) async fn drain_leases(&self) {
        let leases = self.leases();
        if !leases.is_shared() {
            return;
        }
        leases.start_draining();
        self.runs().stop_claiming();
        tracing::info!(tenants = leases.held().len(), "draining node");
        let deadline = Instant::now() + Duration::from_secs(self.settings().drain_seconds);
        loop {
            let is_over = Instant::now() >= deadline;
            let held = leases.held();
            let ready = held
                .iter()
                .filter(|tenant| is_over || !self.runs().is_busy(tenant));
            join_all(ready.map(|tenant| self.hand_over(tenant))).await;
            if is_over || leases.held().is_empty() {
                tracing::info!("node drained");
                return;
            }
            tokio::time::sleep(DRAIN_INTERVAL).await;
        }
    }
}

/// Renews leases and tells the other nodes that this one works.
async fn renew_leases(hub: Hub) {
    let leases = hub.leases();
    let mut rounds = interval(ROUND_INTERVAL);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_drained = false;
    let mut reported: Option<Instant> = None;
    loop {
        rounds.tick().await;
        if let Err(error) = leases.renew().await {
            tracing::warn!(%error, "lease renewal failed");
        }
        hub.agents().pass_on_leases();
        let report_interval = leases.report_interval();
        if reported.is_some_and(|last| last.elapsed() < report_interval) {
            continue;
        }
        match leases.report_node(&hub.node_report()).await {
            Ok(true) if !is_drained => {
                is_drained = true;
                let draining = hub.clone();
                leases.spawn(async move { draining.drain_leases().await });
            }
            Ok(_) => reported = Some(Instant::now()),
            Err(error) => tracing::warn!(%error, "failed to report the state of this node"),
        }
        if let Ok(nodes) = leases.active_nodes().await {
            hub.access().set_node_count(nodes.len());
        }
        if hub.is_replaced().await.unwrap_or(false) {
            hub.stop_replaced();
            return;
        }
    }
}

/// Begins and ends the work for tenants as their leases come and go. Asks the database nothing, so that a lease that
/// cannot be renewed is given up in time.
async fn follow_leases(hub: Hub) {
    let leases = hub.leases();
    let mut rounds = interval(ROUND_INTERVAL);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = rounds.tick() => {}
            () = leases.wait_for_news() => {}
        }
        leases.expire();
        let LeaseChanges { gained, lost } = leases.take_news();
        for tenant in lost {
            let hub = hub.clone();
            hub.tasks()
                .clone()
                .spawn(async move { hub.end_tenant(&tenant).await });
        }
        for tenant in gained {
            let hub = hub.clone();
            hub.tasks()
                .clone()
                .spawn(async move { hub.begin_tenant(&tenant).await });
        }
    }
}

/// Takes the leases of tenants that have work.
async fn place_tenants(hub: Hub) {
    let leases = hub.leases();
    let mut rounds = interval(ROUND_INTERVAL);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = rounds.tick() => {}
            () = leases.wait_for_work() => {}
        }
        if let Err(error) = leases.take_work().await {
            tracing::warn!(%error, "failed to find tenants with work");
        }
    }
}

/// Gives up the leases of tenants that have no work. Taking others does not wait for that.
async fn release_idle_leases(hub: Hub) {
    let mut rounds = interval(IDLE_INTERVAL);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let is_unused =
            |tenant: &TenantId| !hub.runs().is_busy(tenant) && !hub.agents().is_awake(tenant);
        let idle: Vec<TenantId> = hub.leases().idle().into_iter().filter(is_unused).collect();
        stream::iter(&idle)
            .for_each_concurrent(CONCURRENT_HANDOVERS, |tenant| hub.hand_over(tenant))
            .await;
    }
}
