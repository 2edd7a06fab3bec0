//! What other nodes have changed: it is read again when they say so, and every two seconds.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use hermes_config::sync::Mutex;
use tokio::{
    sync::broadcast::{
        Receiver,
        error::{RecvError, TryRecvError},
    },
    time::{MissedTickBehavior, interval},
};

use super::Hub;
use crate::{
    TenantId,
    api_types::AccessStatus,
    storage::state::{HeldTenant, Notice, StateError, TenantRecord},
    tenants::documents::{DocumentDefaults, EffectiveDocuments},
};

const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Notices that are looked at together.
const MAX_TOGETHER: usize = 1_000;

/// The tenants of this node as they were when it last acted on them.
#[derive(Debug, Default)]
pub(super) struct SeenTenants(Mutex<HashMap<TenantId, HeldTenant>>);

/// A tenant of this node, and how it was before, if that is known.
#[derive(Debug)]
struct SeenTenant {
    before: Option<HeldTenant>,
    now: HeldTenant,
}

impl SeenTenant {
    /// One of which is not known with what its work began may have begun with less.
    fn has_new_settings(&self) -> bool {
        let before = self.before.as_ref();
        before.is_none_or(|before| before.generation != self.now.generation)
    }
}

impl SeenTenants {
    /// The work for a tenant begins with what is stored now. Without that, what changes before the first look would not
    /// be known to be a change.
    fn begin(&self, now: HeldTenant) {
        self.0.lock().insert(now.tenant.clone(), now);
    }

    /// Remembers how tenants are now. One that is not this node's yet is looked at when it is.
    fn look(&self, held: Vec<HeldTenant>, is_mine: impl Fn(&TenantId) -> bool) -> Vec<SeenTenant> {
        let mut seen = self.0.lock();
        // Not those that the answer lacks: one may have begun since it was asked for.
        seen.retain(|tenant, _| is_mine(tenant));
        let held = held.into_iter().filter(|now| is_mine(&now.tenant));
        held.map(|now| SeenTenant {
            before: seen.insert(now.tenant.clone(), now.clone()),
            now,
        })
        .collect()
    }
}

/// What was last seen.
#[derive(Default)]
struct LastSeen {
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
                let Some(first) = notice else {
                    hub.follow_notice(None, &mut seen).await;
                    continue;
                };
                let together = take_waiting(first, &mut notices);
                for notice in merge_notices(together, |tenant| hub.leases().is_mine(tenant)) {
                    hub.follow_notice(Some(notice), &mut seen).await;
                }
            }
        });
    }

    async fn follow_notice(&self, notice: Option<Notice>, seen: &mut LastSeen) {
        if let Err(error) = self.read_noticed(notice, seen).await {
            tracing::debug!(%error, "failed to read changes of other nodes");
        }
    }

    /// `None` is a poll: what has no poll of its own is read.
    async fn read_noticed(
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
            Some(Notice::Tenant(_)) => self.read_tenants_again().await?,
            Some(Notice::Group(group)) => self.follow_group(&group).await?,
            Some(Notice::Run(run)) => self.runs().notice_run(&run).await?,
            Some(Notice::Commands { node }) => {
                if node == self.node() {
                    self.commands_changed().notify_waiters();
                }
            }
            // The state has woken those who wait for them.
            Some(Notice::Events) => {}
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
        self.read_tenants_again().await
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
        let is_same = documents.says_the_same_as(&self.effective_documents());
        let had_messaging = self.allows_messaging();
        // Also if they are the same: what was read earlier may arrive later.
        self.set_effective_documents(documents);
        if !is_same {
            self.directives_changed();
            if !had_messaging {
                self.spawn_always_on_agents();
            }
        }
        Ok(())
    }

    /// Acts on what clients have changed of this node's tenants on other nodes.
    async fn read_tenants_again(&self) -> Result<(), StateError> {
        let held = self.state().held_tenants().await?;
        let is_mine = |tenant: &TenantId| self.leases().is_mine(tenant);
        for seen in self.seen_tenants().look(held, is_mine) {
            self.follow_tenant(&seen);
        }
        Ok(())
    }

    /// Remembers with what the work for a tenant begins, so that the first look finds what has changed since.
    pub(super) fn note_beginning(&self, record: &TenantRecord) {
        // An agent that is awake already may have begun with less.
        if self.agents().is_awake(&record.id) {
            return;
        }
        self.seen_tenants().begin(HeldTenant {
            tenant: record.id.clone(),
            generation: record.generation,
            is_blocked: record.access.status == AccessStatus::Blocked,
            is_deleted: record.deleted_at.is_some(),
        });
    }

    fn follow_tenant(&self, seen: &SeenTenant) {
        let SeenTenant { before, now } = seen;
        let tenant = &now.tenant;
        let must_stop = |seen: &HeldTenant| seen.is_blocked || seen.is_deleted;
        let had_to_stop = before.as_ref().is_some_and(must_stop);
        if must_stop(now) {
            if self.agents().is_awake(tenant) || before.is_some() && !had_to_stop {
                self.agents().stop(tenant);
            }
            return;
        }
        if had_to_stop {
            self.tenant_reactivated(tenant);
        }
        if seen.has_new_settings() {
            self.follow_settings(tenant);
        }
    }
}

