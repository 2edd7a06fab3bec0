//! Webhooks: addresses that get events.

use hermes_config::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{NoInput, deserialize_nullable, page_request};
use crate::{
    Problem, ProblemCode, TenantId,
    api_types::{
        Delivery, DeliveryState, HubEventType, Time, Webhook,
        ids::{DeliveryId, WebhookId},
    },
    service::call::{Call, Reply, etag},
    storage::{
        encryption::{EncryptedSecret, EncryptionContext},
        state::{NewWebhook, WebhookChange, WebhookRecord},
    },
    webhooks::{TargetError, TargetScope, check_target, signature},
};

const MAX_WEBHOOKS: u32 = 500;
const MAX_TENANTS: usize = 1000;

/// Webhooks.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WebhookList {
    webhooks: Vec<Webhook>,
}

/// A webhook with its secret, which is shown once.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreatedWebhook {
    #[serde(flatten)]
    webhook: Webhook,
    /// What signatures are checked with; it is not shown again.
    #[schemars(with = "String")]
    secret: Option<String>,
}

/// A webhook to create.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateWebhook {
    /// Where events are posted to, with https.
    url: String,
    /// The events it gets.
    events: Vec<HubEventType>,
    /// Only those of these tenants; of all, if absent.
    tenants: Option<Vec<TenantId>>,
    /// Whether anything is sent to it; true if absent.
    enabled: Option<bool>,
    /// What deliveries are signed with: `whsec_` and 24 to 64 bytes in base64. Made if absent.
    secret: Option<String>,
}

/// A change of a webhook.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdateWebhook {
    /// The webhook's id.
    webhook_id: WebhookId,
    /// Where events are posted to, with https.
    url: Option<String>,
    /// The events it gets.
    events: Option<Vec<HubEventType>>,
    /// Only those of these tenants; `null`: of all.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    #[schemars(with = "Option<Vec<TenantId>>")]
    #[expect(
        clippy::option_option,
        reason = "absent, `null` and a value are three things"
    )]
    tenants: Option<Option<Vec<TenantId>>>,
    /// Whether anything is sent to it. What happens while it is off is never sent.
    enabled: Option<bool>,
    /// Another secret: `whsec_` and 24 to 64 bytes in base64.
    secret: Option<String>,
}

/// A webhook.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookRef {
    /// The webhook's id.
    webhook_id: WebhookId,
}

/// A filter of deliveries.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListDeliveries {
    /// The webhook's id.
    webhook_id: WebhookId,
    /// Only those in this state; `dead` ones were given up and can be sent again.
    state: Option<DeliveryState>,
    /// How many at most, 1 to 500.
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// A delivery.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeliveryRef {
    /// The webhook's id.
    webhook_id: WebhookId,
    /// The delivery's id.
    delivery_id: DeliveryId,
}

/// Deliveries, newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeliveryList {
    deliveries: Vec<Delivery>,
    next_cursor: Option<String>,
}

pub(crate) async fn list(call: Call, _: NoInput) -> Result<Reply, Problem> {
    let records = call.hub.state().webhooks().await?;
    let webhooks = records.into_iter().map(|record| record.webhook).collect();
    Reply::json(&WebhookList { webhooks })
}

pub(crate) async fn create(call: Call, input: CreateWebhook) -> Result<Reply, Problem> {
    check_url(&call, &input.url)?;
    check_events(&input.events)?;
    check_tenants(input.tenants.as_deref())?;
    let id = WebhookId::random().map_err(|error| Problem::internal(&error))?;
    let secret = match input.secret {
        Some(secret) => Secret::new(secret),
        None => signature::new_secret().map_err(|error| Problem::internal(&error))?,
    };
    let webhook = NewWebhook {
        secret: encrypt_secret(&call, &id, &secret)?,
        url: input.url,
        events: input.events,
        tenants: input.tenants,
        enabled: input.enabled.unwrap_or(true),
        id: id.clone(),
    };
    let entry = call.entry.clone().with_target(id.as_str());
    let made = call
        .hub
        .state()
        .create_webhook(webhook, MAX_WEBHOOKS, entry)
        .await?;
    let shown = CreatedWebhook {
        webhook: made.webhook,
        secret: Some(secret.expose().clone()),
    };
    Ok(Reply::json(&shown)?.status(201).etag(etag(made.revision)))
}

async fn find(call: &Call, id: &WebhookId) -> Result<WebhookRecord, Problem> {
    let found = call.hub.state().webhook(id).await?;
    found.ok_or_else(|| Problem::not_found(format!("there is no webhook `{id}`")))
}

pub(crate) async fn get(call: Call, input: WebhookRef) -> Result<Reply, Problem> {
    let found = find(&call, &input.webhook_id).await?;
    Ok(Reply::json(&found.webhook)?.etag(etag(found.revision)))
}

