//! What goes with a message: images, and resources of MCP servers that it mentions.

use std::path::Path;

use hermes_agent::{
    conversation::Conversation,
    mention::Mentions,
    message::{Content, Part},
};
use hermes_config::detect_image_type;
use hermes_mcp::{CallOptions, server_request};
use hermes_store::SessionId;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// More than any provider takes.
const MAX_IMAGE_BYTES: u64 = 20 * 1024 * 1024;

/// A message with images.
pub(super) fn message_with_images(
    text: &str,
    images: &[impl AsRef<Path>],
) -> Result<Content, Failure> {
    if images.is_empty() {
        return Ok(text.into());
    }
    let mut parts = vec![Part::from_text(text)];
    for path in images {
        parts.push(read_image(path.as_ref())?);
    }
    Ok(parts.into())
}

/// An image in a file.
pub(super) fn read_image(path: &Path) -> Result<Part, Failure> {
    let unusable = |reason: String| {
        Failure::usage(format!(
            "the image `{}` cannot be used: {reason}",
            path.display()
        ))
    };
    let size = std::fs::metadata(path)
        .map_err(|error| unusable(error.to_string()))?
        .len();
    if size > MAX_IMAGE_BYTES {
        return Err(unusable(format!(
            "it has more than {} MB",
            MAX_IMAGE_BYTES >> 20
        )));
    }
    let bytes = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    image_from_bytes(&bytes).ok_or_else(|| unusable("it is not a PNG, JPEG, GIF or WebP".into()))
}

/// An image, if these are the bytes of one.
pub(super) fn image_from_bytes(bytes: &[u8]) -> Option<Part> {
    detect_image_type(bytes).map(|kind| Part::from_image_bytes(kind, bytes))
}

/// How servers are asked in the name of a conversation.
pub(super) fn call_options(conversation: &Conversation, cancel: &CancellationToken) -> CallOptions {
    CallOptions {
        conversation: Some(server_request::ConversationId(
            conversation.id().as_str().into(),
        )),
        cancel: cancel.clone(),
        ..CallOptions::default()
    }
}

/// The mentions of a conversation; without servers there are none.
pub(super) fn for_conversation(conversation: &Conversation) -> Option<Mentions> {
    conversation.agent().host().cloned().map(Mentions::new)
}

/// The mentions of a conversation that may move on to another session, where everything is new.
pub(super) fn for_session<'m>(
    known: &'m mut Option<(SessionId, Mentions)>,
    conversation: &Conversation,
) -> Option<&'m mut Mentions> {
    if known
        .as_ref()
        .is_none_or(|(session, _)| session != conversation.id())
    {
        *known =
            for_conversation(conversation).map(|mentions| (conversation.id().clone(), mentions));
    }
    known.as_mut().map(|(_, mentions)| mentions)
}

/// A message with the resources it mentions. `warn` is told what stays text.
pub(super) async fn attach_mentions(
    mentions: Option<&mut Mentions>,
    content: Content,
    options: &CallOptions,
    mut warn: impl FnMut(&str),
) -> Content {
    let Some(mentions) = mentions else {
        return content;
    };
    let (content, warnings) = mentions.expand_message(content, options).await;
    for warning in warnings {
        warn(&warning);
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_told_by_their_first_bytes() {
        assert_eq!(detect_image_type(b"\x89PNG\r\n"), Some("image/png"));
        assert_eq!(
            detect_image_type(b"RIFF\0\0\0\0WEBPVP8"),
            Some("image/webp")
        );
        assert_eq!(detect_image_type(b"#!/bin/sh"), None);
    }
}
