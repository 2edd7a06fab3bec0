//! Webhooks and their queue.

use std::time::Duration;

use hermes_hub::{
    api_types::{
        DeliveryState, HubEventType, Time,
        ids::{DeliveryId, WebhookId},
    },
    storage::{
        encryption::EncryptionContext,
        state::{
            AttemptResult, NewWebhook, NextAttempt, Page, StateError, WebhookChange, WebhookRecord,
        },
    },
};

use super::{StateFixture, entry, tenant_id};

fn new_webhook(fresh: &StateFixture, events: &[HubEventType]) -> NewWebhook {
    let id = WebhookId::random().unwrap();
    let context = EncryptionContext::webhook(id.as_str());
    NewWebhook {
        secret: fresh.key.encrypt(&context, "whsec_x").unwrap(),
        id,
        url: "https://example.org/".into(),
        events: events.to_vec(),
        tenants: None,
        enabled: true,
    }
}

async fn create(fresh: &StateFixture, webhook: NewWebhook) -> WebhookRecord {
    let made = fresh
        .state
        .create_webhook(webhook, 10, entry("create_webhook"));
    made.await.unwrap()
}

async fn create_usual(fresh: &StateFixture) -> WebhookId {
    let made = create(fresh, new_webhook(fresh, &[TenantCreated])).await;
    made.webhook.id
}

/// The types of what waits for a webhook, oldest first.
async fn queue(fresh: &StateFixture, webhook: &WebhookId) -> Vec<HubEventType> {
    fresh.state.fan_out_events(Time::now(), 100).await.unwrap();
    let page = Page::first(100);
    let found = fresh.state.deliveries(webhook, None, &page);
    let found = found.await.unwrap().items.into_iter();
    found.map(|delivery| delivery.kind).rev().collect()
}

fn failed(next: NextAttempt) -> AttemptResult {
    AttemptResult {
        status: Some(500),
        error: Some("no".into()),
        next,
    }
}

use HubEventType::{TenantCreated, TenantDeleted};

#[tokio::test]
async fn a_webhook_gets_later_events_of_its_types_and_tenants_once() {
    let fresh = StateFixture::new().await;
    fresh.tenant("before").await;
    let all = create(&fresh, new_webhook(&fresh, &[TenantCreated])).await;
    let none = create(&fresh, new_webhook(&fresh, &[TenantDeleted])).await;
    let mut of_b = new_webhook(&fresh, &[TenantCreated]);
    of_b.tenants = Some(vec![tenant_id("b")]);
    let of_b = create(&fresh, of_b).await;
    fresh.tenant("a").await;
    fresh.tenant("b").await;
    for _ in 0..2 {
        assert_eq!(queue(&fresh, &all.webhook.id).await, [TenantCreated; 2]);
        assert_eq!(queue(&fresh, &of_b.webhook.id).await, [TenantCreated]);
        assert!(queue(&fresh, &none.webhook.id).await.is_empty());
    }
    let found = fresh.state.webhook(&all.webhook.id).await.unwrap().unwrap();
    assert_eq!(found.webhook, all.webhook);
    let context = EncryptionContext::webhook(all.webhook.id.as_str());
    let secret = fresh.key.decrypt(&context, &found.secret.unwrap()).unwrap();
    assert_eq!(secret.expose(), "whsec_x");
    assert_eq!(fresh.state.webhooks().await.unwrap().len(), 3);
}

#[tokio::test]
async fn what_happens_while_a_webhook_is_off_is_never_sent() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    let id = create_usual(&fresh).await;
    let turn = async |enabled: bool| {
        let change = WebhookChange {
            enabled: Some(enabled),
            ..WebhookChange::default()
        };
        let changed = state.update_webhook(&id, change, None, entry("update_webhook"));
        changed.await.unwrap()
    };
    turn(false).await;
    fresh.tenant("a").await;
    assert!(queue(&fresh, &id).await.is_empty());
    let changed = turn(true).await;
    assert_eq!(changed.webhook.events, [TenantCreated]);
    assert!(queue(&fresh, &id).await.is_empty());
    fresh.tenant("b").await;
    assert_eq!(queue(&fresh, &id).await, [TenantCreated]);
    turn(false).await;
    assert!(state.due_webhooks(Time::now()).await.unwrap().is_empty());
    assert_eq!(state.next_delivery().await.unwrap(), None);
    let outdated = state.update_webhook(&id, WebhookChange::default(), Some(1), entry("x"));
    assert!(matches!(outdated.await, Err(StateError::Changed { .. })));
}