pub(crate) async fn update(call: Call, input: UpdateWebhook) -> Result<Reply, Problem> {
    let id = input.webhook_id;
    let old = find(&call, &id).await?;
    call.check_version(&etag(old.revision))?;
    if let Some(url) = &input.url {
        check_url(&call, url)?;
    }
    if let Some(events) = &input.events {
        check_events(events)?;
    }
    check_tenants(input.tenants.as_ref().and_then(Option::as_deref))?;
    let secret = input.secret.map(Secret::new);
    let secret = secret.map(|secret| encrypt_secret(&call, &id, &secret));
    let secret = secret.transpose()?;
    if input.enabled == Some(true) && old.secret.is_none() && secret.is_none() {
        let message = "the webhook has lost its secret; give it another `secret` with `enabled`";
        return Err(Problem::precondition(message).with_reason("no_secret"));
    }
    let change = WebhookChange {
        url: input.url,
        events: input.events,
        tenants: input.tenants,
        enabled: input.enabled,
        secret,
    };
    let expected = call.if_match.is_some().then_some(old.revision);
    let entry = call.entry.clone().with_target(id.as_str());
    let changed = call
        .hub
        .state()
        .update_webhook(&id, change, expected, entry)
        .await?;
    Ok(Reply::json(&changed.webhook)?.etag(etag(changed.revision)))
}

pub(crate) async fn delete(call: Call, input: WebhookRef) -> Result<Reply, Problem> {
    let entry = call.entry.clone().with_target(input.webhook_id.as_str());
    call.hub
        .state()
        .delete_webhook(&input.webhook_id, entry)
        .await?;
    Ok(Reply::empty())
}

pub(crate) async fn test(call: Call, input: WebhookRef) -> Result<Reply, Problem> {
    let found = find(&call, &input.webhook_id).await?;
    if !found.webhook.enabled {
        let message = "the webhook is turned off; set `enabled` first";
        return Err(Problem::precondition(message).with_reason("disabled"));
    }
    let id = DeliveryId::random().map_err(|error| Problem::internal(&error))?;
    let now = Time::now();
    let body = json!({
        "type": HubEventType::WebhookTest,
        "timestamp": now,
        "data": {"webhookId": input.webhook_id, "hub": call.hub.settings().public_url},
    });
    let entry = call.entry.clone().with_target(input.webhook_id.as_str());
    let added = call
        .hub
        .state()
        .add_test_delivery(&input.webhook_id, &id, body.to_string(), now, entry)
        .await?;
    Ok(Reply::json(&added)?.status(202))
}

pub(crate) async fn deliveries(call: Call, input: ListDeliveries) -> Result<Reply, Problem> {
    find(&call, &input.webhook_id).await?;
    let page = page_request(input.limit, input.cursor)?;
    let found = call
        .hub
        .state()
        .deliveries(&input.webhook_id, input.state, &page)
        .await?;
    Reply::json(&DeliveryList {
        deliveries: found.items,
        next_cursor: found.next,
    })
}

pub(crate) async fn redeliver(call: Call, input: DeliveryRef) -> Result<Reply, Problem> {
    let entry = call.entry.clone().with_target(input.delivery_id.as_str());
    let again = call
        .hub
        .state()
        .redeliver(&input.webhook_id, &input.delivery_id, Time::now(), entry)
        .await?;
    Ok(Reply::json(&again)?.status(202))
}

fn check_url(call: &Call, url: &str) -> Result<(), Problem> {
    let scope = TargetScope::from_setting(call.hub.settings().allow_private_webhooks);
    match check_target(url, scope) {
        Ok(_) => Ok(()),
        Err(error @ (TargetError::Private | TargetError::NotSecure)) => {
            Err(Problem::new(ProblemCode::Unprocessable, error.to_string())
                .with_reason("private_target")
                .with_detail("url", "not allowed"))
        }
        Err(error) => Err(Problem::invalid(error.to_string()).with_detail("url", "invalid")),
    }
}

fn check_events(events: &[HubEventType]) -> Result<(), Problem> {
    let is_listed = !events.is_empty() && !events.contains(&HubEventType::WebhookTest);
    if is_listed && events.len() <= HubEventType::ALL.len() {
        return Ok(());
    }
    Err(Problem::invalid(
        "`events` names the events that the webhook gets, each once; `webhook.test` is only sent by its own route",
    )
    .with_detail("events", "invalid"))
}

fn check_tenants(tenants: Option<&[TenantId]>) -> Result<(), Problem> {
    if tenants.is_none_or(|tenants| (1..=MAX_TENANTS).contains(&tenants.len())) {
        return Ok(());
    }
    Err(Problem::invalid(format!(
        "`tenants` has 1 to {MAX_TENANTS} tenants; without it, the webhook gets events of all"
    ))
    .with_detail("tenants", "length"))
}

fn encrypt_secret(
    call: &Call,
    id: &WebhookId,
    secret: &Secret<String>,
) -> Result<EncryptedSecret, Problem> {
    if signature::parse_secret(secret.expose()).is_none() {
        return Err(
            Problem::invalid("`secret` is `whsec_` and 24 to 64 bytes in base64")
                .with_detail("secret", "invalid"),
        );
    }
    let context = EncryptionContext::webhook(id.as_str());
    let sealed = call.hub.key().encrypt(&context, secret.expose());
    sealed.map_err(|error| Problem::internal(&error))
}
