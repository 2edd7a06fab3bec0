//! Webhooks: addresses that get events. One of them with what was sent to it has a page of its own.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::render;
use crate::{
    Problem,
    api_types::{Delivery, DeliveryState, HubEventType, Webhook},
    console::{frame::Frame, request::PageRequest},
};

const PAGE_SIZE: u32 = 50;

#[derive(Template)]
#[template(path = "pages/webhooks.html")]
struct WebhooksPage {
    page: Frame,
    webhooks: Vec<Webhook>,
    may_create: bool,
    events: Vec<HubEventType>,
}

#[derive(Deserialize)]
struct WebhooksView {
    webhooks: Vec<Webhook>,
}

#[derive(Template)]
#[template(path = "pages/webhook.html")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says whether a form is there"
)]
struct WebhookPage {
    page: Frame,
    webhook: Webhook,
    version: String,
    tenants: String,
    events: Vec<HubEventType>,
    deliveries: Vec<Delivery>,
    more: Option<String>,
    may_change: bool,
    may_test: bool,
    may_delete: bool,
    may_redeliver: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeliveriesView {
    deliveries: Vec<Delivery>,
    next_cursor: Option<String>,
}

impl WebhookPage {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "templates pass references"
    )]
    fn has(&self, event: &HubEventType) -> bool {
        self.webhook.events.contains(event)
    }

    fn has_ended(&self, delivery: &Delivery) -> bool {
        delivery.state != DeliveryState::Pending
    }
}

/// Those that a webhook can get.
fn known_events() -> Vec<HubEventType> {
    let all = HubEventType::ALL.iter().copied();
    all.filter(|kind| *kind != HubEventType::WebhookTest)
        .collect()
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let list: WebhooksView = request.read("list_webhooks", json!({})).await?;
    render(&WebhooksPage {
        page: Frame::new(&request, request.texts.get("nav.webhooks")),
        webhooks: list.webhooks,
        may_create: request.may("create_webhook"),
        events: known_events(),
    })
}

pub(super) async fn show_one(request: PageRequest) -> Result<String, Problem> {
    let id = request.path_value("webhook_id");
    let (webhook, version): (Webhook, _) = request
        .read_versioned("get_webhook", json!({"webhook_id": id}))
        .await?;
    let mut arguments = json!({"webhook_id": id, "limit": PAGE_SIZE});
    if let Some(cursor) = request.query("cursor") {
        arguments["cursor"] = Value::from(cursor);
    }
    let list: DeliveriesView = request.read("list_deliveries", arguments).await?;
    let tenants = webhook.tenants.iter().flatten();
    let tenants: Vec<String> = tenants.map(ToString::to_string).collect();
    let more = list.next_cursor.as_deref();
    render(&WebhookPage {
        page: Frame::new(&request, webhook.url.clone()),
        tenants: tenants.join("\n"),
        webhook,
        version: version.unwrap_or_default(),
        events: known_events(),
        more: more.map(|cursor| request.address_with("cursor", cursor)),
        deliveries: list.deliveries,
        may_change: request.may("update_webhook"),
        may_test: request.may("test_webhook"),
        may_delete: request.may("delete_webhook"),
        may_redeliver: request.may("redeliver"),
    })
}
