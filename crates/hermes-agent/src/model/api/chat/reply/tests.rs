//! Replies as servers send them, proper and odd.

use serde_json::json;

use super::*;

/// Reads events to the end of the stream.
fn read(events: &[&str]) -> (Option<ModelReply>, Vec<ModelEvent>) {
    let mut reader = ChatReplyReader::default();
    let mut seen = Vec::new();
    for event in events {
        reader
            .read_event(event, &mut |event| seen.push(event))
            .unwrap();
    }
    (reader.finish(), seen)
}

fn chunk(delta: &Value) -> String {
    json!({"model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
        .to_string()
}

fn end(reason: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

#[test]
fn text_arrives_piece_by_piece() {
    let (reply, events) = read(&[
        &chunk(&json!({"role": "assistant", "content": ""})),
        &chunk(&json!({"content": "Hel"})),
        &chunk(&json!({"content": "lo"})),
        &end("stop"),
        "[DONE]",
    ]);
    let reply = reply.unwrap();
    assert_eq!(reply.text, "Hello");
    assert_eq!(reply.finish, FinishReason::Stop);
    assert_eq!(reply.model, "m-1");
    assert_eq!(
        events,
        [
            ModelEvent::TextDelta("Hel".into()),
            ModelEvent::TextDelta("lo".into())
        ]
    );
}

#[test]
fn either_terminator_completes_a_reply_and_none_does_not() {
    let text = chunk(&json!({"content": "x"}));
    assert!(read(&[&text, &end("stop")]).0.is_some());
    assert!(read(&[&text, "[DONE]"]).0.is_some());
    assert!(read(&[&text]).0.is_none());
    assert!(read(&[]).0.is_none());
    let call = chunk(
        &json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}]}),
    );
    assert!(read(&[&call]).0.is_none());
}

#[test]
fn calls_make_the_reason_whatever_the_server_says() {
    let call = chunk(
        &json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}, "extra_content": {"s": 1}}]}),
    );
    for terminator in ["[DONE]", &end("stop"), &end("tool_calls")] {
        let (reply, events) = read(&[&call, terminator]);
        let reply = reply.unwrap();
        assert_eq!(reply.finish, FinishReason::ToolCalls);
        assert_eq!(reply.tool_calls[0].arguments, "{\"x\":1}");
        assert_eq!(
            reply.tool_calls[0].extra,
            *json!({"extra_content": {"s": 1}}).as_object().unwrap()
        );
        assert_eq!(events, [ModelEvent::ToolCallStarted { name: "f".into() }]);
    }
    assert_eq!(
        read(&[&call, &end("length")]).0.unwrap().finish,
        FinishReason::Length
    );
}

#[test]
fn thoughts_are_kept_apart_from_the_answer() {
    let (reply, events) = read(&[
        &chunk(&json!({"reasoning_content": "let me "})),
        &chunk(&json!({"reasoning_content": "see"})),
        &chunk(&json!({"content": "4"})),
        &end("stop"),
    ]);
    let reply = reply.unwrap();
    assert_eq!(reply.text, "4");
    assert_eq!(reply.reasoning.text.as_deref(), Some("let me see"));
    assert_eq!(reply.reasoning.content.as_deref(), Some("let me see"));
    assert_eq!(events[0], ModelEvent::ReasoningDelta("let me ".into()));
}

#[test]
fn pieces_of_a_thought_block_become_one() {
    let piece = |text: &str, signature: Value| {
        chunk(&json!({"reasoning": text, "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": text, "signature": signature}]}))
    };
    let (reply, _) = read(&[
        &piece("a", Value::Null),
        &piece("b", json!("sig")),
        &chunk(
            &json!({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "x"}]}),
        ),
        &end("stop"),
    ]);
    let reasoning = reply.unwrap().reasoning;
    assert_eq!(reasoning.text.as_deref(), Some("ab"));
    assert_eq!(reasoning.content, None);
    assert_eq!(
        reasoning.details,
        [
            json!({"type": "reasoning.text", "index": 0, "text": "ab", "signature": "sig"}),
            json!({"type": "reasoning.encrypted", "index": 1, "data": "x"}),
        ]
    );
}

#[test]
fn usage_counts_each_token_once() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens_details": {"reasoning_tokens": 3}}});
    let (reply, _) = read(&[&end("stop"), &usage.to_string(), "[DONE]"]);
    let usage = reply.unwrap().usage.unwrap();
    assert_eq!(
        usage,
        TokenUsage {
            input_tokens: 40,
            cache_read_tokens: 60,
            cache_write_tokens: 0,
            output_tokens: 7,
            reasoning_tokens: 3,
        }
    );
    assert_eq!(usage.prompt_tokens(), 100);
    assert_eq!(usage.total_tokens(), 107);
}

#[test]
fn nulls_and_unknown_members_do_no_harm() {
    let odd = json!({"id": 5, "choices": [{"message": {}, "delta": {"content": null, "tool_calls": null, "reasoning": null}, "logprobs": null}], "usage": null, "x": []});
    let (reply, events) = read(&[&odd.to_string(), "{\"choices\": null}", "[DONE]"]);
    assert_eq!(reply.unwrap().text, "");
    assert_eq!(events, []);
}

#[test]
fn an_error_in_the_stream_is_not_an_answer() {
    let mut reader = ChatReplyReader::default();
    let error = json!({"error": {"code": 502, "message": "gone"}, "choices": [{"delta": {"content": ""}, "finish_reason": "error"}]});
    let result = reader.read_event(&error.to_string(), &mut |_| {});
    assert!(matches!(result, Err(StreamError::Refused(_))));
    let result = reader.read_event("{\"choices\": [", &mut |_| {});
    assert!(matches!(result, Err(StreamError::Malformed(_))));
}

#[test]
fn a_whole_reply_is_read_like_a_streamed_one() {
    let whole = json!({"model": "m", "choices": [{"message": {"role": "assistant", "content": "hi", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}},
    ]}, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}});
    let mut reader = ChatReplyReader::default();
    let mut events = Vec::new();
    reader
        .read_whole(whole.to_string().as_bytes(), &mut |event| {
            events.push(event);
        })
        .unwrap();
    let reply = reader.finish().unwrap();
    assert_eq!((reply.text.as_str(), reply.tool_calls.len()), ("hi", 2));
    assert_eq!(events.len(), 3);
    let mut reader = ChatReplyReader::default();
    reader.read_whole(b"{}", &mut |_| {}).unwrap();
    assert_eq!(reader.finish(), None);
}
