use hermes_store::{MessageId, MessageState, SessionId};
use serde_json::json;

use super::*;
use crate::message::Part;

fn stored_row(body: NewMessage) -> StoredMessage {
    StoredMessage {
        id: MessageId(1),
        session: SessionId::parse("s").unwrap(),
        state: MessageState::Active,
        timestamp: 0.0,
        body,
    }
}

fn rows(messages: &[Message]) -> Vec<StoredMessage> {
    let detail = MessageDetail::default();
    messages
        .iter()
        .map(|message| stored_row(message_to_row(message, &detail)))
        .collect()
}

fn asks(calls: &[&str]) -> Message {
    Message::Assistant(AssistantMessage {
        tool_calls: calls
            .iter()
            .map(|id| ToolCall::new(*id, "look", "{}"))
            .collect(),
        ..AssistantMessage::default()
    })
}

fn result(id: &str) -> Message {
    Message::tool(&ToolCall::new(id, "look", "{}"), "seen")
}

fn ids(messages: &[Message]) -> Vec<&str> {
    let mut ids = Vec::new();
    for message in messages {
        ids.push(match message {
            Message::Tool(result) => result.tool_call_id.as_str(),
            _ => "-",
        });
    }
    ids
}

#[test]
fn messages_survive_being_rows() {
    let mut call = ToolCall::new("a", "look", r#"{"x": 1}"#);
    call.extra.insert("signature".into(), json!("s"));
    let thinking = Message::Assistant(AssistantMessage {
        content: "yes".into(),
        tool_calls: vec![call.clone()],
        reasoning: Reasoning {
            text: Some("hm".into()),
            content: Some("hm hm".into()),
            details: vec![json!({"type": "thinking", "signature": "x"})],
        },
    });
    let picture = Content::Parts(vec![
        Part::from_text("what is this"),
        Part::from_image_bytes("image/png", b"png"),
    ]);
    let messages = [
        Message::User { content: picture },
        thinking,
        Message::tool(&call, "seen"),
        Message::assistant("done"),
    ];
    let history = build_history(&rows(&messages));
    assert_eq!(history.messages, messages);
    assert_eq!(history.to_store, []);
}

#[test]
fn a_message_of_calls_alone_has_no_content() {
    let row = message_to_row(&asks(&["a"]), &MessageDetail::default());
    assert_eq!(row.content, None);
    assert_eq!(
        row.tool_calls.unwrap(),
        json!([{"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}])
    );
}

#[test]
fn calls_without_a_result_at_the_end_get_one_that_is_stored() {
    let messages = [Message::user("go"), asks(&["a", "b", "c"]), result("b")];
    let history = build_history(&rows(&messages));
    assert_eq!(ids(&history.messages), ["-", "-", "b", "a", "c"]);
    assert_eq!(ids(&history.to_store), ["a", "c"]);
}

#[test]
fn calls_without_a_result_in_the_middle_get_one_in_their_place() {
    let messages = [asks(&["a"]), Message::user("and now?"), asks(&["a"])];
    let history = build_history(&rows(&messages));
    assert_eq!(ids(&history.messages), ["-", "a", "-", "-", "a"]);
    assert_eq!(ids(&history.to_store), ["a"]);
}

#[test]
fn results_without_a_call_are_left_out() {
    let messages = [Message::user("go"), result("x"), Message::assistant("done")];
    assert_eq!(ids(&build_history(&rows(&messages)).messages), ["-", "-"]);
}

#[test]
fn the_text_that_was_sent_counts_where_it_differs() {
    let told = NewMessage {
        api_content: Some("[note] hello".into()),
        ..NewMessage::new(Role::User, "hello")
    };
    assert_eq!(row_content(&told), Content::from("hello"));
    let history = build_history(&[stored_row(told)]);
    assert_eq!(history.messages, [Message::user("[note] hello")]);
}
