//! Registers the person for the conversation's questions from MCP servers.

use std::sync::Arc;

use hermes_agent::{
    conversation::Conversation, server_requests::elicitation::ElicitationRegistration,
};
use hermes_config::Settings;
use hermes_store::SessionId;

use crate::{
    commands::chat::prompts::{forms, queue::PromptQueue},
    context::Context,
    server_requests::ServerRequests,
};

/// The answers to servers, and the session they belong to.
pub(super) struct SessionPresence {
    pub(super) server_requests: ServerRequests,
    registered: Option<(SessionId, Option<ElicitationRegistration>)>,
}

impl SessionPresence {
    pub(super) fn new(context: &Context, settings: &Settings, floor: PromptQueue) -> Self {
        let person = Arc::new(forms::FormPrompt::new(floor));
        Self {
            server_requests: ServerRequests::with_person(context, settings, person),
            registered: None,
        }
    }

    /// Follows the conversation: to another session, another directory.
    pub(super) async fn follow(&mut self, conversation: &Conversation) {
        if let Some(host) = conversation.agent().host() {
            self.server_requests
                .set_directory(conversation.cwd(), host)
                .await;
        }
        let id = conversation.id();
        if self
            .registered
            .as_ref()
            .is_none_or(|(taken, _)| taken != id)
        {
            let presence = self.server_requests.register_presence(id.as_str());
            self.registered = Some((id.clone(), presence));
        }
    }
}
