//! Registers the person for the conversation's questions from MCP servers.

use std::sync::Arc;

use hermes_agent::{conversation::Conversation, elicitation::Presence};
use hermes_config::Settings;
use hermes_store::SessionId;

use crate::{
    answers::Answers,
    chat::{floor::Floor, forms},
    context::Context,
};

/// The answers to servers, and the session they belong to.
pub(super) struct Seat {
    pub(super) answers: Answers,
    taken: Option<(SessionId, Option<Presence>)>,
}

impl Seat {
    pub(super) fn new(context: &Context, settings: &Settings, floor: Floor) -> Self {
        let person = Arc::new(forms::Person::new(floor));
        Self {
            answers: Answers::with_person(context, settings, person),
            taken: None,
        }
    }

    /// Follows the conversation: to another session, another directory.
    pub(super) async fn follow(&mut self, conversation: &Conversation) {
        if let Some(host) = conversation.agent().host() {
            self.answers.move_to(conversation.cwd(), host).await;
        }
        let id = conversation.id();
        if self.taken.as_ref().is_none_or(|(taken, _)| taken != id) {
            let presence = self.answers.present(id.as_str());
            self.taken = Some((id.clone(), presence));
        }
    }
}
