//! The homes of tenants on nodes that hand them over: restored from the last checkpoint when a lease is taken, saved
//! before an effect on them is acknowledged.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use async_trait::async_trait;

use crate::{
    Problem, TenantId,
    api_types::{Condition, ConditionStatus, Time},
    settings::Settings,
    storage::{
        checkpoints::{CheckpointError, Checkpoints, HomeLimit, HomeRef, RestoreOutcome},
        state::{LEASE_LOST, LeaseEpoch, State, StateError, TenantObservation, TenantRecord},
    },
    tenants::{
        documents::EffectiveDocuments,
        leases::{HomeCheckpoints, LeaseEnd},
        lookup::tenant_home,
        settings::effective_storage,
    },
};

/// Until an agent that exceeds its quota is stopped, it writes on. What it has written until then is saved, too.
const BYTES_BEYOND_QUOTA: u64 = 64 << 20;
const FILES_BEYOND_QUOTA: u64 = 10_000;

/// How often it is looked whether a lease is still held while its home is saved.
const LEASE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

const SAVED_CONDITION: &str = "HomeSaved";

pub(super) struct CheckpointedHomes {
    pub(super) checkpoints: Arc<Checkpoints>,
    pub(super) state: Arc<dyn State>,
    pub(super) settings: Arc<ArcSwap<Settings>>,
    pub(super) documents: Arc<ArcSwap<EffectiveDocuments>>,
    pub(super) node: String,
}

impl CheckpointedHomes {
    async fn find(&self, tenant: &TenantId) -> Result<TenantRecord, Problem> {
        let found = self.state.tenant(tenant).await?;
        found.ok_or_else(|| StateError::NotFound { what: "tenant" }.into())
    }

    /// How much of a tenant's home is saved.
    fn limit_of(&self, record: &TenantRecord) -> HomeLimit {
        if record.linked_home.is_some() {
            return HomeLimit::NONE;
        }
        let storage = effective_storage(record, &self.documents.load());
        let with_slack = |quota: u64, slack: u64| quota.saturating_mul(2).saturating_add(slack);
        HomeLimit {
            bytes: with_slack(storage.quota_bytes, BYTES_BEYOND_QUOTA),
            files: with_slack(storage.files_quota, FILES_BEYOND_QUOTA),
        }
    }

    /// Returns when this node has given the lease up or lost it. Does not ask the database.
    async fn wait_for_lease_end(&self, tenant: &TenantId, epoch: LeaseEpoch) {
        while self.state.held_epoch(tenant) == Some(epoch) {
            tokio::time::sleep(LEASE_CHECK_INTERVAL).await;
        }
    }

    /// Tells by a condition of the tenant that its home is too large to be saved, or that it is saved again.
    async fn record_outcome(&self, record: &TenantRecord, problem: Option<&CheckpointError>) {
        let conditions = &record.conditions;
        let known = conditions
            .iter()
            .find(|condition| condition.kind == SAVED_CONDITION);
        let was_refused = known.is_some_and(|known| known.status == ConditionStatus::False);
        let (status, reason, message) = match problem {
            Some(error @ CheckpointError::TooLarge { .. }) if !was_refused => {
                (ConditionStatus::False, "too_large", error.to_string())
            }
            None if was_refused => (ConditionStatus::True, "saved", String::new()),
            _ => return,
        };
        let condition = Condition {
            kind: SAVED_CONDITION.into(),
            status,
            reason: reason.into(),
            message,
            last_transition_time: Time::now(),
        };
        let observation = TenantObservation {
            conditions: vec![condition],
            ..TenantObservation::default()
        };
        if let Err(error) = self.state.observe_tenant(&record.id, observation).await {
            tracing::warn!(tenant = %record.id, %error, "failed to store whether the home is saved");
        }
    }
}

fn lease_lost(tenant: &TenantId) -> StateError {
    StateError::Conflict {
        reason: LEASE_LOST,
        message: format!("this node does not hold the lease of the tenant `{tenant}`"),
    }
}

#[async_trait]
impl HomeCheckpoints for CheckpointedHomes {
    async fn restore(&self, tenant: &TenantId) -> Result<(), Problem> {
        let record = self.find(tenant).await?;
        let home = tenant_home(&self.settings.load(), &record);
        let home = HomeRef {
            tenant,
            uid: &record.uid,
            path: home.path(),
        };
        match self.checkpoints.restore(home).await {
            Ok(RestoreOutcome::Restored(checkpoint)) => {
                tracing::info!(%tenant, %checkpoint, "home restored");
                Ok(())
            }
            Ok(RestoreOutcome::UpToDate(_) | RestoreOutcome::None) => Ok(()),
            Err(error) => Err(report(tenant, error)),
        }
    }

    async fn save(&self, tenant: &TenantId) -> Result<(), Problem> {
        // Of one that was purged meanwhile, or is about to be, there is nothing to hand over.
        let found = self.state.tenant(tenant).await?;
        let Some(record) = found.filter(|record| !record.is_deleted_for_good()) else {
            return Ok(());
        };
        let holder = self.state.lease_holder(tenant).await?;
        let Some(holder) = holder.filter(|holder| holder.node == self.node) else {
            return Err(lease_lost(tenant).into());
        };
        let home = tenant_home(&self.settings.load(), &record);
        let home = HomeRef {
            tenant,
            uid: &record.uid,
            path: home.path(),
        };
        let limit = self.limit_of(&record);
        let saved = tokio::select! {
            saved = self.checkpoints.save(home, holder.epoch, limit) => saved,
            () = self.wait_for_lease_end(tenant, holder.epoch) => Err(lease_lost(tenant).into()),
        };
        self.record_outcome(&record, saved.as_ref().err()).await;
        match saved {
            Ok(_) => Ok(()),
            Err(error) => Err(report(tenant, error)),
        }
    }

    async fn end_lease(&self, tenant: &TenantId, end: LeaseEnd) {
        let is_lost = end == LeaseEnd::Lost;
        let found = self.find(tenant).await;
        let (uid, path) = if let Ok(record) = &found {
            let home = tenant_home(&self.settings.load(), record);
            (record.uid.as_str(), home.path().to_owned())
        } else {
            // The database may be away; a home on the disk is not trusted for that.
            let tenants = self.settings.load().data_dir.join("tenants");
            ("", tenants.join(tenant.as_str()).join("home"))
        };
        let home = HomeRef {
            tenant,
            uid,
            path: &path,
        };
        self.checkpoints.release(home, is_lost).await;
    }
}

fn report(tenant: &TenantId, error: CheckpointError) -> Problem {
    tracing::warn!(%tenant, %error, "checkpoint failed");
    error.into()
}
