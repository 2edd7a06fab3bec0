//! Resources of MCP servers that a message mentions.

use hermes_agent::{conversation::Conversation, mention::Mentions, message::Content};
use hermes_mcp::{CallOptions, server_request};
use hermes_store::SessionId;
use tokio_util::sync::CancellationToken;

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
