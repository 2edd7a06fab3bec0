//! Converts messages to rows of the store and back.

use hermes_store::{NewMessage, Role, StoredMessage};
use serde_json::Value;

use crate::{
    message::{AssistantMessage, Content, Message, Part, Reasoning, ToolCall, ToolResult},
    turn::MessageDetail,
};

/// Stored in place of a result that never arrived.
const INTERRUPTED_RESULT: &str =
    r#"{"error": "interrupted: the session ended before this call did"}"#;

pub(crate) fn message_to_row(message: &Message, detail: &MessageDetail) -> NewMessage {
    match message {
        Message::System { content } => content_row(Role::System, content),
        Message::User { content } => content_row(Role::User, content),
        Message::Tool(result) => NewMessage {
            tool_call_id: Some(result.tool_call_id.clone()),
            tool_name: result.name.clone(),
            ..content_row(Role::Tool, &result.content)
        },
        Message::Assistant(answer) => assistant_row(answer, detail),
    }
}

fn assistant_row(answer: &AssistantMessage, detail: &MessageDetail) -> NewMessage {
    let only_calls = answer.content.is_empty() && !answer.tool_calls.is_empty();
    let reasoning = &answer.reasoning;
    NewMessage {
        content: (!only_calls).then(|| stored_content(&answer.content)),
        tool_calls: (!answer.tool_calls.is_empty()).then(|| to_json(&answer.tool_calls)),
        finish_reason: detail.finish.clone(),
        token_count: detail
            .usage
            .and_then(|usage| i64::try_from(usage.output_tokens).ok()),
        reasoning: reasoning.text.clone(),
        reasoning_content: reasoning.content.clone(),
        reasoning_details: (!reasoning.details.is_empty()).then(|| to_json(&reasoning.details)),
        ..NewMessage::without_content(Role::Assistant)
    }
}

/// The row of a user message, and what the model gets: the message after a note that people do not see.
pub(crate) fn user_row(content: &Content, note: &str) -> (NewMessage, Content) {
    match content {
        _ if note.is_empty() => (content_row(Role::User, content), content.clone()),
        Content::Text(text) => {
            let sent = format!("{note}\n\n{text}");
            let row = NewMessage {
                api_content: Some(sent.clone()),
                ..content_row(Role::User, content)
            };
            (row, sent.into())
        }
        Content::Parts(parts) => {
            let mut parts = parts.clone();
            parts.insert(0, Part::from_text(note));
            let sent = Content::Parts(parts);
            (content_row(Role::User, &sent), sent)
        }
    }
}

fn content_row(role: Role, content: &Content) -> NewMessage {
    NewMessage::new(role, stored_content(content))
}

fn stored_content(content: &Content) -> hermes_store::Content {
    match content {
        Content::Text(text) => hermes_store::Content::Text(text.clone()),
        Content::Parts(parts) => hermes_store::Content::Parts(to_json(parts)),
    }
}

fn to_json(value: &impl serde::Serialize) -> Value {
    // Serialising our own types cannot fail.
    serde_json::to_value(value).unwrap_or_default()
}

/// The content of a row; for user messages without what was added for the model.
pub(crate) fn row_content(row: &NewMessage) -> Content {
    match &row.content {
        None => Content::default(),
        Some(hermes_store::Content::Text(text)) => Content::Text(text.clone()),
        Some(hermes_store::Content::Parts(parts)) => serde_json::from_value(parts.clone())
            .unwrap_or_else(|_| Content::Text(parts.to_string())),
    }
}

/// The message of a row; none for unknown roles.
pub(crate) fn row_to_message(row: &NewMessage) -> Option<Message> {
    let content = match &row.api_content {
        Some(sent) => Content::Text(sent.clone()),
        None => row_content(row),
    };
    Some(match &row.role {
        Role::User => Message::User { content },
        Role::System => Message::System { content },
        Role::Assistant => Message::Assistant(AssistantMessage {
            content,
            tool_calls: stored_calls(row.tool_calls.as_ref()),
            reasoning: Reasoning {
                text: row.reasoning.clone(),
                content: row.reasoning_content.clone(),
                details: match &row.reasoning_details {
                    Some(Value::Array(details)) => details.clone(),
                    _ => Vec::new(),
                },
            },
        }),
        Role::Tool => Message::Tool(ToolResult {
            tool_call_id: row.tool_call_id.clone()?,
            name: row.tool_name.clone(),
            content,
        }),
        Role::Other(_) => return None,
    })
}

pub(crate) fn stored_calls(stored: Option<&Value>) -> Vec<ToolCall> {
    let calls = stored.and_then(Value::as_array).into_iter().flatten();
    calls
        .filter_map(|call| serde_json::from_value(call.clone()).ok())
        .collect()
}

/// A history that every provider accepts, and the messages that have to be stored for it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct History {
    pub(crate) messages: Vec<Message>,
    /// Results for calls at the end that never got one. They are part of `messages`.
    pub(crate) to_store: Vec<Message>,
}

/// Builds the history from rows. Every call gets a result, and every result has its call: another program, or a crash
/// in the middle of a turn, may have left some out.
pub(crate) fn build_history(rows: &[StoredMessage]) -> History {
    let mut history = History::default();
    let mut open: Vec<ToolCall> = Vec::new();
    for next in rows.iter().filter_map(|row| row_to_message(&row.body)) {
        if let Message::Tool(result) = &next {
            let Some(at) = open.iter().position(|call| call.id == result.tool_call_id) else {
                continue;
            };
            open.remove(at);
        } else {
            history.messages.extend(open.iter().map(interrupted_result));
            open = next.tool_calls().to_vec();
        }
        history.messages.push(next);
    }
    history.to_store = open.iter().map(interrupted_result).collect();
    history.messages.extend(history.to_store.iter().cloned());
    history
}

fn interrupted_result(call: &ToolCall) -> Message {
    Message::tool(call, INTERRUPTED_RESULT)
}

#[cfg(test)]
mod tests {
    use hermes_store::{MessageId, MessageState, SessionId};
    use serde_json::json;

    use super::*;

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
        let message = NewMessage {
            api_content: Some("[note] hello".into()),
            ..NewMessage::new(Role::User, "hello")
        };
        assert_eq!(row_content(&message), Content::from("hello"));
        let history = build_history(&[stored_row(message)]);
        assert_eq!(history.messages, [Message::user("[note] hello")]);
    }
}
