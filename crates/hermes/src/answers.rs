//! Handles requests of MCP servers in this process: sampling by the home's model, elicitation by the person at the terminal.

use std::{path::Path, sync::Arc};

use hermes_agent::{
    ceiling::InForce,
    elicitation::{People, Person, Presence, Ways},
    inquiries::AgentInquiries,
    model::{Selection, Surroundings},
    sampler::{AuxiliaryModels, Sampler},
};
use hermes_config::{Redactor, Settings};
use hermes_mcp::{Host, Inquiries, inquiry::Conversation};

use crate::context::Context;

/// Handlers of server requests, and what they need.
pub(crate) struct Answers {
    inquiries: Arc<AgentInquiries>,
    models: Arc<AuxiliaryModels>,
    in_force: InForce,
    people: Arc<People>,
    person: Option<Arc<dyn Person>>,
}

impl Answers {
    /// Without a person: only sampling is answered.
    pub(crate) fn without_person(context: &Context, settings: &Settings) -> Self {
        Self::with_people(context, settings, InForce::default(), People::nobody())
    }

    /// For a gateway: the policy limits the models, and those who watch a run are asked.
    pub(crate) fn for_gateway(context: &Context, settings: &Settings, in_force: InForce) -> Self {
        Self::with_people(context, settings, in_force, People::new(Ways::ALL))
    }

    fn with_people(
        context: &Context,
        settings: &Settings,
        in_force: InForce,
        people: Arc<People>,
    ) -> Self {
        let models = models(context, settings, in_force.clone());
        let sampler = Sampler::new(models.clone(), redactor(settings));
        let inquiries = AgentInquiries::new(people.clone()).with_sampler(sampler);
        Self {
            inquiries: Arc::new(inquiries),
            models,
            in_force,
            people,
            person: None,
        }
    }

    /// With a person at the terminal. Servers get the working directory as their root.
    pub(crate) fn with_person(
        context: &Context,
        settings: &Settings,
        person: Arc<dyn Person>,
    ) -> Self {
        let in_force = InForce::default();
        let models = models(context, settings, in_force.clone());
        let people = People::new(Ways::ALL);
        let sampler = Sampler::new(models.clone(), redactor(settings));
        let mut inquiries = AgentInquiries::new(people.clone()).with_sampler(sampler);
        if let Ok(directory) = std::env::current_dir() {
            inquiries = inquiries.with_directory(directory);
        }
        Self {
            inquiries: Arc::new(inquiries),
            models,
            in_force,
            people,
            person: Some(person),
        }
    }

    /// The operator's policy, for other users of the same servers.
    pub(crate) fn in_force(&self) -> &InForce {
        &self.in_force
    }

    /// Who may be asked.
    pub(crate) fn people(&self) -> Arc<People> {
        self.people.clone()
    }

    /// The handler for the host.
    pub(crate) fn inquiries(&self) -> Arc<dyn Inquiries> {
        self.inquiries.clone()
    }

    /// Shows questions of this conversation to the person until the returned guard is dropped.
    pub(crate) fn present(&self, conversation: &str) -> Option<Presence> {
        let person = self.person.clone()?;
        let conversation = Conversation(conversation.into());
        Some(self.people.join(conversation, person))
    }

    /// The conversation works in another directory, which servers may want to know.
    pub(crate) async fn move_to(&self, directory: &Path, host: &Host) {
        let directory = directory.to_owned();
        self.inquiries.change_directory(directory, host).await;
    }

    /// There will be a conversation with a model, whatever the configuration says.
    pub(crate) fn expect_model(&self) {
        self.models.expect_main();
    }

    /// Applies other settings, and redacts their secrets.
    pub(crate) fn use_settings(&self, settings: &Settings) {
        self.models.use_settings(settings);
        self.inquiries.use_redactor(redactor(settings));
    }

    /// The model of the conversation, for servers that ask for one.
    pub(crate) fn use_model(&self, selection: &Selection) {
        self.models.use_main(selection);
    }
}

fn models(context: &Context, settings: &Settings, in_force: InForce) -> Arc<AuxiliaryModels> {
    let around = Surroundings::new(&context.home, settings);
    Arc::new(AuxiliaryModels::new(&around).beneath(in_force))
}

fn redactor(settings: &Settings) -> Redactor {
    Redactor::for_variables(&settings.variables)
}
