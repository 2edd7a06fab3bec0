//! Propagating changes to agents, runs and the scheduler.

use std::sync::Arc;

use super::Hub;
use crate::{
    GroupId, Problem, TenantId,
    runs::TenantStop,
    shapes::AccessStatus,
    state::{Reach, TenantChange},
};

/// What a change of a tenant affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Consequences {
    /// The settings of its agent.
    agent: bool,
    /// Whether its agent may have become always on.
    listening: bool,
    /// The due times of its jobs.
    jobs: bool,
}

impl Consequences {
    pub(crate) fn of(change: &TenantChange) -> Self {
        let has_variables = !(change.env.is_empty() && change.unset_env.is_empty());
        let is_other = change.flavor.is_some() || change.agent.is_some();
        Self {
            agent: is_other || has_variables || change.groups.is_some(),
            listening: change.flavor.is_some() || has_variables,
            jobs: is_other || change.storage.is_some(),
        }
    }
}

impl Hub {
    /// How far a change has to be propagated: where no agent is concerned, one commit is enough.
    pub(crate) fn reach_of(&self, tenant: &TenantId, consequences: Consequences) -> Reach {
        match consequences.agent {
            false => Reach::Nobody,
            true if self.agents().is_awake(tenant) => Reach::Agent,
            true => Reach::NoAgent,
        }
    }

    pub(crate) fn tenant_changed(&self, tenant: &TenantId, consequences: Consequences) {
        if !consequences.agent && !consequences.jobs {
            return;
        }
        let (hub, id) = (self.clone(), tenant.clone());
        self.work().spawn(async move {
            // Its agent may have started since.
            if consequences.agent && hub.agents().is_awake(&id) {
                hub.hand_over(&id).await;
            } else if consequences.listening {
                hub.start_listener(&id).await;
            }
            if consequences.jobs {
                hub.look_at_jobs(&id).await;
            }
        });
    }

    pub(crate) fn tenant_ready(&self, tenant: &TenantId) {
        self.agents().start(tenant);
    }

    /// Settings or variables of a tenant have changed.
    pub(crate) fn settings_changed(&self, tenant: &TenantId) {
        let (hub, id) = (self.clone(), tenant.clone());
        self.work().spawn(async move {
            if hub.agents().is_awake(&id) {
                hub.hand_over(&id).await;
            } else {
                if let Err(problem) = hub.note_asleep(&id).await {
                    tracing::warn!(tenant = %id, %problem, "failed to store the observed generation");
                }
                hub.start_listener(&id).await;
            }
            hub.look_at_jobs(&id).await;
        });
    }

    /// The same, but returns when a running agent has the settings. A starting agent gets them before its first run.
    pub(crate) async fn hand_over_now(&self, tenant: &TenantId) {
        if !self.agents().take_news(tenant) {
            self.hand_over(tenant).await;
        }
    }

    /// An agent that is not running gets all settings when it starts.
    async fn note_asleep(&self, tenant: &TenantId) -> Result<(), Problem> {
        if let Some(record) = self.tenant(tenant).await? {
            self.state()
                .observe_generation(tenant, record.generation)
                .await?;
        }
        Ok(())
    }

    /// A tenant was blocked or unblocked.
    pub(crate) async fn access_changed(&self, tenant: &TenantId, status: AccessStatus) {
        if status == AccessStatus::Blocked {
            if let Err(problem) = self.runs().stop_all(tenant, TenantStop::Blocked).await {
                tracing::warn!(%tenant, %problem, "failed to stop the runs of a blocked tenant");
            }
            self.agents().stop(tenant);
        } else {
            self.tenant_back(tenant);
        }
        self.jobs_changed(tenant);
    }

    pub(crate) fn tenant_back(&self, tenant: &TenantId) {
        let (hub, tenant) = (self.clone(), tenant.clone());
        self.work().spawn(async move {
            tokio::select! {
                () = hub.stop().cancelled() => {}
                () = hub.start_if_it_listens(&tenant) => {}
            }
        });
    }

    /// A tenant was deleted: when this returns, none of its processes are running.
    pub(crate) async fn tenant_gone(&self, tenant: &TenantId) {
        if let Err(problem) = self.runs().stop_all(tenant, TenantStop::Deleted).await {
            tracing::warn!(%tenant, %problem, "failed to stop the runs of a deleted tenant");
        }
        self.agents().settle(tenant).await;
    }

    /// Policy, configuration or specialization have changed.
    pub(crate) fn directives_changed(&self) {
        let hub = self.clone();
        self.work().spawn(async move {
            let awake = hub.agents().awake();
            // Concurrently: an agent that hangs must not delay the others.
            futures::future::join_all(awake.iter().map(|tenant| hub.hand_over(tenant))).await;
        });
    }

    /// Applies the effective settings to a running agent, with a restart if needed.
    async fn hand_over(&self, tenant: &TenantId) {
        if let Err(problem) = self.agents().apply(tenant).await {
            tracing::warn!(%tenant, %problem, "failed to apply changed settings to the agent");
            self.agents().doubt(tenant).await;
        }
    }

    /// A group or its quota has changed.
    pub(crate) fn share_changed(&self, group: &GroupId) {
        self.shares().forget(group);
    }

    /// A tenant's jobs have changed.
    pub(crate) fn jobs_changed(&self, tenant: &TenantId) {
        let (hub, tenant) = (self.clone(), tenant.clone());
        self.work()
            .spawn(async move { hub.look_at_jobs(&tenant).await });
    }

    async fn look_at_jobs(&self, tenant: &TenantId) {
        let clock = Arc::clone(self.clock());
        if let Err(problem) = clock.changed(tenant).await {
            tracing::warn!(%tenant, %problem, "failed to reload changed cron jobs");
        }
    }
}
