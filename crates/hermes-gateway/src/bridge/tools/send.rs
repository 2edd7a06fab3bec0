//! `messages_send`.

use crate::{
    bridge::{
        Bridge,
        arguments::Arguments,
        envelope::{Document, Refusal},
    },
    send::MediaPolicy,
};

pub(super) async fn messages_send(
    bridge: &Bridge,
    arguments: &Arguments,
) -> Result<Document, Refusal> {
    let (target, message) = (arguments.text("target"), arguments.text("message"));
    if target.is_empty() || message.is_empty() {
        return Err(Refusal::new("Both target and message are required"));
    }
    // A client's text is text. Files of this machine go out only where the owner allows it.
    let media = if bridge.settings().bridge.allow_media {
        MediaPolicy::Upload
    } else {
        MediaPolicy::Literal
    };
    match bridge.sender().send(target, message, media).await {
        Ok(sent) => Ok(Document::line(&sent)),
        Err(error) => Err(Refusal(serde_json::to_value(error).unwrap_or_default())),
    }
}
