//! Events of the Hub: what happened to tenants and their runs. They name things and leave the rest to their routes, which
//! have rights of their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Time, vocabulary};
use crate::TenantId;

vocabulary! {
    /// The type of an event of the Hub.
    HubEventType {
        /// A run has ended.
        RunEnded = "run.ended",
        /// A run waits for an approval.
        ApprovalWaiting = "approval.waiting",
        /// A tenant's home could not be created, or its agent died or does not start.
        TenantFailed = "tenant.failed",
        /// A tenant uses nearly all of its disk space.
        QuotaNear = "quota.near",
        /// An MCP server of a tenant waits for a login.
        LoginNeeded = "login.needed",
        /// A tenant was created.
        TenantCreated = "tenant.created",
        /// A tenant's settings, access or limits were changed, or it was restored.
        TenantChanged = "tenant.changed",
        /// A tenant was deleted.
        TenantDeleted = "tenant.deleted",
        /// A webhook is tested. Only that webhook gets it.
        WebhookTest = "webhook.test",
    }
}

/// An event of the Hub, as stored and as sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HubEvent {
    /// 1, 2, 3 and so on.
    pub id: u64,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: HubEventType,
    /// When it happened.
    pub timestamp: Time,
    /// The tenant.
    pub tenant_id: TenantId,
    /// What it is about: ids, states, reasons.
    pub data: Map<String, Value>,
}
