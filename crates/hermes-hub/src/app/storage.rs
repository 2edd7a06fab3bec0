//! The storage quota of tenants. Homes are measured while agents run, because agents write to them directly. A tenant
//! over its quota gets no further runs, and is stopped while it keeps growing.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::Hub;
use crate::{
    Code, Problem, TenantId,
    agents::Room,
    files,
    runs::TenantStop,
    service::tenants,
    shapes::{Condition, ConditionStatus, Time},
    state::{Observation, Owner, TenantRecord, Usage},
};

const ROUND: Duration = Duration::from_secs(5);

/// Measuring takes at most 1/20 of the time, so large homes are measured less often.
const SHARE_OF_TIME: u32 = 20;

const CONDITION: &str = "StorageWithinQuota";

/// Measures the homes of running agents until the Hub stops.
pub(super) async fn run(hub: Hub) {
    let mut next: HashMap<TenantId, Instant> = HashMap::new();
    loop {
        tokio::select! {
            () = hub.stop().cancelled() => return,
            () = tokio::time::sleep(ROUND) => {}
        }
        let awake = hub.agents().awake();
        next.retain(|tenant, _| awake.contains(tenant));
        for tenant in awake {
            let started = Instant::now();
            if hub.stop().is_cancelled() || next.get(&tenant).is_some_and(|next| started < *next) {
                continue;
            }
            if let Err(problem) = hub.watch_growth(&tenant).await {
                tracing::warn!(%tenant, %problem, "failed to measure the tenant's home");
            }
            next.insert(tenant, started + started.elapsed() * SHARE_OF_TIME);
        }
    }
}

impl Hub {
    /// Refuses work for a tenant over its quota. It is measured again first, since space may have been freed.
    pub(crate) async fn ensure_room(&self, record: &TenantRecord) -> Result<(), Problem> {
        if tenants::room(record, &self.standing()) == Room::Left {
            return Ok(());
        }
        let record = self.measure(record).await?;
        if tenants::room(&record, &self.standing()) == Room::Left {
            return Ok(());
        }
        let storage = tenants::storage(&record, &self.standing());
        let message = format!(
            "the tenant takes {} bytes in {} files, and may take {} in {}: raise `storage.quotaBytes` or \
             `storage.filesQuota`, or remove files from its home",
            record.used.bytes, record.used.files, storage.quota_bytes, storage.files_quota
        );
        Err(Problem::new(Code::OutOfSpace, message).because("quota"))
    }

    /// Measures a tenant's home, and stops its agent if the quota is exceeded.
    pub(crate) async fn watch_growth(&self, tenant: &TenantId) -> Result<(), Problem> {
        let Some(before) = self.tenant(tenant).await? else {
            return Ok(());
        };
        if before.linked_home.is_some() {
            return Ok(());
        }
        let after = self.measure(&before).await?;
        let has_grown =
            after.used.bytes > before.used.bytes || after.used.files > before.used.files;
        if has_grown && tenants::room(&after, &self.standing()) == Room::Full {
            tracing::warn!(%tenant, "tenant exceeds its storage quota; stopping its agent");
            self.runs().stop_all(tenant, TenantStop::Quota).await?;
            self.agents().stop(tenant);
        }
        Ok(())
    }

    /// Measures a tenant's home and stores its usage.
    async fn measure(&self, record: &TenantRecord) -> Result<TenantRecord, Problem> {
        let home = self.home(record).path().to_owned();
        let measured = tokio::task::spawn_blocking(move || files::measure(&home)).await;
        let used = match measured {
            Ok(Ok(used)) => Usage {
                bytes: used.bytes,
                files: used.files,
            },
            // The home does not exist yet, or not any more.
            Ok(Err(rustix::io::Errno::NOENT)) => Usage::default(),
            Ok(Err(error)) => return Err(Problem::internal(&error)),
            Err(error) => return Err(Problem::internal(&error)),
        };
        if used != record.used {
            let owner = Owner::Tenant(record.id.clone());
            self.state().set_usage(&owner, used).await?;
        }
        let measured = TenantRecord {
            used,
            ..record.clone()
        };
        self.note_room(&measured).await?;
        Ok(measured)
    }

    /// Stores the quota condition, if it has changed.
    async fn note_room(&self, record: &TenantRecord) -> Result<(), Problem> {
        let known = record
            .conditions
            .iter()
            .find(|condition| condition.kind == CONDITION);
        let room = tenants::room(record, &self.standing());
        let (status, reason, message) = match room {
            Room::Left => (ConditionStatus::True, "within_quota", String::new()),
            Room::Full => (
                ConditionStatus::False,
                "over_quota",
                "no run begins until files are removed or the quota is raised".to_owned(),
            ),
        };
        // A tenant that was never over its quota has no such condition.
        let was = known.map_or(ConditionStatus::True, |condition| condition.status);
        if was == status {
            return Ok(());
        }
        let condition = Condition {
            kind: CONDITION.into(),
            status,
            reason: reason.into(),
            message,
            last_transition_time: Time::now(),
        };
        let observation = Observation {
            conditions: vec![condition],
            ..Observation::default()
        };
        self.state().observe_tenant(&record.id, observation).await?;
        Ok(())
    }
}
