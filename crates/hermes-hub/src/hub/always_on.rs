//! Agents with a messaging platform run whenever the Hub does. Homes and variables say which these are; most tenants
//! have neither a configuration nor variables and are skipped cheaply.

use std::collections::HashSet;

use futures::{StreamExt, stream};
use hermes_config::Home;
use hermes_protocol::Feature;

use super::Hub;
use crate::{
    Problem, TenantId,
    api_types::{AccessStatus, AgentPhase, TenantStatus},
    storage::state::StateError,
    tenants::{agents::WakePolicy, leases::LeaseOwner},
};

const PAGE_SIZE: u32 = 1000;

const MAX_CONCURRENT_STARTS: usize = 4;

impl Hub {
    /// Whether the policy allows messaging.
    pub(crate) fn allows_messaging(&self) -> bool {
        let documents = self.effective_documents();
        documents.policy().features.has(Feature::Messaging)
    }

    /// Starts all always-on agents in the background.
    pub(crate) fn spawn_always_on_agents(&self) {
        let hub = self.clone();
        self.tasks().spawn(async move {
            tokio::select! {
                () = hub.shutdown().cancelled() => {}
                started = hub.start_always_on_agents() => if let Err(error) = started {
                    tracing::warn!(%error, "failed to start always-on agents; start them by hand");
                }
            }
        });
    }

    /// Starts a tenant's agent if it is always on, unless somebody has stopped it.
    pub(super) async fn start_always_on_unless_stopped(&self, tenant: &TenantId) {
        let state = self.agents().state(tenant).await.state;
        if state == AgentPhase::Sleeping {
            self.start_if_always_on(tenant).await;
        } else {
            self.record_always_on(tenant).await;
        }
    }

    /// Also records whether it is always on.
    pub(super) async fn start_if_always_on(&self, tenant: &TenantId) {
        let started = async {
            if self.leases().hold(tenant).await? != LeaseOwner::Mine {
                self.leave_to_next_holder(tenant).await;
                return Ok(());
            }
            let spec = self.agents().record_always_on(tenant).await?;
            if spec.access == AccessStatus::Active && spec.wake_policy == WakePolicy::Always {
                self.agents().wake(tenant).await?;
            }
            Ok::<_, Problem>(())
        };
        if let Err(problem) = started.await {
            tracing::warn!(%tenant, %problem, "failed to start an always-on agent");
            self.agents().look_again(tenant);
        }
    }

    /// Something of a tenant has changed that another node works for. It follows, unless it stops just now or has died.
    /// Then nobody would know that there may be a bot: so the tenant counts as always on until a node has looked.
    pub(super) async fn leave_to_next_holder(&self, tenant: &TenantId) {
        let id = tenant.clone();
        let mark = move |hub: Self| {
            let id = id.clone();
            async move { hub.state().set_always_on(&id, true).await }
        };
        self.retry_until_stored("recording that a tenant may be always on", mark)
            .await;
    }

    /// An agent that runs may have got its first platform, or lost its last one: another node has to know when this one
    /// is gone.
    pub(super) async fn record_always_on(&self, tenant: &TenantId) {
        if !self.leases().is_shared() {
            return;
        }
        if !self.leases().is_mine(tenant) {
            self.leave_to_next_holder(tenant).await;
            return;
        }
        if let Err(problem) = self.agents().record_always_on(tenant).await {
            tracing::warn!(%tenant, %problem, "failed to record whether an agent is always on");
            // A look too many does no harm.
            self.leave_to_next_holder(tenant).await;
        }
    }

    /// Where several nodes work, agents are started with the leases of their tenants. Some are held already.
    async fn start_held_agents(&self) {
        self.leases().look_for_work();
        stream::iter(self.leases().held())
            .for_each_concurrent(MAX_CONCURRENT_STARTS, |tenant| async move {
                self.start_always_on_unless_stopped(&tenant).await;
            })
            .await;
    }

    async fn start_always_on_agents(&self) -> Result<(), StateError> {
        if !self.allows_messaging() {
            return Ok(());
        }
        if self.leases().is_shared() {
            self.start_held_agents().await;
            return Ok(());
        }
        let with_variables: HashSet<TenantId> =
            self.state().env_owners().await?.into_iter().collect();
        let mut last = None;
        loop {
            let tenants = self.state().tenant_homes(last.as_ref(), PAGE_SIZE).await?;
            last = tenants.last().map(|tenant| tenant.id.clone());
            if last.is_none() {
                return Ok(());
            }
            // A linked home belongs to the user, who starts its gateway.
            let tenants = tenants.into_iter().filter(|tenant| {
                tenant.status == TenantStatus::Ready
                    && tenant.access == AccessStatus::Active
                    && tenant.linked_home.is_none()
            });
            let homes: Vec<_> = tenants
                .map(|tenant| {
                    let home = Home::at(self.agents().tenant_lookup().home(&tenant));
                    let has_variables = with_variables.contains(&tenant.id);
                    (tenant.id, home, has_variables)
                })
                .collect();
            let configured = tokio::task::spawn_blocking(move || {
                let configured = homes.into_iter().filter(|(_, home, has_variables)| {
                    *has_variables || home.config_file().exists() || home.env_file().exists()
                });
                configured.map(|(id, ..)| id).collect::<Vec<_>>()
            });
            let configured = configured.await.map_err(StateError::broken)?;
            stream::iter(configured)
                .for_each_concurrent(MAX_CONCURRENT_STARTS, |tenant| async move {
                    self.start_if_always_on(&tenant).await;
                })
                .await;
        }
    }
}
