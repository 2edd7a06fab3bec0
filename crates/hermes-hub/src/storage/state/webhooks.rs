//! Webhooks, and the queue of what is sent to them.

use async_trait::async_trait;

use super::{Page, Paged, StateError, columns::ColumnReader};
use crate::{
    TenantId,
    api_types::{
        Delivery, DeliveryState, HubEvent, HubEventType, Time, Webhook,
        ids::{DeliveryId, WebhookId},
    },
    storage::{audit::NewAuditEntry, encryption::EncryptedSecret},
};

pub(super) const NO_WEBHOOK: StateError = StateError::NotFound { what: "webhook" };
pub(super) const NO_DELIVERY: StateError = StateError::NotFound { what: "delivery" };

#[derive(Debug, Clone)]
pub struct WebhookRecord {
    pub webhook: Webhook,
    /// The secret to sign with; `None` after the key was lost.
    pub secret: Option<EncryptedSecret>,
    pub revision: u64,
}

impl WebhookRecord {
    /// Whether an event is for it.
    pub fn wants(&self, event: &HubEvent) -> bool {
        let tenants = self.webhook.tenants.as_ref();
        self.webhook.events.contains(&event.kind)
            && tenants.is_none_or(|tenants| tenants.contains(&event.tenant_id))
    }
}

#[derive(Debug, Clone)]
pub struct NewWebhook {
    pub id: WebhookId,
    pub url: String,
    pub events: Vec<HubEventType>,
    pub tenants: Option<Vec<TenantId>>,
    pub enabled: bool,
    pub secret: EncryptedSecret,
}

/// `None` leaves a value unchanged.
#[derive(Debug, Clone, Default)]
pub struct WebhookChange {
    pub url: Option<String>,
    pub events: Option<Vec<HubEventType>>,
    pub tenants: Option<Option<Vec<TenantId>>>,
    pub enabled: Option<bool>,
    pub secret: Option<EncryptedSecret>,
}

/// A delivery that this process may attempt.
#[derive(Debug, Clone)]
pub struct ClaimedDelivery {
    pub id: DeliveryId,
    pub body: String,
    /// Attempts before this one, since it was created or put back by hand.
    pub attempts: u32,
}

/// How an attempt went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptResult {
    pub status: Option<u16>,
    pub error: Option<String>,
    pub next: NextAttempt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextAttempt {
    /// None: it was taken.
    Delivered,
    /// None: it is given up.
    GivenUp,
    At(Time),
}

#[async_trait]
pub trait WebhookStore {
    /// Adds a webhook, if there are fewer than `most`. It gets later events only.
    async fn create_webhook(
        &self,
        webhook: NewWebhook,
        most: u32,
        entry: NewAuditEntry,
    ) -> Result<WebhookRecord, StateError>;

    async fn webhook(&self, id: &WebhookId) -> Result<Option<WebhookRecord>, StateError>;

    /// All of them, by age.
    async fn webhooks(&self) -> Result<Vec<WebhookRecord>, StateError>;

    async fn update_webhook(
        &self,
        id: &WebhookId,
        change: WebhookChange,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<WebhookRecord, StateError>;

    /// Deletes a webhook and its deliveries.
    async fn delete_webhook(&self, id: &WebhookId, entry: NewAuditEntry) -> Result<(), StateError>;

    /// Turns a webhook off whose target does not exist any more.
    async fn disable_webhook(&self, id: &WebhookId, entry: NewAuditEntry)
    -> Result<(), StateError>;

    /// Makes deliveries of events that were not looked at yet, `most` at a time; returns how many were looked at. Each
    /// event is looked at once, whatever process is killed.
    async fn fan_out_events(&self, now: Time, most: u32) -> Result<u32, StateError>;

    /// Enabled webhooks that have something to send.
    async fn due_webhooks(&self, now: Time) -> Result<Vec<WebhookId>, StateError>;

    /// When the next delivery of an enabled webhook is due.
    async fn next_delivery(&self) -> Result<Option<Time>, StateError>;

    /// Claims due deliveries until a time: whoever is killed meanwhile leaves them to the next.
    async fn claim_deliveries(
        &self,
        webhook: &WebhookId,
        now: Time,
        until: Time,
        most: u32,
    ) -> Result<Vec<ClaimedDelivery>, StateError>;

    async fn finish_attempt(
        &self,
        id: &DeliveryId,
        result: AttemptResult,
        now: Time,
    ) -> Result<(), StateError>;

    /// Adds a test event for one webhook.
    async fn add_test_delivery(
        &self,
        webhook: &WebhookId,
        id: &DeliveryId,
        body: String,
        now: Time,
        entry: NewAuditEntry,
    ) -> Result<Delivery, StateError>;

    /// Newest first.
    async fn deliveries(
        &self,
        webhook: &WebhookId,
        state: Option<DeliveryState>,
        page: &Page,
    ) -> Result<Paged<Delivery>, StateError>;

    /// Sends an ended delivery again, under the same id.
    async fn redeliver(
        &self,
        webhook: &WebhookId,
        id: &DeliveryId,
        now: Time,
        entry: NewAuditEntry,
    ) -> Result<Delivery, StateError>;

    /// Deletes deliveries that ended before this time.
    async fn forget_deliveries(&self, before: Time) -> Result<u64, StateError>;
}

pub(super) fn webhook_from_row(row: &impl ColumnReader) -> Result<WebhookRecord, StateError> {
    let sealed = row.optional_bytes("sealed")?;
    Ok(WebhookRecord {
        webhook: Webhook {
            id: row.id("id", WebhookId::parse)?,
            url: row.text("url")?,
            events: row.json("events")?,
            tenants: row.optional_json("tenants")?,
            enabled: row.flag("enabled")?,
            has_secret: sealed.is_some(),
            created_at: row.time("created_at")?,
            updated_at: row.time("updated_at")?,
        },
        secret: sealed.map(EncryptedSecret::from_bytes),
        revision: row.count("revision")?,
    })
}

pub(super) fn delivery_from_row(row: &impl ColumnReader) -> Result<Delivery, StateError> {
    let status = row.optional_count("last_status")?.map(u16::try_from);
    let state = row.word("state", DeliveryState::from_word)?;
    let next = row.optional_time("next_at")?;
    Ok(Delivery {
        id: row.id("id", DeliveryId::parse)?,
        webhook_id: row.id("webhook", WebhookId::parse)?,
        kind: row.word("type", HubEventType::from_word)?,
        attempts: u32::try_from(row.count("attempts")?).map_err(StateError::broken)?,
        next_attempt_at: next.filter(|_| state == DeliveryState::Pending),
        state,
        last_status: status.transpose().map_err(StateError::broken)?,
        last_error: row.optional_text("last_error")?,
        created_at: row.time("created_at")?,
        ended_at: row.optional_time("ended_at")?,
    })
}
