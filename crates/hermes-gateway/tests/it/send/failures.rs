//! Platforms that fail.

use std::time::{Duration, Instant};

use hermes_gateway::send::{MediaPolicy, PlatformFailure, SendError};
use hermes_testkit::platform::PlatformFault;
use serde_json::json;

use super::SendFixture;

/// Each platform with a chat, and the method that posts to it.
fn all_platforms() -> [(SendFixture, &'static str, &'static str); 3] {
    [
        (SendFixture::telegram(), "telegram:5", "sendMessage"),
        (SendFixture::discord(), "discord:42", "messages"),
        (SendFixture::slack(), "slack:C12345678", "chat.postMessage"),
    ]
}

#[tokio::test]
async fn a_wrong_token_is_an_error_that_does_not_show_it() {
    for (mut place, target, _) in all_platforms() {
        let name = place.variables[0].0.clone();
        place.set(&name, "987:very-secret-and-wrong");
        let error = place.try_send(target, "hi").await.unwrap_err();
        assert_eq!(error.hint(), Some(format!("check `{name}`")));
        place.refused(target, "hi").await;
        assert_eq!(place.server.requests().len(), 2, "it was tried again");
    }
}

#[tokio::test]
async fn a_platform_that_asks_to_wait_is_waited_for() {
    for (place, target, path) in all_platforms() {
        let fault = match target.split_once(':').unwrap().0 {
            "slack" => PlatformFault::LimitedByHeader(1),
            _ => PlatformFault::LimitedByBody(1),
        };
        place.server.fail(path, fault);
        let started = Instant::now();
        place.send(target, "hi").await;
        assert!(started.elapsed() >= Duration::from_secs(1), "{target}");
    }
}

#[tokio::test]
async fn one_that_asks_again_and_again_or_for_too_long_is_not() {
    for (place, target, path) in all_platforms() {
        for _ in 0..3 {
            place.server.fail(path, PlatformFault::LimitedByHeader(0));
        }
        let error = place.refused(target, "hi").await["error"].clone();
        assert!(
            error.as_str().unwrap().contains("accepts no more messages"),
            "{error}"
        );
        place
            .server
            .fail(path, PlatformFault::LimitedByHeader(3600));
        let error = place.refused(target, "hi").await["error"].clone();
        assert!(error.as_str().unwrap().contains("3600 s"), "{error}");
    }
}

#[tokio::test]
async fn a_broken_server_is_an_error_with_its_status() {
    for (place, target, path) in all_platforms() {
        place.server.fail(path, PlatformFault::status(500));
        let error = place.refused(target, "hi").await["error"].clone();
        assert!(
            error.as_str().unwrap().contains("API error (500)"),
            "{error}"
        );
        let posts = place
            .paths()
            .iter()
            .filter(|asked| asked.contains(path))
            .count();
        assert_eq!(posts, 1, "{target}");
    }
}

#[tokio::test]
async fn telegram_is_tried_three_times_when_its_gateway_is_down() {
    let place = SendFixture::telegram();
    for status in [502, 504] {
        place
            .server
            .fail("sendMessage", PlatformFault::status(status));
    }
    place.send("telegram:5", "hi").await;
    assert_eq!(place.server.requests().len(), 3);
    for _ in 0..3 {
        place.server.fail("sendMessage", PlatformFault::status(503));
    }
    let error = place.refused("telegram:5", "hi").await["error"].clone();
    assert!(error.as_str().unwrap().contains("(503)"), "{error}");
    assert_eq!(place.server.requests().len(), 6);
}

#[tokio::test]
async fn one_that_never_answers_is_given_up_and_not_asked_twice() {
    for (place, target, path) in all_platforms() {
        place.server.fail(path, PlatformFault::Silence);
        // Long enough for what comes before the silence, on a busy machine too.
        let timeout = Duration::from_secs(1);
        let sender = place.sender().with_timeout(timeout);
        let error = sender
            .send(target, "hi", MediaPolicy::Literal)
            .await
            .unwrap_err();
        let SendError::Failed {
            failure,
            sent_chunks: 0,
            ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(*failure, PlatformFailure::TimedOut { waited: timeout });
        assert!(
            error.to_string().contains("did not answer within 1 s"),
            "{error}"
        );
        let posts = place
            .paths()
            .iter()
            .filter(|asked| asked.contains(path))
            .count();
        assert_eq!(posts, 1, "{target}");
    }
}

#[tokio::test]
async fn one_that_is_not_there_is_an_error_without_its_address() {
    for (mut place, target, _) in all_platforms() {
        place.server.stop();
        let error = place.refused(target, "hi").await["error"].clone();
        let error = error.as_str().unwrap();
        assert!(error.contains("could not be reached: "), "{error}");
        assert!(!error.contains("http://"), "{error}");
    }
}

#[tokio::test]
async fn an_answer_of_something_else_is_told_from_one() {
    for (place, target, path) in all_platforms() {
        place
            .server
            .fail(path, PlatformFault::Status(200, json!("<html>")));
        let error = place.refused(target, "hi").await["error"].clone();
        assert!(
            error
                .as_str()
                .unwrap()
                .contains("unexpected reply (HTTP 200)"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_token_in_the_platforms_own_words_is_taken_out() {
    for (place, target, path) in all_platforms() {
        let words = format!("no bot {} here", super::TOKEN);
        let fault = match target.split_once(':').unwrap().0 {
            "slack" => PlatformFault::NotOk(words),
            "discord" => PlatformFault::Status(403, json!({"message": words})),
            _ => PlatformFault::Status(403, json!({"ok": false, "description": words})),
        };
        place.server.fail(path, fault);
        let error = place.refused(target, "hi").await["error"].clone();
        assert!(
            error.as_str().unwrap().contains("no bot [REDACTED] here"),
            "{error}"
        );
    }
}
