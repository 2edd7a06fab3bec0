//! Answers that are shown while they grow.

use std::time::Duration;

use hermes_gateway::{
    outbound::{AnswerRequest, AnswerStream, QueuedReply, StreamMode},
    platform::{ChatAddress, ChatKind, PostError},
};
use hermes_testkit::eventually_some;

use super::{
    LIMIT, OutboxFixture, SECOND, account, long_text,
    recording_client::{CallKind, NativeMethod},
};

const STEP: Duration = Duration::from_millis(200);

fn direct() -> ChatAddress {
    ChatAddress::new("a", ChatKind::Dm)
}

fn open(fixture: &OutboxFixture, mode: StreamMode) -> AnswerStream {
    fixture.outbox.open_answer(AnswerRequest {
        account: account(),
        chat: direct(),
        reply_to: Some("77".into()),
        event: None,
        dedupe_key: "k1".into(),
        mode,
        shows_typing: true,
    })
}

async fn finish(fixture: &OutboxFixture, stream: AnswerStream, text: &str) {
    let finished = stream.finish(text).await;
    let mut reply = QueuedReply::new(account(), direct(), text, "k1");
    reply.reply_to = Some("77".into());
    reply.first_posted = finished.first_posted;
    fixture.outbox.queue_reply(reply).await.unwrap();
}

