//! Messages as they are stored.

use serde_json::json;

use super::*;

fn round_trip(value: &Value) -> Message {
    let message: Message = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&message).unwrap(), value);
    message
}

#[test]
fn stored_messages_come_back_as_they_were() {
    for value in [
        json!({"role": "system", "content": "be kind"}),
        json!({"role": "user", "content": "hello"}),
        json!({"role": "user", "content": [
            {"type": "text", "text": "what is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}},
        ]}),
        json!({"role": "assistant", "content": "hi"}),
        json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{\"path\": \"x\"}"}},
            {"id": "b", "type": "function", "function": {"name": "list", "arguments": "no json"},
             "extra_content": {"google": {"thought_signature": "s"}}},
        ], "reasoning": "hm", "reasoning_details": [{"type": "thinking", "signature": "s"}]}),
        json!({"role": "tool", "tool_call_id": "a", "name": "read", "content": "text"}),
    ] {
        round_trip(&value);
    }
}

#[test]
fn null_and_missing_content_of_a_call_is_empty() {
    let calls = json!([{"id": "a", "function": {"name": "f"}}]);
    for value in [
        json!({"role": "assistant", "content": null, "tool_calls": calls}),
        json!({"role": "assistant", "tool_calls": calls, "reasoning_details": null}),
    ] {
        let message: Message = serde_json::from_value(value).unwrap();
        assert!(message.content().is_empty());
        assert_eq!(message.tool_calls(), [ToolCall::new("a", "f", "")]);
    }
}

#[test]
fn members_nobody_knows_are_passed_over() {
    let value = json!({"role": "user", "content": "x", "timestamp": 3, "cache_control": {}});
    let message: Message = serde_json::from_value(value).unwrap();
    assert_eq!(message, Message::user("x"));
    let value = json!({"role": "developer", "content": "x"});
    let message: Message = serde_json::from_value(value).unwrap();
    assert_eq!(message, Message::system("x"));
}

#[test]
fn the_text_of_parts_is_joined() {
    let content = Content::Parts(vec![
        Part::from_text("a"),
        Part::from_image_bytes("image/png", b"\x89PNG"),
        Part::from_text("b"),
    ]);
    assert_eq!(content.text(), "a\nb");
}

#[test]
fn image_bytes_become_a_data_url() {
    let Part::Known(KnownPart::ImageUrl { image_url }) =
        Part::from_image_bytes("image/png", b"\x89PNG")
    else {
        panic!("no image");
    };
    assert_eq!(image_url.url, "data:image/png;base64,iVBORw==");
    assert_eq!(image_url.data_url_parts(), Some(("image/png", "iVBORw==")));
    let elsewhere = Image {
        url: "https://example.com/a.png".into(),
        detail: None,
    };
    assert_eq!(elsewhere.data_url_parts(), None);
}

#[test]
fn arguments_are_parsed_only_on_request() {
    let arguments = |text: &str| ToolCall::new("a", "f", text).parse_arguments();
    assert_eq!(arguments("").unwrap(), Map::new());
    assert_eq!(arguments("{\"a\": 1}").unwrap()["a"], 1);
    assert!(arguments("[1]").is_err());
    assert!(arguments("{\"a\": ").is_err());
}

#[test]
fn broken_arguments_are_sent_back_inside_an_object() {
    let sent = |text: &str| {
        ToolCall::new("a", "f", text)
            .valid_json_arguments()
            .into_owned()
    };
    assert_eq!(sent(" "), "{}");
    assert_eq!(sent("{\"a\": 1}"), "{\"a\": 1}");
    assert_eq!(sent("{\"a\": "), "{\"_raw\":\"{\\\"a\\\": \"}");
    assert_eq!(sent("[1]"), "{\"_raw\":\"[1]\"}");
}
