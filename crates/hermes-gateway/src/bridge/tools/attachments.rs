//! `attachments_fetch`: the attachments of a message.

use hermes_store::{Content, MessageId, MessageState, SessionId, Store, StoredMessage};
use serde_json::{Value, json};

use super::{conversations, messages};
use crate::bridge::{
    Bridge,
    arguments::Arguments,
    envelope::{JsonDocument, ToolRefusal},
    resources,
};

/// Precedes the path of a file in a text.
const MEDIA_TAG: &str = "MEDIA:";

#[derive(Debug, Clone, PartialEq)]
pub(in crate::bridge) enum StoredAttachment {
    /// An image by URL, possibly a `data:` URL.
    Image {
        url: String,
    },
    /// Any other part, passed on unchanged.
    Part {
        kind: String,
        part: Value,
    },
    Media {
        path: String,
    },
}

pub(super) async fn attachments_fetch(
    bridge: &Bridge,
    arguments: &Arguments,
) -> Result<JsonDocument, ToolRefusal> {
    let conversation =
        conversations::find_conversation(bridge, arguments.text("session_key")).await?;
    let (store, session) = messages::open_session(bridge, &conversation).await?;
    let id = arguments.text("message_id");
    let message = find_message(&store, &session, id).await?;
    let most = bridge.settings().bridge.max_inline_bytes;
    let shown = attachments_of(&message)
        .into_iter()
        .enumerate()
        .map(|(position, attachment)| {
            attachment.to_json(most, || {
                resources::attachment_uri(session.as_str(), id, position)
            })
        });
    let shown: Vec<Value> = shown.collect();
    Ok(json!({"message_id": id, "count": shown.len(), "attachments": shown}).into())
}

/// The message of that id, unless it was removed by an undo.
pub(in crate::bridge) async fn find_message(
    store: &Store,
    session: &SessionId,
    id: &str,
) -> Result<StoredMessage, ToolRefusal> {
    // Only the canonical form of an id is valid: `7`, not `07`.
    let row = id.parse().ok().filter(|row: &i64| row.to_string() == id);
    let attachments = match row {
        Some(row) => store
            .message(session, MessageId(row))
            .await
            .map_err(|error| messages::read_failed(&error))?,
        None => None,
    };
    attachments
        .filter(|message| message.state != MessageState::Rewound)
        .ok_or_else(|| ToolRefusal::new(format!("Message not found: {id}")))
}

/// The attachments of a message: the parts of its content, then the files named in its text.
pub(in crate::bridge) fn attachments_of(message: &StoredMessage) -> Vec<StoredAttachment> {
    let Some(content) = &message.body.content else {
        return Vec::new();
    };
    let mut attachments = Vec::new();
    if let Content::Parts(Value::Array(parts)) = content {
        attachments.extend(parts.iter().filter_map(attachment_from_part));
    }
    attachments.extend(find_media(&content.text()));
    attachments
}

fn attachment_from_part(part: &Value) -> Option<StoredAttachment> {
    let map = part.as_object()?;
    let kind = map.get("type").and_then(Value::as_str).unwrap_or_default();
    let image = |url: Option<&Value>| {
        let url = url.and_then(Value::as_str).filter(|url| !url.is_empty())?;
        Some(StoredAttachment::Image {
            url: url.to_owned(),
        })
    };
    match kind {
        "text" => None,
        "image_url" => image(part.pointer("/image_url/url")),
        "image" => image(map.get("url")).or_else(|| image(part.pointer("/source/url"))),
        _ => Some(StoredAttachment::Part {
            kind: kind.to_owned(),
            part: part.clone(),
        }),
    }
}

/// The paths after each `MEDIA:`.
fn find_media(text: &str) -> Vec<StoredAttachment> {
    let mut attachments = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(MEDIA_TAG) {
        rest = rest[start + MEDIA_TAG.len()..].trim_start();
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (path, after) = rest.split_at(end);
        if !path.is_empty() {
            attachments.push(StoredAttachment::Media { path: path.into() });
        }
        rest = after;
    }
    attachments
}

impl StoredAttachment {
    /// The JSON form. A large inline image is replaced by its resource URI.
    fn to_json(&self, most_inline: usize, resource: impl FnOnce() -> String) -> Value {
        match self {
            Self::Image { url } if url.starts_with("data:") && url.len() > most_inline => json!({
                "type": "image",
                "url": null,
                "size": url.len(),
                "truncated": true,
                "resource": resource(),
            }),
            Self::Image { url } => json!({"type": "image", "url": url}),
            Self::Part { kind, part } => json!({"type": kind, "data": part}),
            Self::Media { path } => json!({"type": "media", "path": path}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_in_the_text() {
        let paths = |text| -> Vec<String> {
            let shown = find_media(text).into_iter();
            shown
                .map(|media| {
                    media.to_json(0, String::new)["path"]
                        .as_str()
                        .unwrap()
                        .to_owned()
                })
                .collect()
        };
        assert_eq!(
            paths("see MEDIA:/a/b.png and MEDIA: /c.ogg\nok"),
            ["/a/b.png", "/c.ogg"]
        );
        assert_eq!(paths("MEDIA:/a,MEDIA:/b"), ["/a,MEDIA:/b"]);
        assert_eq!(paths("MEDIA:"), [""; 0]);
        assert_eq!(paths("media:/a"), [""; 0]);
    }

    #[test]
    fn parts_become_attachments_but_for_text_and_empty_images() {
        for (part, attachment) in [
            (json!({"type": "text", "text": "x"}), None),
            (
                json!({"type": "image_url", "image_url": {"url": "u"}}),
                Some(json!({"type": "image", "url": "u"})),
            ),
            (json!({"type": "image_url", "image_url": "u"}), None),
            (json!({"type": "image_url", "image_url": {"url": ""}}), None),
            (
                json!({"type": "image", "url": "u"}),
                Some(json!({"type": "image", "url": "u"})),
            ),
            (
                json!({"type": "image", "source": {"url": "v"}}),
                Some(json!({"type": "image", "url": "v"})),
            ),
            (json!({"type": "image", "source": {}}), None),
            (
                json!({"type": "input_audio", "x": 1}),
                Some(json!({"type": "input_audio", "data": {"type": "input_audio", "x": 1}})),
            ),
        ] {
            let shown = attachment_from_part(&part)
                .map(|attachments| attachments.to_json(100, String::new));
            assert_eq!(shown, attachment, "{part}");
        }
    }

    #[test]
    fn only_long_images_that_are_written_out_are_left_out() {
        let long = |start: &str| StoredAttachment::Image {
            url: format!("{start}{}", "A".repeat(200)),
        };
        let shown = long("data:image/png;base64,").to_json(100, || "hermes://x".into());
        assert_eq!(shown["url"], Value::Null);
        assert_eq!(shown["truncated"], true);
        assert_eq!(shown["resource"], "hermes://x");
        assert!(shown["size"].as_u64().unwrap() > 200);
        assert!(long("https://").to_json(100, String::new)["url"].is_string());
    }
}
