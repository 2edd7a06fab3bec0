//! Webhooks: signed, sent until they are taken, given up after a day, sent again by hand; and nowhere else than allowed.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use hermes_hub::{
    api_types::{
        Delivery, DeliveryState, HubEventType, Time,
        ids::{DeliveryId, WebhookId},
    },
    storage::{
        audit::NewAuditEntry,
        encryption::EncryptionContext,
        state::{NewWebhook, Page},
    },
    webhooks::{TargetScope, WebhookSender, signature},
};
use hermes_testkit::{eventually, eventually_some};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    storage::state::StateFixture,
    test_hub::{TIMEOUT, TestHub},
    webhook_target::{ReceivedWebhook, TargetReply, WebhookTarget},
};

const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

async fn private_hub() -> TestHub {
    TestHub::with_settings(|settings, _| settings.allow_private_webhooks = true).await
}

async fn create(site: &TestHub, url: &str, events: &[&str]) -> String {
    let body = json!({"url": url, "events": events, "secret": SECRET});
    let made = site.post("/v1/webhooks", &body).await.expect(201);
    made["id"].as_str().unwrap().to_owned()
}

async fn wait_for(target: &WebhookTarget, count: usize) -> Vec<ReceivedWebhook> {
    let came = eventually(TIMEOUT, || target.received().len() >= count).await;
    assert!(came, "{:?}", target.received());
    target.received()
}

