//! Resources of MCP servers that a message mentions.

use hermes_agent::{conversation::Conversation, mention::Mentions, message::Content};
use hermes_mcp::{CallOptions, inquiry};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// How servers are asked in the name of a conversation.
pub(super) fn options(conversation: &Conversation, cancel: &CancellationToken) -> CallOptions {
    CallOptions {
        conversation: Some(inquiry::Conversation(conversation.id().as_str().into())),
        cancel: cancel.clone(),
        ..CallOptions::default()
    }
}

/// The mentions of a conversation; without servers there are none.
pub(super) fn of(conversation: &Conversation) -> Option<Mentions> {
    conversation.agent().host().cloned().map(Mentions::new)
}

/// A message with the resources it mentions. `warn` is told what stays text.
pub(super) async fn complete(
    mentions: Option<&mut Mentions>,
    content: Content,
    options: &CallOptions,
    mut warn: impl FnMut(&str),
) -> Result<Content, Failure> {
    let Some(mentions) = mentions else {
        return Ok(content);
    };
    let (content, warnings) = mentions.complete(content, options).await;
    if options.cancel.is_cancelled() {
        return Err(Failure::interrupted());
    }
    for warning in warnings {
        warn(&warning);
    }
    Ok(content)
}