fn posts(fixture: &OutboxFixture) -> usize {
    fixture
        .client
        .count(|kind| matches!(kind, CallKind::Post(_)))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_message_that_grows_becomes_the_answer() {
    let fixture = OutboxFixture::new().await;
    let stream = open(&fixture, StreamMode::On);
    let client = &fixture.client;
    let feed = stream.feed();
    feed.push_text("One");
    fixture
        .until_later("a preview", STEP, || client.texts("a") == ["One"])
        .await;
    for word in [" two", " three", " four"] {
        feed.push_text(word);
    }
    fixture
        .until_later("an edit", STEP, || {
            client.texts("a") == ["One two three four"]
        })
        .await;
    finish(&fixture, stream, "One two three four five").await;
    fixture.delivered("k1", Duration::ZERO).await;
    assert_eq!(client.texts("a"), ["One two three four five"]);
    assert_eq!(posts(&fixture), 1);
    assert_eq!(client.messages("a")[0].reply_to.as_deref(), Some("77"));
    let calls = client.calls_without_typing();
    assert!(calls.len() <= 4, "words are joined: {calls:?}");
    assert!(
        calls[1].at.saturating_sub(calls[0].at) >= SECOND,
        "{calls:?}"
    );
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_shown_in_full_is_not_sent_again() {
    let fixture = OutboxFixture::new().await;
    let stream = open(&fixture, StreamMode::On);
    let client = &fixture.client;
    stream.feed().push_text("All of it");
    fixture
        .until_later("a preview", STEP, || client.texts("a") == ["All of it"])
        .await;
    finish(&fixture, stream, "All of it").await;
    fixture.delivered("k1", Duration::ZERO).await;
    assert_eq!(client.calls_without_typing().len(), 1);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_answer_and_one_without_streaming_are_one_post() {
    for mode in [StreamMode::On, StreamMode::Off] {
        let fixture = OutboxFixture::new().await;
        let stream = open(&fixture, mode);
        stream.feed().push_text("Yes.");
        if mode == StreamMode::Off {
            fixture.clock.advance(SECOND * 3);
        }
        finish(&fixture, stream, "Yes.").await;
        fixture.delivered("k1", Duration::ZERO).await;
        assert_eq!(fixture.client.texts("a"), ["Yes."]);
        assert_eq!(fixture.client.calls_without_typing().len(), 1);
        fixture.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limit_in_the_middle_pauses_the_preview_and_the_answer_arrives_once() {
    let fixture = OutboxFixture::new().await;
    let stream = open(&fixture, StreamMode::On);
    let client = &fixture.client;
    let feed = stream.feed();
    feed.push_text("One");
    fixture
        .until_later("a preview", STEP, || client.texts("a") == ["One"])
        .await;
    client.fail_next_edit(PostError::RateLimited { wait: SECOND * 60 });
    feed.push_text(" two");
    let edits = || client.count(|kind| matches!(kind, CallKind::Edit(..)));
    fixture
        .until_later("the refused edit", STEP, || edits() == 1)
        .await;
    let refused_at = client.calls_without_typing().last().unwrap().at;
    feed.push_text(" three");
    // The refusal has come back when the next edit waits for its end.
    let is_limited = || fixture.clock.longest_wait() > SECOND * 50;
    fixture.until("the limit is known", is_limited).await;
    // Typing signs and edits hold back for the whole time.
    let before = client.calls().len();
    for _ in 0..20 {
        fixture.advance_and_yield(SECOND).await;
    }
    assert_eq!(client.calls().len(), before, "{:?}", client.calls());
    finish(&fixture, stream, "One two three four").await;
    fixture.delivered("k1", SECOND).await;
    assert_eq!(client.texts("a"), ["One two three four"]);
    assert_eq!(posts(&fixture), 1);
    let last = client.calls_without_typing().last().unwrap().at;
    assert!(
        last.saturating_sub(refused_at) >= SECOND * 60,
        "{:?}",
        client.calls()
    );
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_outgrows_a_message_goes_on_in_the_next() {
    for way in [
        NativeMethod::None,
        NativeMethod::Stays,
        NativeMethod::Vanishes,
    ] {
        let fixture = OutboxFixture::new().await;
        fixture.client.set_native(way);
        let stream = open(&fixture, StreamMode::On);
        let client = &fixture.client;
        let feed = stream.feed();
        let text = long_text();
        let (mut count, words) = (0, text.split_inclusive(' ').collect::<Vec<_>>());
        fixture
            .until_later("two messages", STEP, || {
                if let Some(word) = words.get(count).filter(|_| count < 20) {
                    feed.push_text(word);
                    count += 1;
                }
                count == 20 && !client.texts("a").is_empty() && client.texts("a")[0].len() > 70
            })
            .await;
        finish(&fixture, stream, text.trim()).await;
        fixture.delivered("k1", STEP).await;
        let texts = client.texts("a");
        assert_eq!(texts.len(), 3, "{way:?} {:?}", client.calls());
        let mut joined = String::new();
        for (index, text) in texts.iter().enumerate() {
            joined.push_str(text.strip_suffix(&format!("({}/3)", index + 1)).unwrap());
        }
        assert_eq!(joined.trim(), text.trim());
        fixture.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_platforms_own_preview_becomes_the_message_or_is_followed_by_it() {
    for way in [NativeMethod::Stays, NativeMethod::Vanishes] {
        let fixture = OutboxFixture::new().await;
        fixture.client.set_native(way);
        let stream = open(&fixture, StreamMode::On);
        let client = &fixture.client;
        let feed = stream.feed();
        feed.start_step("c1", "terminal");
        feed.push_text("One");
        let was = |what: &'static str| {
            client.count(|kind| matches!(kind, CallKind::Native(name, _) if *name == what))
        };
        fixture
            .until_later("an update", STEP, || was("update") > 0)
            .await;
        assert_eq!(was("step"), 1);
        feed.end_step("c1", false);
        fixture
            .until_later("the end of the step", STEP, || was("step") == 2)
            .await;
        finish(&fixture, stream, "One two").await;
        fixture.delivered("k1", STEP).await;
        assert_eq!(client.texts("a"), ["One two"]);
        assert_eq!(was("finish"), 1);
        assert_eq!(posts(&fixture), usize::from(way == NativeMethod::Vanishes));
        fixture.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_of_the_platform_that_fails_at_the_end_is_followed_by_a_message() {
    let fixture = OutboxFixture::new().await;
    fixture.client.set_native(NativeMethod::Stays);
    let stream = open(&fixture, StreamMode::On);
    let client = &fixture.client;
    stream.feed().push_text("One");
    let was = |what: &'static str| {
        client.count(|kind| matches!(kind, CallKind::Native(name, _) if *name == what))
    };
    fixture
        .until_later("an update", STEP, || was("update") > 0)
        .await;
    client.fail_next_edit(PostError::Temporary {
        reason: "down".into(),
    });
    finish(&fixture, stream, "One two").await;
    fixture.delivered("k1", STEP).await;
    assert_eq!(client.texts("a"), ["One two"]);
    assert_eq!(was("discard"), 1);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_are_shown_while_they_go_on() {
    let fixture = OutboxFixture::new().await;
    let stream = open(&fixture, StreamMode::On);
    let client = &fixture.client;
    let feed = stream.feed();
    feed.push_text("Let me look.");
    feed.start_step("c1", "terminal");
    let shown = |text: &str| client.texts("a") == [text];
    fixture
        .until_later("the step", STEP, || shown("Let me look.\n\n⚙ terminal…"))
        .await;
    feed.end_step("c1", false);
    feed.begin_reply();
    feed.push_text("Done.");
    fixture
        .until_later("the answer", STEP, || shown("Done."))
        .await;
    finish(&fixture, stream, "Done.").await;
    fixture.delivered("k1", STEP).await;
    assert!(shown("Done."));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_that_keep_failing_are_given_up_and_the_answer_arrives() {
    let fixture = OutboxFixture::new().await;
    let stream = open(&fixture, StreamMode::On);
    let client = &fixture.client;
    let feed = stream.feed();
    feed.push_text("0");
    fixture
        .until_later("a preview", STEP, || client.texts("a") == ["0"])
        .await;
    for _ in 0..3 {
        client.fail_next_edit(PostError::Temporary {
            reason: "down".into(),
        });
    }
    let edits = || client.count(|kind| matches!(kind, CallKind::Edit(..)));
    fixture
        .until_later("failures", STEP, || {
            feed.push_text("1");
            edits() == 3
        })
        .await;
    for _ in 0..20 {
        feed.push_text("2");
        fixture.advance_and_yield(SECOND).await;
    }
    assert_eq!(edits(), 3);
    finish(&fixture, stream, "complete").await;
    fixture.delivered("k1", STEP).await;
    assert_eq!(client.texts("a"), ["complete"]);
    assert_eq!(posts(&fixture), 1);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typing_sign_ends_with_the_turn_whatever_ends_it() {
    let fixture = OutboxFixture::new().await;
    let client = &fixture.client;
    let signs = || client.count(|kind| *kind == CallKind::Typing);
    let stream = open(&fixture, StreamMode::On);
    fixture.until("the sign", || signs() == 1).await;
    fixture
        .until_later("the sign again", STEP, || signs() == 3)
        .await;
    drop(stream);
    let before = signs();
    for _ in 0..20 {
        fixture.advance_and_yield(SECOND).await;
    }
    // One that was under way may have come through.
    assert!(signs() <= before + 1);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_silence_nothing_stays() {
    let fixture = OutboxFixture::new().await;
    let client = &fixture.client;
    let stream = open(&fixture, StreamMode::On);
    stream.feed().push_text("[SIL");
    fixture
        .until_later("a preview", STEP, || client.texts("a") == ["[SIL"])
        .await;
    finish(&fixture, stream, "[SILENT]").await;
    assert_eq!(client.texts("a").len(), 0);
    assert_eq!(fixture.outbox.reply_state("k1").await.unwrap(), None);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_the_answer_takes_the_place_of_the_half_shown_one() {
    let fixture = OutboxFixture::new().await;
    let client = fixture.client.clone();
    let stream = open(&fixture, StreamMode::On);
    stream.feed().push_text("Half an ans");
    let runtime = fixture.runtime.clone();
    fixture
        .until_later("a preview", STEP, || client.texts("a") == ["Half an ans"])
        .await;
    let stored = async || {
        let messages = runtime.preview_messages("k1").await.unwrap();
        (!messages.is_empty()).then_some(())
    };
    assert!(eventually_some(LIMIT, stored).await.is_some());
    drop(stream);
    let fixture = fixture.crash().await;
    // The answer was stored: it is only sent.
    let reply = QueuedReply::new(account(), direct(), "The whole answer", "k1");
    fixture.outbox.queue_reply(reply).await.unwrap();
    fixture.delivered("k1", STEP).await;
    assert_eq!(client.texts("a"), ["The whole answer"]);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_that_somebody_deleted_is_replaced_by_a_message() {
    let fixture = OutboxFixture::new().await;
    let client = &fixture.client;
    let stream = open(&fixture, StreamMode::On);
    stream.feed().push_text("One");
    fixture
        .until_later("a preview", STEP, || client.texts("a") == ["One"])
        .await;
    client.fail_next_edit(PostError::Refused {
        reason: "message to edit not found".into(),
    });
    finish(&fixture, stream, "One two").await;
    fixture.delivered("k1", STEP).await;
    assert_eq!(client.texts("a").last().unwrap(), "One two");
    assert_eq!(posts(&fixture), 2);
    fixture.end().await;
}
