//! The wordings of many providers.

use serde_json::json;

use super::*;
use crate::model::{Protocol, endpoint};

fn problem(status: Option<u16>, body: &Value) -> ModelProblem {
    let mut refusal = ProviderRefusal::from_json(body);
    if let Some(status) = status {
        refusal.status = status;
    }
    let endpoint = endpoint::for_tests(Protocol::ChatCompletions, "https://x/v1", "m");
    refusal.into_problem(&endpoint)
}

fn limit(status: Option<u16>, body: &Value) -> Option<u32> {
    match problem(status, body) {
        ModelProblem::ContextOverflow { limit, .. } => limit,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_context_is_recognised_in_every_wording() {
    for (status, body, expected) in [
        (
            400,
            json!({"error": {"code": "context_length_exceeded", "type": "invalid_request_error",
            "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."}}),
            Some(8192),
        ),
        (
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error",
            "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
            Some(200_000),
        ),
        (
            413,
            json!({"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),
            None,
        ),
        (
            400,
            json!({"error": {"code": 400, "type": "exceed_context_size_error", "n_ctx": 4096,
            "message": "the request exceeds the available context size, try increasing it"}}),
            Some(4096),
        ),
        (
            400,
            json!({"object": "error", "message": "This model's maximum context length is 4096 tokens."}),
            Some(4096),
        ),
        (
            400,
            json!({"error": "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"}),
            Some(4096),
        ),
        (
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error",
            "message": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}}),
            None,
        ),
    ] {
        assert_eq!(limit(Some(status), &body), expected, "{body}");
    }
}

#[test]
fn tokens_per_minute_are_not_a_full_context() {
    let body = json!({"error": {"code": "rate_limit_exceeded",
        "message": "Request too large for model on tokens per minute"}});
    assert!(matches!(
        problem(Some(429), &body),
        ModelProblem::RateLimited { .. }
    ));
}

#[test]
fn an_empty_account_is_not_asked_again() {
    let body =
        json!({"error": {"code": "insufficient_quota", "message": "You exceeded your quota"}});
    let error = endpoint::for_tests(Protocol::ChatCompletions, "https://x/v1", "m")
        .error(problem(Some(429), &body));
    assert_eq!(error.status(), Some(429));
    assert!(!error.is_transient());
}

#[test]
fn errors_inside_a_reply_mean_the_same_as_a_status() {
    for (body, status) in [
        (
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
            529,
        ),
        (
            json!({"type": "error", "error": {"type": "api_error", "message": "x"}}),
            500,
        ),
        (
            json!({"error": {"code": 502, "message": "Provider disconnected"}}),
            502,
        ),
        (
            json!({"error": {"message": "something", "type": "server_error"}}),
            500,
        ),
    ] {
        match problem(None, &body) {
            ModelProblem::Refused { status: found, .. } => assert_eq!(found, status, "{body}"),
            other => panic!("{other:?}"),
        }
    }
    let limited = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "x"}});
    assert!(matches!(
        problem(None, &limited),
        ModelProblem::RateLimited { .. }
    ));
}

#[test]
fn a_refused_key_names_the_place_and_not_the_key() {
    let body = json!({"error": {"message": "Incorrect API key provided: k-0123456789."}});
    let text = problem(Some(401), &body).to_string();
    assert!(text.contains("`TEST_KEY`"), "{text}");
    assert!(!text.contains("0123456789"), "{text}");
}

#[test]
fn the_message_is_found_wherever_it_stands() {
    for body in [
        json!({"error": {"message": "the reason"}}),
        json!({"error": "the reason"}),
        json!({"message": "the reason"}),
        json!({"detail": "the reason"}),
        json!({"error": {"message": "the reason", "metadata": {"raw": "deeper"}}}),
    ] {
        let text = problem(Some(400), &body).to_string();
        assert!(text.contains("the reason"), "{text}");
    }
}