#[tokio::test]
async fn a_claimed_delivery_is_due_again_when_its_claim_ends_under_the_same_id() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    let id = create_usual(&fresh).await;
    fresh.tenant("a").await;
    queue(&fresh, &id).await;
    let now = Time::now();
    let until = now.after(Duration::from_mins(1));
    assert_eq!(
        state.due_webhooks(now).await.unwrap(),
        std::slice::from_ref(&id)
    );
    let first = state.claim_deliveries(&id, now, until, 10).await.unwrap();
    assert_eq!((first.len(), first[0].attempts), (1, 0));
    assert!(
        first[0].body.contains("\"tenant.created\""),
        "{}",
        first[0].body
    );
    // Another process finds nothing, until this one counts as dead.
    let again = state.claim_deliveries(&id, now, until, 10).await.unwrap();
    assert!(again.is_empty());
    assert_eq!(state.next_delivery().await.unwrap(), Some(until));
    let later = until.after(Duration::from_mins(1));
    let again = state.claim_deliveries(&id, until, later, 10).await.unwrap();
    assert_eq!(again[0].id, first[0].id);
}

#[tokio::test]
async fn an_attempt_leads_to_the_next_to_the_end_or_to_the_dead_letters() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    let id = create_usual(&fresh).await;
    fresh.tenant("a").await;
    queue(&fresh, &id).await;
    let now = Time::now();
    let claimed = state.claim_deliveries(&id, now, now, 10).await.unwrap();
    let delivery = &claimed[0].id;
    let later = now.after(Duration::from_secs(5));
    let retried = failed(NextAttempt::At(later));
    state.finish_attempt(delivery, retried, now).await.unwrap();
    let shown = async |wanted: Option<DeliveryState>| {
        let found = state.deliveries(&id, wanted, &Page::first(10)).await;
        found.unwrap().items
    };
    let waiting = &shown(Some(DeliveryState::Pending)).await[0];
    assert_eq!(
        (waiting.attempts, waiting.next_attempt_at),
        (1, Some(later))
    );
    assert_eq!(
        (waiting.last_status, waiting.last_error.as_deref()),
        (Some(500), Some("no"))
    );
    let early = state
        .redeliver(&id, delivery, now, entry("redeliver"))
        .await;
    assert!(matches!(
        early,
        Err(StateError::Conflict {
            reason: "pending",
            ..
        })
    ));
    let given_up = failed(NextAttempt::GivenUp);
    state
        .finish_attempt(delivery, given_up, later)
        .await
        .unwrap();
    let dead = &shown(Some(DeliveryState::Dead)).await[0];
    assert_eq!((dead.attempts, dead.ended_at), (2, Some(later)));
    let again = state
        .redeliver(&id, delivery, later, entry("redeliver"))
        .await;
    let again = again.unwrap();
    assert_eq!((&again.id, again.state), (delivery, DeliveryState::Pending));
    let claimed = state.claim_deliveries(&id, later, later, 10).await.unwrap();
    assert_eq!(claimed[0].attempts, 0);
    let taken = AttemptResult {
        status: Some(200),
        error: None,
        next: NextAttempt::Delivered,
    };
    state.finish_attempt(delivery, taken, later).await.unwrap();
    assert_eq!(shown(None).await[0].state, DeliveryState::Delivered);
    let much_later = later.after(Duration::from_secs(1));
    assert_eq!(state.forget_deliveries(much_later).await.unwrap(), 1);
    let nobody = WebhookId::random().unwrap();
    let missing = state
        .redeliver(&nobody, delivery, now, entry("redeliver"))
        .await;
    assert!(matches!(missing, Err(StateError::NotFound { .. })));
}

#[tokio::test]
async fn a_webhook_goes_with_what_waits_for_it_and_there_are_only_so_many() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    let id = create_usual(&fresh).await;
    let delivery = DeliveryId::random().unwrap();
    let now = Time::now();
    let test = state.add_test_delivery(&id, &delivery, "{}".into(), now, entry("test_webhook"));
    assert_eq!(test.await.unwrap().kind, HubEventType::WebhookTest);
    let too_many = state.create_webhook(new_webhook(&fresh, &[TenantCreated]), 1, entry("x"));
    assert!(matches!(
        too_many.await,
        Err(StateError::Conflict {
            reason: "too_many",
            ..
        })
    ));
    state
        .disable_webhook(&id, entry("disable_webhook"))
        .await
        .unwrap();
    assert!(!state.webhook(&id).await.unwrap().unwrap().webhook.enabled);
    state
        .delete_webhook(&id, entry("delete_webhook"))
        .await
        .unwrap();
    assert!(state.webhook(&id).await.unwrap().is_none());
    let gone = state.delete_webhook(&id, entry("delete_webhook")).await;
    assert!(matches!(gone, Err(StateError::NotFound { .. })));
    let deliveries = state.deliveries(&id, None, &Page::first(10)).await.unwrap();
    assert!(deliveries.items.is_empty());
}

#[tokio::test]
async fn secrets_are_not_readable_in_the_database_and_go_with_their_key() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    let id = create_usual(&fresh).await;
    assert!(state.has_encrypted().await.unwrap());
    state.delete_encrypted(entry("forget")).await.unwrap();
    let left = state.webhook(&id).await.unwrap().unwrap();
    assert!(left.secret.is_none() && !left.webhook.enabled && !left.webhook.has_secret);
    assert!(!state.has_encrypted().await.unwrap());
}
