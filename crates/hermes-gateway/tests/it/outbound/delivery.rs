//! The durable queue when all goes well, and after a crash.

use std::{fs, time::Duration};

use hermes_gateway::{
    outbound::QueuedReply,
    platform::{OutboundMessage, PostError},
};
use hermes_testkit::TemporaryHome;

use super::{
    ManualClock, OutboxFixture, SECOND, account, group, long_text,
    recording_client::{Call, CallKind},
};

#[tokio::test(flavor = "multi_thread")]
async fn replies_arrive_in_order_and_chats_do_not_wait_for_each_other() {
    let fixture = OutboxFixture::new().await;
    fixture.client.hold("a");
    fixture.queue("a", "first", "k1").await;
    fixture.queue("a", "second", "k2").await;
    fixture.queue("b", "other", "k3").await;
    let client = &fixture.client;
    let posts = || client.count(|kind| matches!(kind, CallKind::Post(_)));
    fixture
        .until("the other chat", || {
            client.texts("b") == ["other"] && posts() >= 2
        })
        .await;
    assert_eq!(client.texts("a").len(), 0);
    assert_eq!(posts(), 2, "the second does not overtake the first");
    client.release_all();
    fixture
        .until("the chat", || client.texts("a") == ["first", "second"])
        .await;
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_reply_is_cut_and_numbered_and_the_first_chunk_replies() {
    let fixture = OutboxFixture::new().await;
    let mut reply = QueuedReply::new(account(), group("a"), long_text(), "k1");
    reply.reply_to = Some("77".into());
    assert!(fixture.outbox.queue_reply(reply).await.unwrap().is_new);
    fixture.delivered("k1", Duration::ZERO).await;
    let messages = fixture.client.messages("a");
    assert_eq!(messages.len(), 3);
    for (index, message) in messages.iter().enumerate() {
        let number = format!(" ({}/3)", index + 1);
        assert!(message.text.ends_with(&number), "{}", message.text);
        let expected = (index == 0).then(|| "77".to_owned());
        assert_eq!(message.reply_to, expected);
        assert!(
            message
                .nonce
                .as_ref()
                .is_some_and(|nonce| nonce.len() <= 25)
        );
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_reply_is_sent_once_and_silence_never() {
    let fixture = OutboxFixture::new().await;
    fixture.queue("a", "once", "k1").await;
    fixture.queue("a", "once", "k1").await;
    fixture.queue("a", "[SILENT]", "k2").await;
    fixture.queue("a", "end", "k3").await;
    fixture.delivered("k3", Duration::ZERO).await;
    assert_eq!(fixture.client.texts("a"), ["once", "end"]);
    fixture.queue("a", "once", "k1").await;
    fixture.queue("a", "later", "k4").await;
    fixture.delivered("k4", Duration::ZERO).await;
    assert_eq!(fixture.client.texts("a"), ["once", "end", "later"]);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_whose_reply_was_lost_in_a_crash_is_posted_with_the_same_nonce() {
    let fixture = OutboxFixture::new().await;
    let client = fixture.client.clone();
    client.hold("a");
    fixture.queue("a", &long_text(), "k1").await;
    fixture
        .until("the post", || client.calls().len() == 1)
        .await;
    let fixture = fixture.crash().await;
    fixture.delivered("k1", Duration::ZERO).await;
    let calls = client.calls();
    let nonce = |call: &Call| match &call.kind {
        CallKind::Post(message) => message.nonce.clone(),
        _ => None,
    };
    let nonces: Vec<Option<String>> = calls.iter().map(nonce).collect();
    assert_eq!(nonces.len(), 4, "{calls:?}");
    assert!(nonces[0].is_some());
    assert_eq!(nonces[0], nonces[1]);
    assert_ne!(nonces[1], nonces[2]);
    let state = fixture.outbox.reply_state("k1").await.unwrap().unwrap();
    assert_eq!(state.message_ids.len(), 3);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_reply_was_lost_is_looked_for_before_it_is_posted_again() {
    let fixture = OutboxFixture::new().await;
    fixture.client.lose_next_reply();
    fixture.queue("a", "once", "k1").await;
    fixture.delivered("k1", SECOND).await;
    assert_eq!(fixture.client.texts("a"), ["once"]);
    // The same, but the process dies before it asks.
    fixture.client.lose_next_reply();
    fixture.queue("a", "and once more", "k2").await;
    let client = fixture.client.clone();
    fixture
        .until("the post", || client.texts("a").len() == 2)
        .await;
    let fixture = fixture.crash().await;
    fixture.delivered("k2", SECOND).await;
    assert_eq!(client.texts("a"), ["once", "and once more"]);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_another_process_may_have_given_takes_the_place_of_that_one() {
    let fixture = OutboxFixture::new().await;
    fixture.client.lose_next_reply();
    fixture.queue("a", "what was said", "k1").await;
    let client = fixture.client.clone();
    fixture
        .until("the post", || client.texts("a").len() == 1)
        .await;
    // Another machine knows nothing of it, and asks the model again.
    let other =
        OutboxFixture::start(TemporaryHome::new(), ManualClock::new(), client.clone()).await;
    let reply = QueuedReply {
        may_be_posted: true,
        ..QueuedReply::new(account(), group("a"), "what is said now", "k1")
    };
    other.outbox.queue_reply(reply).await.unwrap();
    other.delivered("k1", SECOND).await;
    assert_eq!(client.texts("a"), ["what is said now"]);
    other.end().await;
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_chunk_one_of_three_sends_the_other_two() {
    let fixture = OutboxFixture::new().await;
    let client = fixture.client.clone();
    client.set_outage(Some(PostError::Temporary {
        reason: "down".into(),
    }));
    fixture.queue("a", &long_text(), "k1").await;
    fixture
        .until("an attempt", || !client.calls().is_empty())
        .await;
    // The first chunk is stored as sent, as by a process that died right after it.
    let chat = hermes_store::runtime::OutboundChat {
        platform: "telegram".into(),
        account: String::new(),
        chat: "a".into(),
    };
    let head = fixture.runtime.next_outbound(&chat).await.unwrap().unwrap();
    fixture.runtime.mark_sent(head.id, "700").await.unwrap();
    client.set_outage(None);
    let fixture = fixture.crash().await;
    fixture.delivered("k1", Duration::ZERO).await;
    let texts = client.texts("a");
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].ends_with("(2/3)"), "{texts:?}");
    assert!(texts[1].ends_with("(3/3)"), "{texts:?}");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_queued_without_a_worker_is_sent_when_there_is_one() {
    let fixture = OutboxFixture::new().await;
    fixture.stop.cancel();
    fixture.queue("a", "text", "k1").await;
    let fixture = fixture.crash().await;
    fixture.delivered("k1", Duration::ZERO).await;
    assert_eq!(fixture.client.texts("a"), ["text"]);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_reply_become_an_album_and_refused_ones_are_told() {
    let fixture = OutboxFixture::new().await;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| {
        let path = directory.path().join(name);
        fs::write(&path, name).unwrap();
        path.canonicalize().unwrap().to_str().unwrap().to_owned()
    };
    let (one, two) = (path("a.png"), path("b.jpg"));
    let text = format!("Two pictures:\nMEDIA:{one}\nMEDIA:{two}\nMEDIA:/etc/secret.png");
    let reply = QueuedReply::new(account(), group("a"), text, "k1");
    let receipt = fixture.outbox.queue_reply(reply).await.unwrap();
    assert_eq!(receipt.warnings.len(), 1, "{:?}", receipt.warnings);
    fixture.delivered("k1", Duration::ZERO).await;
    let messages = fixture.client.messages("a");
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].text, "Two pictures:");
    let names: Vec<&str> = messages[0]
        .files
        .iter()
        .map(|file| file.name.as_str())
        .collect();
    assert_eq!(names, ["a.png", "b.jpg"]);

    // A file that is gone by the time it is sent costs the file alone.
    fixture.client.set_outage(Some(PostError::Temporary {
        reason: "down".into(),
    }));
    let three = path("c.png");
    let text = format!("Another: MEDIA:{three}");
    let before = fixture.client.calls().len();
    fixture.queue("a", &text, "k2").await;
    let client = &fixture.client;
    fixture
        .until("an attempt", || client.calls().len() > before)
        .await;
    fs::remove_file(&three).unwrap();
    fixture.client.set_outage(None);
    fixture.delivered("k2", SECOND).await;
    let messages = fixture.client.messages("a");
    let last = messages.last().unwrap();
    assert!(
        last.text.starts_with("Another:\n(c.png was not sent"),
        "{last:?}"
    );
    assert!(last.files.is_empty());
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_waits_for_its_account_to_have_a_client() {
    let fixture = OutboxFixture::new().await;
    fixture.outbox.clients().remove(&account());
    fixture.queue("a", "text", "k1").await;
    fixture.outbox.clients().insert(fixture.client.clone());
    fixture.delivered("k1", Duration::ZERO).await;
    assert_eq!(fixture.client.texts("a"), ["text"]);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_are_posted_at_once_and_edited_later() {
    let fixture = OutboxFixture::new().await;
    let account = account();
    let chat = group("a");
    fixture.client.fail_next(PostError::Markup {
        reason: "can't parse".into(),
    });
    let posted = fixture
        .outbox
        .post_now(&account, &chat, OutboundMessage::text("Allow?"))
        .await
        .unwrap();
    let edit = OutboundMessage::text("Allowed by Ann");
    fixture
        .outbox
        .edit_now(&account, &chat, &posted.message_id, edit)
        .await
        .unwrap();
    assert_eq!(fixture.client.texts("a"), ["Allowed by Ann"]);
    fixture.client.fail_next(PostError::Refused {
        reason: "chat not found".into(),
    });
    let refused = fixture
        .outbox
        .post_now(&account, &chat, OutboundMessage::text("x"))
        .await;
    assert!(matches!(refused, Err(PostError::Refused { .. })));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_replies_to_fifty_chats_leave_nothing_behind() {
    let fixture = OutboxFixture::new().await;
    for number in 0..1000 {
        let (chat, key) = ((number % 50).to_string(), format!("k{number}"));
        fixture.queue(&chat, &format!("reply {number}"), &key).await;
    }
    for number in 950..1000 {
        fixture
            .delivered(&format!("k{number}"), Duration::ZERO)
            .await;
    }
    for chat in 0..50 {
        let texts = fixture.client.texts(&chat.to_string());
        let expected: Vec<String> = (0..20)
            .map(|round| format!("reply {}", round * 50 + chat))
            .collect();
        assert_eq!(texts, expected);
    }
    let counts = fixture.runtime.outbound_counts().await.unwrap();
    assert_eq!((counts.queued, counts.failed), (0, 0));
    let pruned = fixture.runtime.prune_outbound(Duration::ZERO).await;
    assert_eq!(pruned.unwrap(), 1000);
    fixture.end().await;
}