/// A notice and those that have come since.
fn take_waiting(first: Notice, notices: &mut Receiver<Notice>) -> HashSet<Notice> {
    let mut together = HashSet::from([first]);
    for _ in 0..MAX_TOGETHER {
        together.insert(match notices.try_recv() {
            Ok(notice) => notice,
            Err(TryRecvError::Lagged(_)) => Notice::Everything,
            Err(TryRecvError::Empty | TryRecvError::Closed) => break,
        });
    }
    together
}

/// What is to be looked at: one look is at all tenants of this node, so one notice of them is enough. The others are for
/// other nodes.
fn merge_notices(notices: HashSet<Notice>, is_mine: impl Fn(&TenantId) -> bool) -> Vec<Notice> {
    if notices.contains(&Notice::Everything) {
        return vec![Notice::Everything];
    }
    let mut looks_at_tenants = false;
    let is_needed = |notice: &Notice| match notice {
        Notice::Tenant(tenant) => {
            is_mine(tenant) && !std::mem::replace(&mut looks_at_tenants, true)
        }
        _ => true,
    };
    notices.into_iter().filter(is_needed).collect()
}

#[cfg(test)]
mod tests {
    use tokio::sync::broadcast;

    use super::*;

    fn tenant(id: &str) -> Notice {
        Notice::Tenant(TenantId::parse(id).unwrap())
    }

    #[test]
    fn of_many_changed_tenants_one_look_is_enough_and_none_for_those_of_other_nodes() {
        let sender = broadcast::Sender::new(100);
        let mut receiver = sender.subscribe();
        for notice in [tenant("a"), tenant("b"), tenant("other"), Notice::Documents] {
            sender.send(notice).unwrap();
        }
        let together = take_waiting(tenant("a"), &mut receiver);
        assert_eq!(together.len(), 4);
        let is_mine = |tenant: &TenantId| tenant.as_str() != "other";
        let merged = merge_notices(together, is_mine);
        assert_eq!(merged.len(), 2, "{merged:?}");
        assert!(merged.contains(&Notice::Documents), "{merged:?}");
        assert!(merged.contains(&tenant("a")) || merged.contains(&tenant("b")));
        let others = HashSet::from([tenant("other")]);
        assert!(merge_notices(others, is_mine).is_empty());
    }

    fn held(id: &str, generation: u64) -> HeldTenant {
        HeldTenant {
            tenant: TenantId::parse(id).unwrap(),
            generation,
            is_blocked: false,
            is_deleted: false,
        }
    }

    #[test]
    fn what_changes_between_the_beginning_and_the_first_look_is_seen_as_a_change() {
        let seen = SeenTenants::default();
        seen.begin(held("changed", 1));
        seen.begin(held("same", 1));
        let looked = seen.look(vec![held("changed", 2), held("same", 1)], |_| true);
        let changed = looked.iter().map(SeenTenant::has_new_settings);
        assert_eq!(changed.collect::<Vec<_>>(), [true, false]);
        // Once.
        let looked = seen.look(vec![held("changed", 2), held("same", 1)], |_| true);
        assert!(!looked.iter().any(SeenTenant::has_new_settings));
    }

    #[test]
    fn a_tenant_of_which_the_beginning_is_not_known_counts_as_changed() {
        let seen = SeenTenants::default();
        let others = seen.look(vec![held("acme", 1)], |_| false);
        assert!(others.is_empty(), "{others:?}");
        // Nor was it remembered while it was another node's.
        let looked = seen.look(vec![held("acme", 1)], |_| true);
        assert_eq!(looked.len(), 1);
        assert!(looked[0].has_new_settings());
    }

    #[test]
    fn a_look_that_was_asked_for_before_a_tenant_began_does_not_forget_it() {
        let seen = SeenTenants::default();
        seen.begin(held("acme", 1));
        assert!(seen.look(Vec::new(), |_| true).is_empty());
        let looked = seen.look(vec![held("acme", 1)], |_| true);
        assert!(!looked[0].has_new_settings());
        // What it was under an earlier lease does not count.
        assert!(seen.look(Vec::new(), |_| false).is_empty());
        let looked = seen.look(vec![held("acme", 1)], |_| true);
        assert!(looked[0].has_new_settings());
    }

    #[test]
    fn whoever_missed_a_notice_looks_at_everything_once() {
        let sender = broadcast::Sender::new(2);
        let mut receiver = sender.subscribe();
        for id in ["a", "b", "c", "d"] {
            sender.send(tenant(id)).unwrap();
        }
        let together = take_waiting(Notice::Work, &mut receiver);
        assert_eq!(merge_notices(together, |_| true), [Notice::Everything]);
    }
}
