//! What a message says, and how that is one text in the database.

use std::borrow::Cow;

use serde_json::Value;

use crate::json;

/// Begins the stored text of a list or object. No chat text begins with NUL.
const STRUCTURED_PREFIX: &str = "\0json:";

/// What a message says.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Text(String),
    /// A list of parts (`text`, `image_url`, …), or an object.
    Parts(Value),
}

impl Content {
    /// The words in it: the text, or the text parts on lines of their own.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) | Self::Parts(Value::String(text)) => Cow::Borrowed(text),
            Self::Parts(Value::Array(parts)) => {
                let texts: Vec<_> = parts.iter().filter_map(part_text).collect();
                Cow::Owned(texts.join("\n"))
            }
            Self::Parts(value) => Cow::Borrowed(part_text(value).unwrap_or_default()),
        }
    }

    /// The text stored.
    pub(crate) fn encode(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Parts(value) => Cow::Owned(format!("{STRUCTURED_PREFIX}{value}")),
        }
    }

    /// What a stored text says. A marked text that is not JSON is taken literally.
    pub(crate) fn decode(stored: String) -> Self {
        match stored
            .strip_prefix(STRUCTURED_PREFIX)
            .and_then(json::parse_json)
        {
            Some(value) => Self::Parts(value),
            None => Self::Text(stored),
        }
    }
}

/// Whether a stored text, or its beginning, is that of a list or object.
pub(crate) fn is_structured(stored: &str) -> bool {
    stored.starts_with(STRUCTURED_PREFIX)
}

fn part_text(part: &Value) -> Option<&str> {
    let is_text = part.get("type").and_then(Value::as_str) == Some("text");
    let text = part.get("text").filter(|_| is_text)?;
    text.as_str()
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_survives_being_stored() {
        for content in [
            Content::from(""),
            Content::from("a\0b"),
            Content::from("json:[]"),
            Content::Parts(json!([{"type": "text", "text": "字 😀 \0"}])),
            Content::Parts(json!({"a": [1, null]})),
        ] {
            let stored = content.encode().into_owned();
            assert_eq!(is_structured(&stored), matches!(content, Content::Parts(_)));
            assert_eq!(Content::decode(stored), content);
        }
    }

    #[test]
    fn a_mark_before_something_else_is_text() {
        assert_eq!(
            Content::decode("\0json:{".into()),
            Content::from("\0json:{")
        );
    }

    #[test]
    fn the_words_are_those_of_the_text_parts() {
        let parts = Content::Parts(json!([
            {"type": "text", "text": "one"},
            {"type": "image_url", "image_url": {"url": "data:"}},
            "no part",
            {"type": "text", "text": "two"},
        ]));
        assert_eq!(parts.text(), "one\ntwo");
        assert_eq!(Content::Parts(json!("x")).text(), "x");
        assert_eq!(Content::from("x").text(), "x");
        assert_eq!(Content::Parts(json!({"type": "other"})).text(), "");
    }
}
