//! Handles requests of MCP servers in this process: sampling by the home's model, elicitation by the person at the terminal.

use std::{path::Path, sync::Arc};

use hermes_agent::{
    model::{ResolveContext, Selection},
    policy::PolicyHandle,
    server_requests::{
        AgentRequestHandler,
        elicitation::{
            ElicitationModes, ElicitationRegistration, ElicitationRegistry, ElicitationUi,
        },
        sampler::{AuxiliaryModels, Sampler},
    },
};
use hermes_config::{Redactor, Settings};
use hermes_gateway::gateway::SettingsCallback;
use hermes_mcp::{Host, ServerRequestHandler, server_request::ConversationId};

use crate::context::Context;

/// Handlers of server requests, and what they need.
pub(crate) struct ServerRequests {
    handler: Arc<AgentRequestHandler>,
    models: Arc<AuxiliaryModels>,
    policy: PolicyHandle,
    people: Arc<ElicitationRegistry>,
    person: Option<Arc<dyn ElicitationUi>>,
}

impl ServerRequests {
    /// Without a person: only sampling is answered.
    pub(crate) fn without_person(context: &Context, settings: &Settings) -> Self {
        Self::with_people(
            context,
            settings,
            PolicyHandle::default(),
            ElicitationRegistry::unavailable(),
        )
    }

    /// For a gateway: the policy limits the models, and those who watch a run are asked.
    pub(crate) fn for_gateway(
        context: &Context,
        settings: &Settings,
        policy: PolicyHandle,
    ) -> Self {
        Self::with_people(
            context,
            settings,
            policy,
            ElicitationRegistry::new(ElicitationModes::ALL),
        )
    }

    fn with_people(
        context: &Context,
        settings: &Settings,
        policy: PolicyHandle,
        people: Arc<ElicitationRegistry>,
    ) -> Self {
        let models = models(context, settings, policy.clone());
        let sampler = Sampler::new(models.clone(), redactor(settings));
        let handler = AgentRequestHandler::new(people.clone()).with_sampler(sampler);
        Self {
            handler: Arc::new(handler),
            models,
            policy,
            people,
            person: None,
        }
    }

    /// With a person at the terminal. Servers get the working directory as their root.
    pub(crate) fn with_person(
        context: &Context,
        settings: &Settings,
        person: Arc<dyn ElicitationUi>,
    ) -> Self {
        let policy = PolicyHandle::default();
        let models = models(context, settings, policy.clone());
        let people = ElicitationRegistry::new(ElicitationModes::ALL);
        let sampler = Sampler::new(models.clone(), redactor(settings));
        let mut handler = AgentRequestHandler::new(people.clone()).with_sampler(sampler);
        if let Ok(directory) = std::env::current_dir() {
            handler = handler.with_directory(directory);
        }
        Self {
            handler: Arc::new(handler),
            models,
            policy,
            people,
            person: Some(person),
        }
    }

    /// The operator's policy, for other users of the same servers.
    pub(crate) fn policy(&self) -> &PolicyHandle {
        &self.policy
    }

    /// Who may be asked.
    pub(crate) fn people(&self) -> Arc<ElicitationRegistry> {
        self.people.clone()
    }

    /// The handler for the host.
    pub(crate) fn handler(&self) -> Arc<dyn ServerRequestHandler> {
        self.handler.clone()
    }

    /// Shows questions of this conversation to the person until the returned guard is dropped.
    pub(crate) fn register_presence(&self, conversation: &str) -> Option<ElicitationRegistration> {
        let person = self.person.clone()?;
        let conversation = ConversationId(conversation.into());
        Some(self.people.register(conversation, person))
    }

    /// The conversation works in another directory, which servers may want to know.
    pub(crate) async fn set_directory(&self, directory: &Path, host: &Host) {
        let directory = directory.to_owned();
        self.handler.change_directory(directory, host).await;
    }

    /// There will be a conversation with a model, whatever the configuration says.
    pub(crate) fn expect_model(&self) {
        self.models.expect_main();
    }

    /// Applies other settings, and redacts their secrets.
    pub(crate) fn apply_settings(&self, settings: &Settings) {
        self.models.use_settings(settings);
        self.handler.use_redactor(redactor(settings));
    }

    /// Applies the settings of a gateway, whenever it takes up others.
    pub(crate) fn settings_callback(self: &Arc<Self>) -> SettingsCallback {
        let this = self.clone();
        Box::new(move |settings| this.apply_settings(settings))
    }

    /// The model of the conversation, for servers that ask for one.
    pub(crate) fn set_model(&self, selection: &Selection) {
        self.models.use_main(selection);
    }
}

fn models(context: &Context, settings: &Settings, policy: PolicyHandle) -> Arc<AuxiliaryModels> {
    let resolve_context = ResolveContext::new(&context.home, settings);
    Arc::new(AuxiliaryModels::new(&resolve_context).with_policy(policy))
}

fn redactor(settings: &Settings) -> Redactor {
    Redactor::for_variables(&settings.variables)
}
