//! Webhooks, and what is sent to them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{HubEventType, Time, vocabulary};
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
