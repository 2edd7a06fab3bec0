//! Who answers the MCP servers of a chat: its person, its model, and the directory it works in.

use std::sync::Arc;

use hermes_agent::{
    conversation::Conversation,
    elicitation::{People, Presence, Ways},
    inquiries::AgentInquiries,
    model::Surroundings,
    sampler::{AuxiliaryModels, Sampler},
};
use hermes_config::Settings;
use hermes_mcp::inquiry;
use hermes_store::SessionId;

use crate::{
    chat::{floor::Floor, forms},
    context::Context,
};

/// The answers, and the conversation they belong to.
pub(super) struct Answers {
    pub(super) inquiries: Arc<AgentInquiries>,
    models: Arc<AuxiliaryModels>,
    people: Arc<People>,
    person: Arc<forms::Person>,
    /// The session in which the person is to be found.
    seat: Option<(SessionId, Presence)>,
}

impl Answers {
    pub(super) fn new(context: &Context, settings: &Settings, floor: Floor) -> Self {
        let models = Arc::new(AuxiliaryModels::new(&Surroundings::new(
            &context.home,
            settings,
        )));
        let people = People::new(Ways::ALL);
        let mut inquiries =
            AgentInquiries::new(people.clone()).with_sampler(Sampler::new(models.clone()));
        if let Ok(directory) = std::env::current_dir() {
            inquiries = inquiries.with_directory(directory);
        }
        Self {
            inquiries: Arc::new(inquiries),
            models,
            people,
            person: Arc::new(forms::Person::new(floor)),
            seat: None,
        }
    }

    /// Follows the conversation: to another session, another model, another directory.
    pub(super) async fn follow(&mut self, conversation: &Conversation) {
        if let Some(selection) = conversation.model() {
            self.models.use_main(selection);
        }
        if let Some(host) = conversation.agent().host() {
            let directory = conversation.cwd().to_owned();
            self.inquiries.change_directory(directory, host).await;
        }
        let id = conversation.id();
        if self.seat.as_ref().is_none_or(|(seated, _)| seated != id) {
            let place = inquiry::Conversation(id.as_str().into());
            let presence = self.people.join(place, self.person.clone());
            self.seat = Some((id.clone(), presence));
        }
    }
}
