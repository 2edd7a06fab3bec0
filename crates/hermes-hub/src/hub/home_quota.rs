//! The storage quota of tenants. Homes are measured while agents run, because agents write to them directly. A tenant
//! over its quota gets no further runs, and is stopped while it keeps growing.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::Hub;
use crate::{
    Problem, ProblemCode, TenantId,
    api_types::{Condition, ConditionStatus, Time},
    storage::{
        files,
        state::{NEAR_QUOTA, StorageUsage, TenantObservation, TenantRecord, UsageOwner},
    },
    tenants::{
        agents::QuotaState,
        documents::EffectiveDocuments,
        runs::TenantStop,
        settings::{effective_storage, quota_state},
    },
};

const MEASURE_INTERVAL: Duration = Duration::from_secs(5);

/// Measuring takes at most 1/20 of the time, so large homes are measured less often.
const MEASURE_TIME_DIVISOR: u32 = 20;

const QUOTA_CONDITION: &str = "StorageWithinQuota";

/// Measures the homes of running agents until the Hub stops.
pub(super) async fn run_measurements(hub: Hub) {
    let mut next: HashMap<TenantId, Instant> = HashMap::new();
    loop {
        tokio::select! {
            () = hub.shutdown().cancelled() => return,
            () = tokio::time::sleep(MEASURE_INTERVAL) => {}
        }
        let awake = hub.agents().awake();
        next.retain(|tenant, _| awake.contains(tenant));
        for tenant in awake {
            let started = Instant::now();
            if hub.shutdown().is_cancelled()
                || next.get(&tenant).is_some_and(|next| started < *next)
            {
                continue;
            }
            if let Err(problem) = hub.enforce_quota(&tenant).await {
                tracing::warn!(%tenant, %problem, "failed to measure a tenant's home");
            }
            next.insert(tenant, started + started.elapsed() * MEASURE_TIME_DIVISOR);
        }
    }
}

impl Hub {
    /// Refuses work for a tenant over its quota. It is measured again first, since space may have been freed.
    pub(crate) async fn check_quota(&self, record: &TenantRecord) -> Result<(), Problem> {
        if quota_state(record, &self.effective_documents()) == QuotaState::Within {
            return Ok(());
        }
        let record = self.measure_home(record).await?;
        if quota_state(&record, &self.effective_documents()) == QuotaState::Within {
            return Ok(());
        }
        let storage = effective_storage(&record, &self.effective_documents());
        let message = format!(
            "the tenant uses {} bytes in {} files, and may use {} in {}: raise `storage.quotaBytes` or \
             `storage.filesQuota`, or remove files from its home",
            record.used.bytes, record.used.files, storage.quota_bytes, storage.files_quota
        );
        Err(Problem::new(ProblemCode::OutOfSpace, message).with_reason("quota"))
    }

    /// Measures a tenant's home, and stops its agent if the quota is exceeded.
    pub(crate) async fn enforce_quota(&self, tenant: &TenantId) -> Result<(), Problem> {
        let Some(before) = self.tenant(tenant).await? else {
            return Ok(());
        };
        if before.linked_home.is_some() {
            return Ok(());
        }
        let after = self.measure_home(&before).await?;
        let has_grown =
            after.used.bytes > before.used.bytes || after.used.files > before.used.files;
        if has_grown && quota_state(&after, &self.effective_documents()) == QuotaState::Exceeded {
            tracing::warn!(%tenant, "tenant exceeds its storage quota; stopping its agent");
            self.runs().stop_all(tenant, TenantStop::Quota).await?;
            self.agents().stop(tenant);
        }
        Ok(())
    }

    /// Measures a tenant's home and stores its usage.
    async fn measure_home(&self, record: &TenantRecord) -> Result<TenantRecord, Problem> {
        if !self.leases().is_mine(&record.id) {
            // The node that works for the tenant has its home, and measures it.
            return Ok(record.clone());
        }
        let home = self.home(record).path().to_owned();
        let measured = tokio::task::spawn_blocking(move || files::measure_directory(&home)).await;
        let used = match measured {
            Ok(Ok(used)) => StorageUsage {
                bytes: used.bytes,
                files: used.files,
            },
            // The home does not exist yet, or not any more.
            Ok(Err(rustix::io::Errno::NOENT)) => StorageUsage::default(),
            Ok(Err(error)) => return Err(Problem::internal(&error)),
            Err(error) => return Err(Problem::internal(&error)),
        };
        if used != record.used {
            let owner = UsageOwner::Tenant(record.id.clone());
            self.state().set_usage(&owner, used).await?;
        }
        let measured = TenantRecord {
            used,
            ..record.clone()
        };
        self.record_quota_condition(&measured).await?;
        Ok(measured)
    }

    /// Stores the quota condition, if it has changed.
    async fn record_quota_condition(&self, record: &TenantRecord) -> Result<(), Problem> {
        let known = record
            .conditions
            .iter()
            .find(|condition| condition.kind == QUOTA_CONDITION);
        let room = quota_state(record, &self.effective_documents());
        let (status, reason, message) = match room {
            QuotaState::Within if is_near_quota(record, &self.effective_documents()) => (
                ConditionStatus::True,
                NEAR_QUOTA,
                "nearly all disk space is used: raise the quota or remove files".to_owned(),
            ),
            QuotaState::Within => (ConditionStatus::True, "within_quota", String::new()),
            QuotaState::Exceeded => (
                ConditionStatus::False,
                "over_quota",
                "no run begins until files are removed or the quota is raised".to_owned(),
            ),
        };
        // A tenant that was never near its quota has no such condition.
        let was = known.map_or("within_quota", |condition| condition.reason.as_str());
        if was == reason {
            return Ok(());
        }
        let condition = Condition {
            kind: QUOTA_CONDITION.into(),
            status,
            reason: reason.into(),
            message,
            last_transition_time: Time::now(),
        };
        let observation = TenantObservation {
            conditions: vec![condition],
            ..TenantObservation::default()
        };
        self.state().observe_tenant(&record.id, observation).await?;
        Ok(())
    }
}

/// Whether more than nine tenths of the disk space or of the files are used.
fn is_near_quota(record: &TenantRecord, effective_documents: &EffectiveDocuments) -> bool {
    let storage = effective_storage(record, effective_documents);
    let is_near = |used: u64, most: u64| used.saturating_mul(10) > most.saturating_mul(9);
    is_near(record.used.bytes, storage.quota_bytes)
        || is_near(record.used.files, storage.files_quota)
}
