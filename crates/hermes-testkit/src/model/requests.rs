//! Reading requests, which are alike in both protocols.

use serde_json::Value;

/// The text of the last message, tool results included.
pub(super) fn last_text(body: &Value) -> String {
    messages(body).last().map(text_of).unwrap_or_default()
}

/// The text of the last message of the user.
pub(super) fn last_user_text(body: &Value) -> String {
    messages(body)
        .rev()
        .filter(|message| message["role"] == "user")
        .map(text_of)
        .find(|text| !text.is_empty())
        .unwrap_or_default()
}

fn messages(body: &Value) -> impl DoubleEndedIterator<Item = &Value> {
    body["messages"].as_array().into_iter().flatten()
}

/// All text of a message or content block.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<String> = parts.iter().map(text_of).collect();
            texts.join("\n")
        }
        Value::Object(part) => part
            .get("text")
            .or_else(|| part.get("content"))
            .map(text_of)
            .unwrap_or_default(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_found_in_both_protocols() {
        let chat = json!({"messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": ""},
            {"role": "tool", "content": "rain"},
        ]});
        assert_eq!(last_text(&chat), "rain");
        assert_eq!(last_user_text(&chat), "hi");
        let anthropic = json!({"messages": [{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "rain"}]},
        ]}]});
        assert_eq!(last_text(&anthropic), "rain");
    }
}
