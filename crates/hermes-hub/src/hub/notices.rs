//! What other nodes have changed: it is read again when they say so, and every two seconds.

use std::{collections::HashMap, time::Duration};

use tokio::{
    sync::broadcast::error::RecvError,
    time::{MissedTickBehavior, interval},
};

use super::Hub;
use crate::{
    TenantId,
    storage::state::{HeldTenant, Notice, StateError},
    tenants::documents::{DocumentDefaults, EffectiveDocuments},
};

const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// What was last seen.
#[derive(Default)]
struct LastSeen {
    /// The tenants of this node.
    tenants: HashMap<TenantId, HeldTenant>,
    /// How often skills that tenants are given were changed.
    skill_changes: Option<u64>,
}

impl Hub {
    /// Tells the other nodes, if there are any.
    pub(crate) fn notify_nodes(&self, notice: Notice) {
        self.state().notify(notice);
    }

    /// Begins to follow what other nodes change.
    pub(super) fn start_notices(&self) {
        let Some(mut notices) = self.state().listen() else {
            return;
        };
        let hub = self.clone();
        self.leases().spawn(async move {
            let mut polls = interval(POLL_INTERVAL);
            polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut seen = LastSeen::default();
            loop {
                let notice = tokio::select! {
                    notice = notices.recv() => match notice {
                        Ok(notice) => Some(notice),
                        Err(RecvError::Lagged(_)) => Some(Notice::Everything),
                        Err(RecvError::Closed) => return,
                    },
                    _ = polls.tick() => None,
                };
                if let Err(error) = hub.follow_notice(notice, &mut seen).await {
                    tracing::debug!(%error, "failed to read what other nodes have changed");
                }
            }
        });
    }

    /// `None` is a poll: what has no poll of its own is read.
    async fn follow_notice(
        &self,
        notice: Option<Notice>,
        seen: &mut LastSeen,
    ) -> Result<(), StateError> {
        match notice {
            Some(Notice::Work) => {
                self.leases().look_for_work();
                self.runs().notify_queues();
            }
            Some(Notice::Documents) => self.read_documents_again().await?,
            Some(Notice::Skills) => {
                self.state().catch_up().await?;
                self.follow_skills(seen);
            }
            Some(Notice::Tenant(_)) => self.read_tenants_again(seen).await?,
            Some(Notice::Group(group)) => self.follow_group(&group).await?,
            Some(Notice::Run(run)) => self.runs().notice_run(&run).await?,
            Some(Notice::Commands { node }) => {
                if node == self.node() {
                    self.commands_changed().notify_waiters();
                }
            }
            Some(Notice::Everything) => {
                self.runs().notice_all_runs();
                self.leases().look_for_work();
                self.commands_changed().notify_waiters();
                self.read_changes(seen).await?;
            }
            None => self.read_changes(seen).await?,
        }
        Ok(())
    }

    async fn read_changes(&self, seen: &mut LastSeen) -> Result<(), StateError> {
        // A node without requests must not fall behind.
        self.state().catch_up().await?;
        self.follow_skills(seen);
        self.runs().notice_stops().await?;
        self.read_documents_again().await?;
        self.read_quotas().await?;
        self.read_tenants_again(seen).await
    }

    /// Gives skills that were changed to the agents that are awake here.
    fn follow_skills(&self, seen: &mut LastSeen) {
        let now = self.state().skill_changes();
        let before = std::mem::replace(&mut seen.skill_changes, now);
        // Before the first look no agent was awake.
        if before.is_some() && before != now {
            self.directives_changed();
        }
    }

    pub(super) async fn read_documents_again(&self) -> Result<(), StateError> {
        let defaults = DocumentDefaults::from_settings(&self.settings());
        let documents = EffectiveDocuments::load(self.state(), defaults).await?;
        if documents.revisions() != self.effective_documents().revisions() {
            let had_messaging = self.allows_messaging();
            self.set_effective_documents(documents);
            self.directives_changed();
            if !had_messaging {
                self.spawn_always_on_agents();
            }
        }
        Ok(())
    }

    /// Acts on what clients have changed of this node's tenants on other nodes.
    async fn read_tenants_again(&self, seen: &mut LastSeen) -> Result<(), StateError> {
        let held = self.state().held_tenants().await?;
        let before = std::mem::take(&mut seen.tenants);
        for tenant in held {
            let id = tenant.tenant.clone();
            // One that is not this node's yet is looked at when it is.
            if self.leases().is_mine(&id) {
                self.follow_tenant(before.get(&id), &tenant);
                seen.tenants.insert(id, tenant);
            }
        }
        Ok(())
    }

    fn follow_tenant(&self, before: Option<&HeldTenant>, now: &HeldTenant) {
        let tenant = &now.tenant;
        let must_stop = |seen: &HeldTenant| seen.is_blocked || seen.is_deleted;
        let had_to_stop = before.is_some_and(must_stop);
        // An agent that began before the first look may have begun with what was stored then.
        let is_awake = self.agents().is_awake(tenant);
        if must_stop(now) {
            if is_awake || before.is_some() && !had_to_stop {
                self.agents().stop(tenant);
            }
            return;
        }
        if had_to_stop {
            self.tenant_reactivated(tenant);
        }
        let is_changed = before.map_or(is_awake, |before| before.generation != now.generation);
        if is_changed {
            self.follow_settings(tenant);
        }
    }
}
