//! Failing, truncated and slow replies.

use std::time::Duration;

use hermes_agent::{
    message::Message,
    model::{HttpModel, ModelEvent, ModelProblem, ModelRequest, Protocol, TextDelivery},
};
use hermes_testkit::{
    ReservedPort,
    model::{ModelScript, ModelServer, ReplyEnding, ScriptedAnswer},
};
use serde_json::json;

use super::{
    BOTH, KEY, complete, endpoint, retries, retrying, send_prompt, shown, single_attempt,
    with_short_timeouts,
};

fn problem<T: std::fmt::Debug>(result: Result<T, hermes_agent::model::ModelError>) -> ModelProblem {
    result.unwrap_err().problem
}

#[tokio::test]
async fn passing_trouble_is_waited_out_and_told() {
    for protocol in BOTH {
        let server = ModelServer::start(ModelScript::new([
            ScriptedAnswer::status(500, "oops"),
            ScriptedAnswer::too_many_requests("0"),
            ScriptedAnswer::status(529, "overloaded"),
            ScriptedAnswer::text("at last"),
        ]));
        let (reply, events) = send_prompt(&retrying(&server, protocol), "hi").await;
        assert_eq!(reply.unwrap().text, "at last");
        let told: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                ModelEvent::Retrying {
                    retry, of, error, ..
                } => Some((*retry, *of, error.status())),
                _ => None,
            })
            .collect();
        assert_eq!(
            told,
            [(1, 3, Some(500)), (2, 3, Some(429)), (3, 3, Some(529))]
        );
        assert_eq!(server.requests().len(), 4);
    }
}

