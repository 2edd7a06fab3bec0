//! Replies as Anthropic sends them.

use super::*;

fn read(events: &[Value]) -> (Option<ModelReply>, Vec<ModelEvent>) {
    let mut reader = AnthropicReplyReader::default();
    let mut seen = Vec::new();
    for event in events {
        reader
            .read_event(&event.to_string(), &mut |event| seen.push(event))
            .unwrap();
    }
    (reader.finish(), seen)
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg", "model": "claude", "content": [],
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 1}}})
}

fn block(index: u64, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 30}}),
        json!({"type": "message_stop"}),
    ]
}

#[test]
fn text_thoughts_and_calls_are_told_apart() {
    let mut events = vec![
        start(),
        json!({"type": "ping"}),
        block(
            0,
            &json!({"type": "thinking", "thinking": "", "signature": ""}),
        ),
        delta(0, &json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(0, &json!({"type": "signature_delta", "signature": "sig"})),
        json!({"type": "content_block_stop", "index": 0}),
        block(1, &json!({"type": "text", "text": ""})),
        delta(1, &json!({"type": "text_delta", "text": "Let"})),
        delta(1, &json!({"type": "text_delta", "text": " me"})),
        block(
            2,
            &json!({"type": "tool_use", "id": "a", "name": "read", "input": {}}),
        ),
        delta(2, &json!({"type": "input_json_delta", "partial_json": ""})),
        delta(
            2,
            &json!({"type": "input_json_delta", "partial_json": "{\"p\""}),
        ),
        delta(
            2,
            &json!({"type": "input_json_delta", "partial_json": ": 1}"}),
        ),
        block(
            3,
            &json!({"type": "tool_use", "id": "b", "name": "list", "input": {"all": true}}),
        ),
    ];
    events.extend(stop("tool_use"));
    let (reply, seen) = read(&events);
    let reply = reply.unwrap();
    assert_eq!(reply.text, "Let me");
    assert_eq!(reply.finish, FinishReason::ToolCalls);
    assert_eq!(reply.model, "claude");
    let calls: Vec<_> = reply
        .tool_calls
        .iter()
        .map(|call| {
            (
                call.id.as_str(),
                call.name.as_str(),
                call.arguments.as_str(),
            )
        })
        .collect();
    assert_eq!(
        calls,
        [("a", "read", "{\"p\": 1}"), ("b", "list", "{\"all\":true}")]
    );
    assert_eq!(reply.reasoning.text.as_deref(), Some("hm"));
    assert_eq!(
        reply.reasoning.details,
        [json!({"type": "thinking", "thinking": "hm", "signature": "sig"})]
    );
    assert_eq!(
        reply.usage.unwrap(),
        TokenUsage {
            input_tokens: 10,
            cache_read_tokens: 5,
            cache_write_tokens: 2,
            output_tokens: 30,
            reasoning_tokens: 0,
        }
    );
    assert_eq!(
        seen,
        [
            ModelEvent::ReasoningDelta("hm".into()),
            ModelEvent::TextDelta("Let".into()),
            ModelEvent::TextDelta(" me".into()),
            ModelEvent::ToolCallStarted {
                name: "read".into()
            },
            ModelEvent::ToolCallStarted {
                name: "list".into()
            },
        ]
    );
}

#[test]
fn only_the_stop_event_completes_a_reply() {
    let text = [
        start(),
        block(0, &json!({"type": "text", "text": "x"})),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
    ];
    assert_eq!(read(&text).0, None);
}

#[test]
fn every_stop_reason_has_a_meaning() {
    for (word, expected) in [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("tool_use", FinishReason::ToolCalls),
        ("max_tokens", FinishReason::Length),
        ("model_context_window_exceeded", FinishReason::Length),
        ("refusal", FinishReason::ContentFilter),
        ("pause_turn", FinishReason::Other("pause_turn".into())),
    ] {
        assert_eq!(read(&stop(word)).0.unwrap().finish, expected);
    }
}

#[test]
fn unknown_events_and_blocks_are_passed_over() {
    let mut events = vec![
        start(),
        json!({"type": "surprise", "x": 1}),
        block(0, &json!({"type": "server_tool_use", "id": "x"})),
        delta(0, &json!({"type": "citations_delta", "citation": {}})),
        block(1, &json!({"type": "redacted_thinking", "data": "zzz"})),
    ];
    events.extend(stop("end_turn"));
    let reply = read(&events).0.unwrap();
    assert_eq!(reply.text, "");
    assert_eq!(
        reply.reasoning.details,
        [json!({"type": "redacted_thinking", "data": "zzz"})]
    );
}

#[test]
fn an_error_event_is_not_an_answer() {
    let mut reader = AnthropicReplyReader::default();
    let error =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let result = reader.read_event(&error.to_string(), &mut |_| {});
    assert!(matches!(result, Err(StreamError::Refused(_))));
}

#[test]
fn a_whole_reply_is_read_like_a_streamed_one() {
    let whole = json!({"type": "message", "model": "claude", "stop_reason": "tool_use", "content": [
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
    ], "usage": {"input_tokens": 1, "output_tokens": 2}});
    let mut reader = AnthropicReplyReader::default();
    reader
        .read_whole(whole.to_string().as_bytes(), &mut |_| {})
        .unwrap();
    let reply = reader.finish().unwrap();
    assert_eq!(reply.text, "hi");
    assert_eq!(
        reply.tool_calls,
        [crate::message::ToolCall::new("a", "f", "{\"x\":1}")]
    );
}