async fn wait_for_state(site: &TestHub, webhook: &str, state: &str) -> Value {
    let path = format!("/v1/webhooks/{webhook}/deliveries?state={state}");
    let found = site
        .wait_until(&path, |found| found["deliveries"] != json!([]))
        .await;
    found["deliveries"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_posted_with_a_signature_that_anybody_with_the_secret_can_check() {
    let site = private_hub().await;
    let target = WebhookTarget::new([]).await;
    let id = create(&site, &target.url, &["tenant.created"]).await;
    site.tenant(json!({"id": "acme"})).await;
    let received = &wait_for(&target, 1).await[0];
    let body: Value = serde_json::from_str(&received.body).unwrap();
    assert_eq!(body["type"], "tenant.created");
    assert_eq!(body["tenantId"], "acme");
    assert!(received.id.starts_with("msg_"));
    let key = signature::parse_secret(SECRET).unwrap();
    let expected = signature::sign(&key, &received.id, received.timestamp, &received.body);
    assert_eq!(received.signature, expected);
    assert!((Time::now().timestamp().as_second() - received.timestamp).abs() < 60);
    let delivery = wait_for_state(&site, &id, "delivered").await;
    assert_eq!(
        (&delivery["id"], &delivery["lastStatus"]),
        (&json!(received.id), &json!(200))
    );
    let tested = site
        .post(&format!("/v1/webhooks/{id}/test"), &json!({}))
        .await
        .expect(202);
    let received = wait_for(&target, 2).await;
    assert_eq!(tested["id"], received[1].id);
    assert!(received[1].body.contains("webhook.test"));
    for path in [
        format!("/v1/webhooks/{id}"),
        "/v1/webhooks".into(),
        "/v1/audit?format=ndjson".into(),
    ] {
        let shown = site.get(&path).await.text;
        assert!(
            !shown.contains("C2FVsBQIhrscChlQIMV"),
            "{path} shows the secret"
        );
    }
    site.hub.close().await;
    site.hub.state().close().await;
    assert!(!site.stores("C2FVsBQIhrscChlQIMV"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_slow_or_down_holds_no_other_up() {
    let site = private_hub().await;
    let slow = WebhookTarget::new([TargetReply::Never, TargetReply::Never]).await;
    let unused = hermes_testkit::ReservedPort::reserve().unwrap();
    let down = format!("http://127.0.0.1:{}/", unused.number());
    let good = WebhookTarget::new([]).await;
    for url in [&slow.url, &down, &good.url] {
        create(&site, url, &["tenant.created"]).await;
    }
    site.tenant(json!({"id": "a"})).await;
    wait_for(&slow, 1).await;
    site.tenant(json!({"id": "b"})).await;
    wait_for(&good, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_not_followed_and_a_target_that_is_gone_turns_its_webhook_off() {
    let site = private_hub().await;
    let elsewhere = WebhookTarget::new([]).await;
    let target = WebhookTarget::new([
        TargetReply::Redirect(elsewhere.url.clone()),
        TargetReply::Status(410),
    ])
    .await;
    let id = create(&site, &target.url, &["tenant.created"]).await;
    site.tenant(json!({"id": "a"})).await;
    let path = format!("/v1/webhooks/{id}/deliveries");
    let found = site
        .wait_until(&path, |found| found["deliveries"][0]["attempts"] == 1)
        .await;
    let delivery = &found["deliveries"][0];
    assert_eq!(
        (&delivery["state"], &delivery["lastStatus"]),
        (&json!("pending"), &json!(307))
    );
    let reason = delivery["lastError"].as_str().unwrap();
    assert!(reason.contains("not followed"), "{reason}");
    assert!(elsewhere.received().is_empty());
    site.tenant(json!({"id": "b"})).await;
    wait_for_state(&site, &id, "dead").await;
    let webhook = site.get(&format!("/v1/webhooks/{id}")).await.expect(200);
    assert_eq!(webhook["enabled"], false);
}

#[tokio::test]
async fn private_and_unencrypted_targets_are_refused_without_the_setting() {
    let site = TestHub::new().await;
    for url in [
        "http://127.0.0.1:1/",
        "https://127.0.0.1/",
        "https://localhost/x",
        "https://10.1.2.3/",
        "https://[::1]/",
        "https://169.254.169.254/latest",
        "http://example.org/",
    ] {
        let body = json!({"url": url, "events": ["run.ended"]});
        let refused = site.post("/v1/webhooks", &body).await;
        assert_eq!(refused.status, 422, "{url}: {}", refused.text);
        assert_eq!(refused.json()["reason"], "private_target");
    }
    for wrong in [
        json!({"url": "https://u:p@example.org/", "events": ["run.ended"]}),
        json!({"url": "nowhere", "events": ["run.ended"]}),
        json!({"url": "https://example.org/", "events": []}),
        json!({"url": "https://example.org/", "events": ["webhook.test"]}),
        json!({"url": "https://example.org/", "events": ["x"]}),
        json!({"url": "https://example.org/", "events": ["run.ended"], "secret": "short"}),
        json!({"url": "https://example.org/", "events": ["run.ended"], "tenants": []}),
    ] {
        let refused = site.post("/v1/webhooks", &wrong).await;
        assert_eq!(refused.status, 400, "{wrong}: {}", refused.text);
    }
    let body = json!({"url": "https://example.org/", "events": ["run.ended"]});
    let made = site.post("/v1/webhooks", &body).await.expect(201);
    assert!(signature::parse_secret(made["secret"].as_str().unwrap()).is_some());
    let bound = json!({"name": "bound", "role": "admin", "tenants": ["a"]});
    let bound = site.token(bound).await;
    let refused = site
        .send(site.request(&bound, Method::GET, "/v1/webhooks"))
        .await;
    assert_eq!(refused.status, 403, "{}", refused.text);
}

/// The queue of one webhook, and senders with a clock of their own, one after the other.
struct SenderFixture {
    fresh: StateFixture,
    webhook: WebhookId,
    now: Arc<AtomicI64>,
}

impl SenderFixture {
    async fn new(url: &str) -> Self {
        let fresh = StateFixture::new().await;
        let webhook = WebhookId::random().unwrap();
        let context = EncryptionContext::webhook(webhook.as_str());
        let stored = NewWebhook {
            secret: fresh.key.encrypt(&context, SECRET).unwrap(),
            id: webhook.clone(),
            url: url.to_owned(),
            events: vec![HubEventType::RunEnded],
            tenants: None,
            enabled: true,
        };
        let entry = NewAuditEntry::by_hub("create_webhook");
        fresh.state.create_webhook(stored, 10, entry).await.unwrap();
        let now = Arc::new(AtomicI64::new(1_800_000_000_000));
        Self {
            fresh,
            webhook,
            now,
        }
    }

    fn now(&self) -> Time {
        Time::from_millis(self.now.load(Ordering::SeqCst))
    }

    fn set_clock(&self, time: Time) {
        self.now.store(time.millis(), Ordering::SeqCst);
    }

    fn sender(&self, scope: TargetScope) -> Arc<WebhookSender> {
        let (state, clock) = (Arc::clone(&self.fresh.state), Arc::clone(&self.now));
        let clock = Arc::new(move || Time::from_millis(clock.load(Ordering::SeqCst)));
        WebhookSender::start(state, self.fresh.key.clone(), scope, clock).unwrap()
    }

    async fn add(&self) -> DeliveryId {
        let id = DeliveryId::random().unwrap();
        let entry = NewAuditEntry::by_hub("test_webhook");
        let added =
            self.fresh
                .state
                .add_test_delivery(&self.webhook, &id, "{}".into(), self.now(), entry);
        added.await.unwrap();
        id
    }

    /// Lets a sender work until the delivery is so.
    async fn send_until(&self, scope: TargetScope, is_so: impl Fn(&Delivery) -> bool) -> Delivery {
        let sender = self.sender(scope);
        let found = eventually_some(TIMEOUT, async || {
            let page = Page::first(1);
            let found = self
                .fresh
                .state
                .deliveries(&self.webhook, None, &page)
                .await;
            found.unwrap().items.into_iter().find(|found| is_so(found))
        });
        let found = found.await.expect("it stays as it is");
        sender.close().await;
        found
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_delivery_is_tried_for_a_day_then_kept_and_sent_again_under_the_same_id() {
    let target = WebhookTarget::new(vec![TargetReply::Status(503); 11]).await;
    let fixture = SenderFixture::new(&target.url).await;
    let begun = fixture.now();
    let id = fixture.add().await;
    let mut attempts = 0;
    let dead = loop {
        attempts += 1;
        let is_tried = |found: &Delivery| found.attempts == attempts;
        let found = fixture.send_until(TargetScope::Any, is_tried).await;
        match found.next_attempt_at {
            Some(next) => fixture.set_clock(next),
            None => break found,
        }
    };
    assert_eq!((dead.state, attempts), (DeliveryState::Dead, 11));
    let took = fixture.now().millis() - begun.millis();
    let day = 24 * 60 * 60 * 1000;
    assert!((day * 9 / 10..=day).contains(&took), "{took}");
    let entry = NewAuditEntry::by_hub("redeliver");
    let state = &fixture.fresh.state;
    let again = state
        .redeliver(&fixture.webhook, &id, fixture.now(), entry)
        .await;
    again.unwrap();
    let is_taken = |found: &Delivery| found.state == DeliveryState::Delivered;
    fixture.send_until(TargetScope::Any, is_taken).await;
    let received = target.received();
    assert_eq!(received.len(), 12);
    assert!(received.iter().all(|one| one.id == id.as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_had_claimed_is_sent_by_the_next_one() {
    let target = WebhookTarget::new([]).await;
    let fixture = SenderFixture::new(&target.url).await;
    let id = fixture.add().await;
    let until = fixture.now().after(std::time::Duration::from_mins(2));
    let state = &fixture.fresh.state;
    let claimed = state.claim_deliveries(&fixture.webhook, fixture.now(), until, 10);
    assert_eq!(claimed.await.unwrap().len(), 1);
    fixture.set_clock(until);
    let is_taken = |found: &Delivery| found.state == DeliveryState::Delivered;
    fixture.send_until(TargetScope::Any, is_taken).await;
    assert_eq!(wait_for(&target, 1).await[0].id, id.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_target_that_was_stored_while_it_was_allowed_gets_nothing_later() {
    let target = WebhookTarget::new([]).await;
    for url in [&target.url, "https://localhost:1/"] {
        let fixture = SenderFixture::new(url).await;
        fixture.add().await;
        let is_tried = |found: &Delivery| found.attempts == 1;
        let found = fixture.send_until(TargetScope::PublicOnly, is_tried).await;
        assert_eq!(found.state, DeliveryState::Pending);
        let reason = found.last_error.unwrap();
        assert!(reason.contains("webhooks.allow_private"), "{reason}");
    }
    assert!(target.received().is_empty());
}
