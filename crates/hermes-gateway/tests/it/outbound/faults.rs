//! The durable queue when the platform fails.

use std::{sync::Arc, time::Duration};

use hermes_config::sync::Mutex;
use hermes_gateway::{
    outbound::{ChatMigration, DeliveryClock},
    platform::{PostError, TextFormat},
};
use hermes_store::runtime::OutboundChat;
use hermes_testkit::{eventually, eventually_some};

use super::{LIMIT, OutboxFixture, SECOND, recording_client::CallKind};

fn temporary() -> PostError {
    PostError::Temporary {
        reason: "no connection".into(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_failures_are_tried_again_with_growing_pauses() {
    let fixture = OutboxFixture::new().await;
    for _ in 0..4 {
        fixture.client.fail_next(temporary());
    }
    fixture.queue("a", "text", "k1").await;
    fixture.delivered("k1", Duration::from_millis(50)).await;
    let times: Vec<Duration> = fixture.client.calls().iter().map(|call| call.at).collect();
    let pauses: Vec<Duration> = times
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]))
        .collect();
    assert_eq!(pauses.len(), 4);
    for (pause, least) in pauses.iter().zip([1, 2, 4, 8]) {
        assert!(*pause >= SECOND * least, "{pauses:?}");
    }
    assert_eq!(fixture.client.texts("a"), ["text"]);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limit_is_waited_for_in_full_and_other_chats_go_on() {
    let fixture = OutboxFixture::new().await;
    fixture
        .client
        .fail_next(PostError::RateLimited { wait: SECOND * 60 });
    fixture.queue("a", "first", "k1").await;
    let client = &fixture.client;
    fixture
        .until("the attempt", || client.calls().len() == 1)
        .await;
    fixture.queue("a", "second", "k2").await;
    fixture.queue("b", "other", "k3").await;
    fixture.delivered("k3", Duration::ZERO).await;
    assert_eq!(client.texts("a").len(), 0);
    fixture.delivered("k2", SECOND).await;
    assert_eq!(client.texts("a"), ["first", "second"]);
    let calls = client.calls();
    let of_a: Vec<Duration> = calls
        .iter()
        .filter(|it| it.chat == "a")
        .map(|it| it.at)
        .collect();
    assert_eq!(of_a.len(), 3);
    assert!(of_a[1].saturating_sub(of_a[0]) >= SECOND * 60, "{of_a:?}");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limit_outlives_a_restart() {
    let fixture = OutboxFixture::new().await;
    fixture
        .client
        .fail_next(PostError::RateLimited { wait: SECOND * 60 });
    fixture.queue("a", "text", "k1").await;
    let runtime = fixture.runtime.clone();
    let waits = async || {
        let due = runtime.due_outbound(1_800_000_010.0, 10).await.unwrap();
        due.is_empty().then_some(())
    };
    let stored = eventually_some(LIMIT, waits).await;
    assert!(stored.is_some(), "the wait is not stored");
    let fixture = fixture.crash().await;
    fixture.queue("b", "other", "k2").await;
    fixture.delivered("k2", Duration::ZERO).await;
    assert_eq!(fixture.client.texts("a").len(), 0);
    fixture.clock.advance(SECOND * 61);
    // The next scan of the store finds it; a new message of the chat would, too.
    fixture.queue("a", "behind", "k3").await;
    fixture.delivered("k3", SECOND).await;
    assert_eq!(fixture.client.texts("a"), ["text", "behind"]);
    let calls = fixture.client.calls();
    let of_a: Vec<Duration> = calls
        .iter()
        .filter(|it| it.chat == "a")
        .map(|it| it.at)
        .collect();
    assert!(of_a[1].saturating_sub(of_a[0]) >= SECOND * 60, "{of_a:?}");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_markup_costs_one_chunk_its_format() {
    let fixture = OutboxFixture::new().await;
    fixture.client.fail_next(PostError::Markup {
        reason: "can't parse entities".into(),
    });
    fixture.queue("a", "*broken", "k1").await;
    fixture.queue("a", "*fine*", "k2").await;
    fixture.delivered("k2", Duration::ZERO).await;
    let messages = fixture.client.messages("a");
    assert_eq!(messages[0].text, "*broken");
    assert_eq!(messages[0].format, TextFormat::Plain);
    assert_eq!(messages[1].format, TextFormat::Markdown);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_message_fails_and_holds_up_nothing() {
    let fixture = OutboxFixture::new().await;
    fixture.client.fail_next(PostError::Refused {
        reason: "bot was blocked".into(),
    });
    fixture.queue("a", "refused", "k1").await;
    fixture.queue("a", "next", "k2").await;
    fixture.delivered("k2", Duration::ZERO).await;
    assert_eq!(fixture.client.texts("a"), ["next"]);
    let state = fixture.outbox.reply_state("k1").await.unwrap().unwrap();
    assert_eq!(state.failed, 1);
    assert_eq!(state.last_error.as_deref(), Some("bot was blocked"));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_to_a_migrated_chat_is_sent_to_its_new_id() {
    let fixture = OutboxFixture::new().await;
    let told: Arc<Mutex<Vec<ChatMigration>>> = Arc::default();
    let handler = {
        let told = Arc::clone(&told);
        Arc::new(move |migration| {
            told.lock().push(migration);
            Box::pin(async {}) as futures::future::BoxFuture<'static, ()>
        })
    };
    fixture.outbox.set_migration_handler(handler);
    fixture.client.fail_next(PostError::Migrated {
        new_id: "-1005".into(),
    });
    // Both wait when the chat gets its other id.
    fixture.client.hold("-5");
    fixture.queue("-5", "first", "k1").await;
    fixture.queue("-5", "second", "k2").await;
    let client = &fixture.client;
    fixture
        .until("the attempt", || !client.calls().is_empty())
        .await;
    client.release_all();
    fixture.delivered("k2", Duration::ZERO).await;
    assert_eq!(fixture.client.texts("-1005"), ["first", "second"]);
    let told = told.lock().clone();
    assert_eq!(
        (told[0].old_id.as_str(), told[0].new_id.as_str()),
        ("-5", "-1005")
    );
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_of_an_hour_a_message_arrives_and_says_that_it_is_late() {
    let fixture = OutboxFixture::new().await;
    fixture.client.set_outage(Some(temporary()));
    fixture.queue("a", "the answer", "k1").await;
    let full = "x".repeat(100);
    fixture.queue("b", &full, "k2").await;
    let (client, clock) = (&fixture.client, &fixture.clock);
    let start = clock.monotonic();
    let hour = SECOND * 3600;
    fixture
        .until_later("an hour", SECOND * 10, || clock.monotonic() >= start + hour)
        .await;
    assert!(client.texts("a").is_empty());
    client.set_outage(None);
    fixture.delivered("k1", SECOND).await;
    fixture.delivered("k2", SECOND).await;
    assert_eq!(client.texts("a"), ["(sent late)\nthe answer"]);
    // Where there is no room for it, the mark comes before.
    assert_eq!(client.texts("b"), ["(sent late)".to_owned(), full]);
    let attempts = client.count(|kind| matches!(kind, CallKind::Post(_)));
    assert!(attempts < 2 * 140, "{attempts} attempts in an hour");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_token_is_waited_out_until_the_account_has_another_client() {
    let fixture = OutboxFixture::new().await;
    fixture.client.set_outage(Some(PostError::BadToken {
        reason: "Unauthorized".into(),
    }));
    fixture.queue("a", "text", "k1").await;
    let client = &fixture.client;
    fixture
        .until("the attempt", || !client.calls().is_empty())
        .await;
    client.set_outage(None);
    // Without the clock going on: the new client is tried at once.
    fixture
        .until("the message", || {
            fixture.outbox.clients().insert(client.clone());
            client.texts("a") == ["text"]
        })
        .await;
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_set_back_keeps_no_message_waiting() {
    let fixture = OutboxFixture::new().await;
    let wait = SECOND * 30;
    fixture.client.fail_next(PostError::RateLimited { wait });
    fixture.queue("a", "text", "k1").await;
    wait_for_stored_retry(&fixture, "a").await;
    let fixture = fixture.crash_with_clock(-3600.0).await;
    let client = &fixture.client;
    assert!(client.texts("a").is_empty());
    // It waits for what it was told, and not for the hour: half of it never passes here.
    for _ in 0..60 {
        fixture.clock.advance(wait);
        if eventually(SECOND / 2, || client.texts("a") == ["text"]).await {
            break;
        }
    }
    assert_eq!(client.texts("a"), ["text"]);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_set_forward_sends_nothing_twice() {
    let fixture = OutboxFixture::new().await;
    fixture.queue("a", "first", "k1").await;
    fixture.delivered("k1", Duration::ZERO).await;
    fixture.client.fail_next(temporary());
    fixture.queue("a", "second", "k2").await;
    wait_for_stored_retry(&fixture, "a").await;
    let fixture = fixture.crash_with_clock(86_400.0).await;
    fixture.delivered("k2", SECOND).await;
    fixture.queue("a", "first", "k1").await;
    fixture.queue("a", "third", "k3").await;
    fixture.delivered("k3", SECOND).await;
    let texts = fixture.client.texts("a");
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts[1].ends_with("second"), "{texts:?}");
    assert_eq!(texts[2], "third");
    fixture.end().await;
}

/// Waits until it is stored that a chat's first message is tried again later.
async fn wait_for_stored_retry(fixture: &OutboxFixture, chat: &str) {
    let chat = OutboundChat {
        platform: "telegram".into(),
        account: String::new(),
        chat: chat.into(),
    };
    let retry = async || {
        let row = fixture.runtime.next_outbound(&chat).await.unwrap();
        row.filter(|row| row.next_at.is_some())
    };
    let stored = eventually_some(LIMIT, retry).await;
    assert!(stored.is_some(), "{:?}", fixture.client.calls());
}
