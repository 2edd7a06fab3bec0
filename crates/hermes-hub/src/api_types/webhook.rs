//! Webhooks, and what is sent to them: events of the Hub. They name things and leave the rest to their routes, which have
//! rights of their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Time, vocabulary};
use crate::{
    TenantId,
    api_types::ids::{DeliveryId, WebhookId},
};

/// An address that gets events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Where events are posted to.
    pub url: String,
    /// The events it gets.
    pub events: Vec<HubEventType>,
    /// Only those of these tenants; of all, if `null`.
    pub tenants: Option<Vec<TenantId>>,
    /// Whether anything is sent to it.
    pub enabled: bool,
    /// Whether it has a secret to sign with.
    pub has_secret: bool,
    /// When it was created.
    pub created_at: Time,
    /// When it was changed last.
    pub updated_at: Time,
}

vocabulary! {
    /// The state of a delivery.
    DeliveryState {
        /// It is sent, now or later.
        Pending = "pending",
        /// The target has taken it.
        Delivered = "delivered",
        /// It was given up; it can be sent again.
        Dead = "dead",
    }
}

/// An event for a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// Its id, which the target sees as `webhook-id`, the same in every attempt.
    pub id: DeliveryId,
    /// The webhook.
    pub webhook_id: WebhookId,
    /// The type of the event.
    #[serde(rename = "type")]
    pub kind: HubEventType,
    /// Its state.
    pub state: DeliveryState,
    /// How often it was sent.
    pub attempts: u32,
    /// When it is sent next.
    pub next_attempt_at: Option<Time>,
    /// The status of the last answer.
    pub last_status: Option<u16>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// When the event happened.
    pub created_at: Time,
    /// When it was delivered or given up.
    pub ended_at: Option<Time>,
}

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
