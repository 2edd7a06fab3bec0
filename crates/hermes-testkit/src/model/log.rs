//! What a model has been asked, and reading requests, which are alike in both protocols.

use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::script::lock;

/// A request for an answer, as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCall {
    pub path: String,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
    /// Whether the client left before the reply was complete.
    pub abandoned: bool,
}

impl ModelCall {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// All requests of a server.
#[derive(Debug, Clone, Default)]
pub(super) struct ModelCallLog(Arc<Mutex<Vec<ModelCall>>>);

impl ModelCallLog {
    pub(super) fn add(&self, call: ModelCall) -> ModelCallWatch {
        let mut calls = lock(&self.0);
        calls.push(call);
        ModelCallWatch {
            log: self.clone(),
            index: calls.len() - 1,
            complete: false,
        }
    }

    pub(super) fn calls(&self) -> Vec<ModelCall> {
        lock(&self.0).clone()
    }
}

/// Notices when a client leaves before its reply is complete.
#[derive(Debug)]
pub(super) struct ModelCallWatch {
    log: ModelCallLog,
    index: usize,
    complete: bool,
}

impl ModelCallWatch {
    pub(super) fn complete(&mut self) {
        self.complete = true;
    }
}

impl Drop for ModelCallWatch {
    fn drop(&mut self) {
        if !self.complete
            && let Some(call) = lock(&self.log.0).get_mut(self.index)
        {
            call.abandoned = true;
        }
    }
}

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
