//! Events of the Hub: stored with what they tell of, in one transaction, then sent.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::{NewApproval, RunRecord, StateError, TenantRecord, columns::ColumnReader};
use crate::{
    TenantId,
    api_types::{Condition, ConditionStatus, HubEvent, HubEventType, TenantStatus, Time},
};

/// Conditions whose change is an event: their type, and what the event is.
const CONDITION_EVENTS: [(&str, HubEventType); 3] = [
    ("AgentHealthy", HubEventType::TenantFailed),
    ("StorageWithinQuota", HubEventType::QuotaNear),
    ("LoginsValid", HubEventType::LoginNeeded),
];

/// The reason of a condition that is about to become false.
pub const NEAR_QUOTA: &str = "near_quota";

#[derive(Debug, Clone, PartialEq)]
pub struct NewHubEvent {
    pub kind: HubEventType,
    pub tenant: TenantId,
    pub data: Map<String, Value>,
}

impl NewHubEvent {
    fn new(kind: HubEventType, tenant: &TenantId, data: Value) -> Self {
        Self {
            kind,
            tenant: tenant.clone(),
            data: match data {
                Value::Object(data) => data,
                _ => Map::new(),
            },
        }
    }

    pub(super) fn run_ended(record: &RunRecord) -> Self {
        let run = &record.run;
        let data = json!({
            "runId": run.run_id,
            "status": run.status,
            "trigger": run.trigger,
            "jobId": record.job,
            "errorCode": run.error.as_ref().map(|error| &error.code),
        });
        Self::new(HubEventType::RunEnded, &run.tenant_id, data)
    }

    pub(super) fn approval_waiting(record: &RunRecord, approval: &NewApproval) -> Self {
        let run = &record.run;
        let data = json!({
            "approvalId": approval.id,
            "runId": run.run_id,
            "expiresAt": approval.expires_at,
        });
        Self::new(HubEventType::ApprovalWaiting, &run.tenant_id, data)
    }

    pub(super) fn tenant(kind: HubEventType, record: &TenantRecord) -> Self {
        let data = json!({
            "status": record.status,
            "access": record.access.status,
            "generation": record.generation,
        });
        Self::new(kind, &record.id, data)
    }

    pub(super) fn limits_changed(tenant: &TenantId) -> Self {
        let data = json!({"changed": "limits"});
        Self::new(HubEventType::TenantChanged, tenant, data)
    }

    /// What an observation of a tenant tells: it has failed, or a condition has become worse.
    pub(super) fn observed(
        old: &TenantRecord,
        status: TenantStatus,
        conditions: &[Condition],
    ) -> Vec<Self> {
        let mut events = Vec::new();
        if status == TenantStatus::Failed && old.status != TenantStatus::Failed {
            let data =
                json!({"reason": "provisioning", "message": "its home could not be created"});
            events.push(Self::new(HubEventType::TenantFailed, &old.id, data));
        }
        for condition in conditions {
            let known = CONDITION_EVENTS.iter();
            let Some((_, kind)) = known.clone().find(|(name, _)| *name == condition.kind) else {
                continue;
            };
            let before = old
                .conditions
                .iter()
                .find(|known| known.kind == condition.kind);
            let was_bad = before.is_some_and(is_bad);
            let is_other = before.is_none_or(|before| before.reason != condition.reason);
            // Another server that waits for a login is news; another death of an agent that was ill is not.
            let is_news = match kind {
                HubEventType::TenantFailed => !was_bad,
                _ => !was_bad || is_other,
            };
            if is_bad(condition) && is_news {
                let data = json!({"reason": condition.reason, "message": condition.message});
                events.push(Self::new(*kind, &old.id, data));
            }
        }
        events
    }
}

fn is_bad(condition: &Condition) -> bool {
    condition.status == ConditionStatus::False || condition.reason == NEAR_QUOTA
}

#[derive(Debug, Clone, Default)]
pub struct HubEventQuery {
    pub after: u64,
    /// Of these types, if any is named.
    pub kinds: Vec<HubEventType>,
    pub tenant: Option<TenantId>,
    /// Only these tenants, which the token covers.
    pub only: Option<Vec<TenantId>>,
}

/// Which events are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HubEventRange {
    /// The oldest, if any.
    pub oldest: Option<u64>,
    /// The last one that there ever was; 0 before the first.
    pub last: u64,
}

#[async_trait]
pub trait HubEventStore {
    /// Events after one of them, oldest first.
    async fn hub_events(
        &self,
        query: &HubEventQuery,
        most: u32,
    ) -> Result<Vec<HubEvent>, StateError>;

    async fn hub_event_range(&self) -> Result<HubEventRange, StateError>;

    /// Changes whenever this process has stored an event, and soon after another node has.
    fn hub_event_notice(&self) -> watch::Receiver<u64>;

    async fn forget_hub_events(&self, before: Time) -> Result<u64, StateError>;
}

pub(super) fn event_from_row(row: &impl ColumnReader) -> Result<HubEvent, StateError> {
    Ok(HubEvent {
        id: row.count("id")?,
        kind: row.word("type", HubEventType::from_word)?,
        timestamp: row.time("time")?,
        tenant_id: row.id("tenant", TenantId::parse)?,
        data: row.json("data")?,
    })
}
