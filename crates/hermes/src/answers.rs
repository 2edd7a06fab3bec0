//! Who answers MCP servers when a command runs at a terminal: its user, and the home's model.

use std::sync::Arc;

use hermes_agent::{
    elicitation::{People, Presence, Ways},
    inquiries::AgentInquiries,
    model::Surroundings,
    sampler::{AuxiliaryModels, Sampler},
};
use hermes_config::Settings;
use hermes_mcp::inquiry::Conversation;

use crate::{context::Context, question::TerminalPerson};

/// Answers for one conversation, as long as this lives.
pub(crate) struct Answers {
    /// For the host.
    pub(crate) inquiries: Arc<AgentInquiries>,
    _person: Presence,
}

impl Answers {
    /// With a person at the terminal, who sees what is asked in this conversation.
    pub(crate) fn at_terminal(
        context: &Context,
        settings: &Settings,
        conversation: Conversation,
        person: TerminalPerson,
    ) -> Self {
        let models = Arc::new(AuxiliaryModels::new(&Surroundings::new(
            &context.home,
            settings,
        )));
        let people = People::new(Ways::ALL);
        let person = people.join(conversation, Arc::new(person));
        let mut inquiries = AgentInquiries::new(people).with_sampler(Sampler::new(models));
        if let Ok(directory) = std::env::current_dir() {
            inquiries = inquiries.with_directory(directory);
        }
        Self {
            inquiries: Arc::new(inquiries),
            _person: person,
        }
    }
}
