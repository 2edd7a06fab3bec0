//! Propagating changes to agents, runs and the scheduler.

use std::sync::Arc;

use super::Hub;
use crate::{
    GroupId, Problem, TenantId,
    api_types::AccessStatus,
    storage::state::{GroupRecord, Notice, Propagation, TenantChange},
    tenants::{leases::LeaseOwner, runs::TenantStop},
};

/// What a change of a tenant affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChangeEffects {
    /// The settings of its agent.
    agent: bool,
    /// Whether its agent may have become always on.
    always_on: bool,
    /// The due times of its jobs.
    jobs: bool,
}

impl ChangeEffects {
    pub(crate) fn from_change(change: &TenantChange) -> Self {
        let has_variables = !(change.env.is_empty() && change.unset_env.is_empty());
        let is_other = change.flavor.is_some() || change.agent.is_some();
        Self {
            agent: is_other || has_variables || change.groups.is_some(),
            always_on: change.flavor.is_some() || has_variables,
            jobs: is_other || change.storage.is_some(),
        }
    }
}

impl Hub {
    /// How far a change has to be propagated: where no agent is concerned, one commit is enough.
    pub(crate) fn required_propagation(
        &self,
        tenant: &TenantId,
        consequences: ChangeEffects,
    ) -> Propagation {
        match consequences.agent {
            false => Propagation::NotNeeded,
            true if self.agents().is_awake(tenant) => Propagation::ViaAgent,
            true => Propagation::NoAgent,
        }
    }

    pub(crate) fn tenant_changed(&self, tenant: &TenantId, consequences: ChangeEffects) {
        self.notify_nodes(Notice::Tenant(tenant.clone()));
        if !consequences.agent && !consequences.jobs {
            return;
        }
        let (hub, id) = (self.clone(), tenant.clone());
        self.tasks().spawn(async move {
            // Its agent may have started since.
            if consequences.agent && hub.agents().is_awake(&id) {
                hub.follow_awake(&id).await;
            } else if consequences.always_on {
                hub.start_always_on_unless_stopped(&id).await;
            }
            if consequences.jobs {
                hub.reload_jobs(&id).await;
            }
        });
    }

    /// A tenant's home is made.
    pub(crate) fn tenant_ready(&self, tenant: &TenantId, starts: bool) {
        if starts {
            self.agents().start(tenant);
        }
        // The node that takes a lease looks for bots. It could not, without a home.
        if self.leases().is_shared() {
            self.tenant_reactivated(tenant);
        }
    }

    /// Settings of a tenant have changed whose agent is awake.
    async fn follow_awake(&self, tenant: &TenantId) {
        // First: an agent that does not answer takes long, and this node may die meanwhile.
        self.record_always_on(tenant).await;
        self.push_settings(tenant).await;
    }

    /// Settings or variables of a tenant have changed.
    pub(crate) fn settings_changed(&self, tenant: &TenantId) {
        self.notify_nodes(Notice::Tenant(tenant.clone()));
        self.follow_settings(tenant);
    }

    /// The same, wherever they were changed.
    pub(super) fn follow_settings(&self, tenant: &TenantId) {
        let (hub, id) = (self.clone(), tenant.clone());
        self.tasks().spawn(async move {
            // Where another node works for the tenant, it follows.
            if hub.leases().hold(&id).await != Ok(LeaseOwner::Mine) {
                hub.leave_to_next_holder(&id).await;
                return;
            }
            if hub.agents().is_awake(&id) {
                hub.follow_awake(&id).await;
            } else {
                if let Err(problem) = hub.mark_observed_if_asleep(&id).await {
                    tracing::warn!(tenant = %id, %problem, "failed to store the observed generation");
                }
                hub.start_always_on_unless_stopped(&id).await;
            }
            hub.reload_jobs(&id).await;
        });
    }

    /// The same, but returns when a running agent has the settings. A starting agent gets them before its first run.
    pub(crate) async fn push_settings_now(&self, tenant: &TenantId) {
        if !self.agents().mark_settings_changed(tenant) {
            self.push_settings(tenant).await;
        }
    }

    /// An agent that is not running gets all settings when it starts.
    async fn mark_observed_if_asleep(&self, tenant: &TenantId) -> Result<(), Problem> {
        if let Some(record) = self.tenant(tenant).await? {
            self.state()
                .observe_generation(tenant, record.generation)
                .await?;
        }
        Ok(())
    }

    /// A tenant was blocked or unblocked.
    pub(crate) async fn access_changed(&self, tenant: &TenantId, status: AccessStatus) {
        self.notify_nodes(Notice::Tenant(tenant.clone()));
        if status == AccessStatus::Blocked {
            if let Err(problem) = self.runs().stop_all(tenant, TenantStop::Blocked).await {
                tracing::warn!(%tenant, %problem, "failed to stop the runs of a blocked tenant");
            }
            self.agents().stop(tenant);
        } else {
            self.tenant_reactivated(tenant);
        }
        self.jobs_changed(tenant);
    }

    /// A tenant that could not work before can now.
    pub(crate) fn tenant_reactivated(&self, tenant: &TenantId) {
        let (hub, tenant) = (self.clone(), tenant.clone());
        self.tasks().spawn(async move {
            tokio::select! {
                () = hub.shutdown().cancelled() => {}
                () = hub.start_if_always_on(&tenant) => {}
            }
        });
    }

    /// A tenant was deleted: when this returns, none of its processes are running.
    pub(crate) async fn tenant_deleted(&self, tenant: &TenantId) {
        if let Err(problem) = self.runs().stop_all(tenant, TenantStop::Deleted).await {
            tracing::warn!(%tenant, %problem, "failed to stop the runs of a deleted tenant");
        }
        self.agents().stop_and_wait(tenant).await;
    }

    /// Policy, configuration or specialization have changed.
    pub(crate) fn directives_changed(&self) {
        let hub = self.clone();
        self.tasks().spawn(async move {
            let awake = hub.agents().awake();
            // Concurrently: an agent that hangs must not delay the others.
            futures::future::join_all(awake.iter().map(|tenant| hub.push_settings(tenant))).await;
        });
    }

    /// Applies the effective settings to a running agent, with a restart if needed.
    async fn push_settings(&self, tenant: &TenantId) {
        if let Err(problem) = self.agents().apply_settings(tenant).await {
            tracing::warn!(%tenant, %problem, "failed to apply changed settings to the agent");
            self.agents().report_unresponsive(tenant).await;
        }
    }

    /// A group or its quota has changed.
    pub(crate) fn group_changed(&self, record: &GroupRecord) {
        self.set_quota(record);
        self.notify_nodes(Notice::Group(record.group.id.clone()));
    }

    /// A group was deleted: its files go to the trash.
    pub(crate) async fn group_deleted(&self, group: &GroupId) {
        self.trash_share(group).await;
        self.notify_nodes(Notice::Group(group.clone()));
    }

    /// A tenant's jobs have changed.
    pub(crate) fn jobs_changed(&self, tenant: &TenantId) {
        let (hub, tenant) = (self.clone(), tenant.clone());
        self.tasks()
            .spawn(async move { hub.reload_jobs(&tenant).await });
    }

    async fn reload_jobs(&self, tenant: &TenantId) {
        let clock = Arc::clone(self.scheduler());
        if let Err(problem) = clock.reload_jobs(tenant).await {
            tracing::warn!(%tenant, %problem, "failed to reload changed cron jobs");
        }
    }
}
