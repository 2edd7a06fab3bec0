//! What agents, their runs and the clock have to learn of changes.

use std::sync::Arc;

use super::Hub;
use crate::{
    GroupId, Problem, TenantId,
    runs::TenantStop,
    shapes::AccessStatus,
    state::{Reach, TenantChange},
};

/// What has to be looked at after a change of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Consequences {
    /// Its agent works with something else.
    agent: bool,
    /// It may listen to a messaging platform now.
    listening: bool,
    /// Its jobs run at other times, or not at all.
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
    /// Whom a change of a tenant has to reach, so that one commit is enough where that is nobody.
    pub(crate) fn reach_of(&self, tenant: &TenantId, consequences: Consequences) -> Reach {
        match consequences.agent {
            false => Reach::Nobody,
            true if self.agents().is_awake(tenant) => Reach::Agent,
            true => Reach::NoAgent,
        }
    }

    /// A tenant was changed, with what follows from that.
    pub(crate) fn tenant_changed(&self, tenant: &TenantId, consequences: Consequences) {
        if !consequences.agent && !consequences.jobs {
            return;
        }
        let (hub, id) = (self.clone(), tenant.clone());
        self.work().spawn(async move {
            // It may have woken up since.
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

    /// A tenant's home is there, and its agent may start.
    pub(crate) fn tenant_ready(&self, tenant: &TenantId) {
        self.agents().start(tenant);
    }

    /// Settings or variables of a tenant are others.
    pub(crate) fn settings_changed(&self, tenant: &TenantId) {
        let (hub, id) = (self.clone(), tenant.clone());
        self.work().spawn(async move {
            if hub.agents().is_awake(&id) {
                hub.hand_over(&id).await;
            } else {
                if let Err(problem) = hub.note_asleep(&id).await {
                    tracing::warn!(tenant = %id, "the tenant's generation could not be stored: {problem}");
                }
                hub.start_listener(&id).await;
            }
            hub.look_at_jobs(&id).await;
        });
    }

    /// The same, when it has reached the agent of a tenant that is awake. One that starts gets it before its first run.
    pub(crate) async fn hand_over_now(&self, tenant: &TenantId) {
        if !self.agents().take_news(tenant) {
            self.hand_over(tenant).await;
        }
    }

    /// Who sleeps works with all settings as soon as it is awake.
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
                tracing::warn!(%tenant, "runs of a blocked tenant go on: {problem}");
            }
            self.agents().stop(tenant);
        } else {
            self.tenant_back(tenant);
        }
        self.jobs_changed(tenant);
    }

    /// A tenant is unblocked or restored.
    pub(crate) fn tenant_back(&self, tenant: &TenantId) {
        let (hub, tenant) = (self.clone(), tenant.clone());
        self.work().spawn(async move {
            tokio::select! {
                () = hub.stop().cancelled() => {}
                () = hub.start_if_it_listens(&tenant) => {}
            }
        });
    }

    /// A tenant is deleted: nothing of it runs any more when this returns.
    pub(crate) async fn tenant_gone(&self, tenant: &TenantId) {
        if let Err(problem) = self.runs().stop_all(tenant, TenantStop::Deleted).await {
            tracing::warn!(%tenant, "runs of a deleted tenant go on: {problem}");
        }
        self.agents().settle(tenant).await;
    }

    /// Policy, configuration or specialization are others.
    pub(crate) fn directives_changed(&self) {
        let hub = self.clone();
        self.work().spawn(async move {
            let awake = hub.agents().awake();
            // All at once: one that hangs does not keep the others from them.
            futures::future::join_all(awake.iter().map(|tenant| hub.hand_over(tenant))).await;
        });
    }

    /// Has an agent that is awake work with what is in force now, by a new start if it must be.
    async fn hand_over(&self, tenant: &TenantId) {
        if let Err(problem) = self.agents().apply(tenant).await {
            tracing::warn!(%tenant, "what changed did not reach the agent: {problem}");
            self.agents().doubt(tenant).await;
        }
    }

    /// A group's quota or the group itself is another.
    pub(crate) fn share_changed(&self, group: &GroupId) {
        self.shares().forget(group);
    }

    /// A tenant's jobs are others.
    pub(crate) fn jobs_changed(&self, tenant: &TenantId) {
        let (hub, tenant) = (self.clone(), tenant.clone());
        self.work()
            .spawn(async move { hub.look_at_jobs(&tenant).await });
    }

    async fn look_at_jobs(&self, tenant: &TenantId) {
        let clock = Arc::clone(self.clock());
        if let Err(problem) = clock.changed(tenant).await {
            tracing::warn!(%tenant, "the clock did not take up changed jobs: {problem}");
        }
    }
}