#[tokio::test]
async fn the_fourth_failure_is_the_end() {
    let server = ModelServer::start(ModelScript::new(vec![
        ScriptedAnswer::status(503, "busy");
        9
    ]));
    let (reply, events) = send_prompt(&retrying(&server, Protocol::ChatCompletions), "hi").await;
    assert!(matches!(
        problem(reply),
        ModelProblem::Refused { status: 503, .. }
    ));
    assert_eq!(retries(&events), 3);
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn the_pause_of_a_limit_is_reported_in_seconds_and_dates() {
    for (header, expected) in [
        ("7", Duration::from_secs(7)),
        ("Wed, 21 Oct 2015 07:28:00 GMT", Duration::ZERO),
    ] {
        let server = ModelServer::start(ModelScript::new([ScriptedAnswer::too_many_requests(
            header,
        )]));
        let (reply, _) =
            send_prompt(&single_attempt(&server, Protocol::ChatCompletions), "hi").await;
        let error = reply.unwrap_err();
        assert_eq!(error.retry_after(), Some(expected));
        assert_eq!(error.status(), Some(429));
    }
}

#[tokio::test]
async fn an_unfinished_stream_is_not_an_answer() {
    for protocol in BOTH {
        for ending in [ReplyEnding::Early, ReplyEnding::Cut] {
            for text in [vec![], vec!["Hel".to_owned()]] {
                let answer = ScriptedAnswer::text("").with(|reply| {
                    reply.text.clone_from(&text);
                    reply.ending = ending;
                });
                let server = ModelServer::start(ModelScript::new([answer]));
                let (reply, _) = send_prompt(&single_attempt(&server, protocol), "hi").await;
                let problem = problem(reply);
                assert!(
                    matches!(problem, ModelProblem::Truncated { .. }),
                    "{problem:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn an_unfinished_call_is_never_made() {
    for protocol in BOTH {
        let answer = ScriptedAnswer::call("delete", &json!({"path": "/tmp/x"}))
            .with(|reply| reply.ending = ReplyEnding::Early);
        let server = ModelServer::start(ModelScript::new([answer]));
        let (reply, _) = send_prompt(&single_attempt(&server, protocol), "hi").await;
        assert!(matches!(problem(reply), ModelProblem::Truncated { .. }));
    }
}

#[tokio::test]
async fn a_stream_cut_before_any_text_is_asked_for_again() {
    for protocol in BOTH {
        let cut = ScriptedAnswer::pieces([]).with(|reply| {
            reply.reasoning = vec!["hm".into()];
            reply.ending = ReplyEnding::Cut;
        });
        let server = ModelServer::start(ModelScript::new([cut, ScriptedAnswer::text("Hello")]));
        let (reply, events) = send_prompt(&retrying(&server, protocol), "hi").await;
        assert_eq!(reply.unwrap().text, "Hello");
        assert_eq!(retries(&events), 1);
    }
}

#[tokio::test]
async fn shown_text_is_final_unless_it_can_be_taken_back() {
    for protocol in BOTH {
        let cut = ScriptedAnswer::text("Hel").with(|reply| reply.ending = ReplyEnding::Cut);
        let server = ModelServer::start(ModelScript::new([cut.clone()]));
        let (reply, events) = send_prompt(&retrying(&server, protocol), "hi").await;
        assert!(matches!(problem(reply), ModelProblem::Truncated { .. }));
        assert_eq!(shown(&events), ["Hel"]);
        assert_eq!(server.requests().len(), 1);

        let server = ModelServer::start(ModelScript::new([cut, ScriptedAnswer::text("Hello")]));
        let messages = [Message::user("hi")];
        let request = ModelRequest {
            messages: &messages,
            shown_text: TextDelivery::Revocable,
            ..ModelRequest::default()
        };
        let (reply, events) = complete(&retrying(&server, protocol), &request).await;
        assert_eq!(reply.unwrap().text, "Hello");
        let after: Vec<_> = events
            .iter()
            .skip_while(|event| **event != ModelEvent::TextRetracted)
            .cloned()
            .collect();
        assert_eq!(shown(&after), ["Hello"]);
    }
}

#[tokio::test]
async fn a_wrong_key_is_refused_at_once_and_its_place_named() {
    for protocol in BOTH {
        let server = ModelServer::start(ModelScript::echo().with_key("another"));
        let (reply, events) = send_prompt(&retrying(&server, protocol), "hi").await;
        let error = reply.unwrap_err();
        assert_eq!(error.status(), Some(401));
        let text = format!("{error} {error:?}");
        assert!(text.contains("`SCRIPTED_KEY`"), "{text}");
        assert!(!text.contains(KEY), "{text}");
        assert_eq!(events, []);
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_unknown_model_is_named() {
    for protocol in BOTH {
        let server = ModelServer::start(ModelScript {
            refuse_others: true,
            ..ModelScript::echo().with_models(["other"])
        });
        let (reply, _) = send_prompt(&retrying(&server, protocol), "hi").await;
        let text = reply.unwrap_err().to_string();
        assert!(text.contains("`some-model`"), "{text}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_full_context_is_an_error_of_its_own() {
    for protocol in BOTH {
        let server = ModelServer::start(ModelScript {
            context_length: Some(4096),
            ..ModelScript::new([ScriptedAnswer::Overflow])
        });
        let (reply, events) = send_prompt(&retrying(&server, protocol), "hi").await;
        match problem(reply) {
            ModelProblem::ContextOverflow { limit, .. } => assert_eq!(limit, Some(4096)),
            other => panic!("{other:?}"),
        }
        assert_eq!(events, []);
    }
}

#[tokio::test]
async fn an_error_in_the_stream_counts_like_its_status() {
    for protocol in BOTH {
        let error = match protocol {
            Protocol::ChatCompletions => json!({"error": {"message": "gone", "code": 502}}),
            Protocol::AnthropicMessages => {
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "gone"}})
            }
        };
        let broken = ScriptedAnswer::pieces([]).with(|reply| reply.error = Some(error));
        let server = ModelServer::start(ModelScript::new([broken, ScriptedAnswer::text("Hello")]));
        let (reply, events) = send_prompt(&retrying(&server, protocol), "hi").await;
        assert_eq!(reply.unwrap().text, "Hello");
        assert_eq!(retries(&events), 1);
    }
}

#[tokio::test]
async fn silence_is_not_waited_for_without_end() {
    for protocol in BOTH {
        let stalled = ScriptedAnswer::text("Hel").with(|reply| reply.ending = ReplyEnding::Stalled);
        let server = ModelServer::start(ModelScript::new([ScriptedAnswer::Silence, stalled]));
        let model = with_short_timeouts(single_attempt(&server, protocol));
        for expected in [vec![], vec!["Hel"]] {
            let (reply, events) = send_prompt(&model, "hi").await;
            assert!(matches!(problem(reply), ModelProblem::TimedOut { .. }));
            assert_eq!(shown(&events), expected);
        }
    }
}

#[tokio::test]
async fn slow_pieces_are_not_silence() {
    // Longer in total than the timeout between bytes.
    let answer =
        ScriptedAnswer::pieces(["a", "b", "c", "d", "e", "f"]).with(|reply| reply.pause_ms = 500);
    let server = ModelServer::start(ModelScript::new([answer]));
    let (reply, _) = send_prompt(
        &with_short_timeouts(single_attempt(&server, Protocol::ChatCompletions)),
        "hi",
    )
    .await;
    assert_eq!(reply.unwrap().text, "abcdef");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let server = super::echo();
    let mut endpoint = endpoint(&server, Protocol::ChatCompletions);
    let nobody = ReservedPort::reserve().unwrap();
    endpoint.base_url.set_port(Some(nobody.number())).unwrap();
    let model = HttpModel::new(endpoint, std::sync::Arc::default());
    let (reply, _) = send_prompt(&model, "hi").await;
    let error = reply.unwrap_err();
    assert!(error.is_transient());
    assert!(matches!(error.problem, ModelProblem::Unreachable { .. }));
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let server = ModelServer::start(ModelScript::new([ScriptedAnswer::status(
        307,
        "over there",
    )]));
    let (reply, _) = send_prompt(&retrying(&server, Protocol::ChatCompletions), "hi").await;
    assert_eq!(reply.unwrap_err().status(), Some(307));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_key_with_line_breaks_is_not_sent() {
    let server = super::echo();
    let mut endpoint = endpoint(&server, Protocol::ChatCompletions);
    endpoint.key.value = Some(hermes_config::Secret::new("two\nlines".into()));
    let model = HttpModel::new(endpoint, std::sync::Arc::default());
    let (reply, _) = send_prompt(&model, "hi").await;
    let text = reply.unwrap_err().to_string();
    assert!(
        text.contains("`SCRIPTED_KEY`") && !text.contains("lines"),
        "{text}"
    );
    assert_eq!(server.requests().len(), 0);
}
