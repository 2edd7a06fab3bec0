//! The sampling model of a home, `auxiliary.mcp`, resolved at the first request.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use hermes_config::{
    AuxiliaryTask, Home, ReferencePolicy, Settings,
    sync::{Mutex, MutexGuard},
};

use super::{SamplingModels, SamplingRefusal};
use crate::{
    model::{
        Auxiliary, HttpClients, LocalServers, Model, ModelOverrides, ModelProblem, ModelReply,
        ModelRequest, ResolveContext, ResolveError, Selection, resolve_model,
    },
    policy::PolicyHandle,
};

/// Resolves the model of `auxiliary.mcp` when it is needed.
pub struct AuxiliaryModels {
    home: Home,
    references: ReferencePolicy,
    local: LocalServers,
    clients: Arc<HttpClients>,
    policy: PolicyHandle,
    state: Mutex<AuxiliaryState>,
}

struct AuxiliaryState {
    settings: Arc<Settings>,
    /// Whether a conversation with its own model is expected.
    is_expected: bool,
    main: Option<Selection>,
    found: Option<Auxiliary>,
}

impl AuxiliaryModels {
    pub fn new(context: &ResolveContext<'_>) -> Self {
        Self {
            home: context.home.clone(),
            references: context.references.clone(),
            local: context.local.clone(),
            clients: Arc::clone(&context.clients),
            policy: PolicyHandle::default(),
            state: Mutex::new(AuxiliaryState {
                settings: Arc::new(context.settings.clone()),
                is_expected: false,
                main: None,
                found: None,
            }),
        }
    }

    /// Uses only models and hosts that the operator's policy allows.
    #[must_use]
    pub fn with_policy(mut self, policy: PolicyHandle) -> Self {
        self.clients = Arc::new(HttpClients::with_policy(policy.clone()));
        self.policy = policy;
        self
    }

    /// Applies other settings.
    pub fn use_settings(&self, settings: &Settings) {
        let mut known = self.lock();
        known.settings = Arc::new(settings.clone());
        known.found = None;
    }

    /// Announces a conversation with a model.
    pub fn expect_main(&self) {
        self.lock().is_expected = true;
    }

    /// Sets the conversation's own model, used if `auxiliary.mcp` names none.
    pub fn use_main(&self, main: &Selection) {
        let mut known = self.lock();
        let is_known = known
            .main
            .as_ref()
            .is_some_and(|before| before.stored() == main.stored());
        if !is_known {
            known.main = Some(main.clone());
            known.found = None;
        }
    }

    fn resolve_context<'a>(&'a self, settings: &'a Settings) -> ResolveContext<'a> {
        ResolveContext {
            home: &self.home,
            settings,
            references: self.references.clone(),
            local: self.local.clone(),
            clients: Arc::clone(&self.clients),
        }
    }

    /// The default model. A failure is not cached: the user may fix it.
    async fn default_model(&self) -> Result<Auxiliary, ResolveError> {
        let (settings, main) = {
            let known = self.lock();
            if let Some(auxiliary) = &known.found {
                return Ok(auxiliary.clone());
            }
            (known.settings.clone(), known.main.clone())
        };
        let context = self.resolve_context(&settings);
        let auxiliary = Auxiliary::find(&context, main.as_ref(), AuxiliaryTask::Mcp).await?;
        self.lock().found = Some(auxiliary.clone());
        Ok(auxiliary)
    }

    async fn named_model(&self, name: &str) -> Result<Auxiliary, ResolveError> {
        match self.default_model().await {
            Ok(auxiliary) => Ok(auxiliary.with_model(name)),
            // Without a default model, the name alone may identify the provider.
            Err(ResolveError::NoModel(_)) => {
                let overrides = ModelOverrides {
                    model: Some(name.to_owned()),
                    ..ModelOverrides::default()
                };
                let settings = self.lock().settings.clone();
                let context = self.resolve_context(&settings);
                let main = resolve_model(&context, &overrides).await?;
                let auxiliary = Auxiliary::find(&context, Some(&main), AuxiliaryTask::Mcp).await?;
                Ok(auxiliary.with_model(name))
            }
            Err(error) => Err(error),
        }
    }

    fn lock(&self) -> MutexGuard<'_, AuxiliaryState> {
        self.state.lock()
    }
}

impl SamplingModels for AuxiliaryModels {
    fn has_model(&self) -> bool {
        let known = self.lock();
        known.is_expected
            || known.main.is_some()
            || known.found.is_some()
            || Auxiliary::is_configured(&known.settings, AuxiliaryTask::Mcp)
    }

    fn default_name(&self) -> BoxFuture<'_, Result<String, SamplingRefusal>> {
        Box::pin(async {
            let auxiliary = self.default_model().await.map_err(no_model)?;
            Ok(auxiliary.name().to_owned())
        })
    }

    fn complete<'a>(
        &'a self,
        name: &'a str,
        limit: Option<Duration>,
        request: &'a ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, SamplingRefusal>> {
        Box::pin(async move {
            let mut auxiliary = self.named_model(name).await.map_err(no_model)?;
            let policy = self.policy.policy();
            if !policy.allows_model(Model::provider(&auxiliary), auxiliary.name()) {
                return Err(SamplingRefusal::ModelNotAllowed(name.to_owned()));
            }
            if let Some(limit) = limit {
                auxiliary = auxiliary.with_timeout(limit);
            }
            let reply = auxiliary.complete(request).await;
            reply.map_err(|error| match error.problem {
                ModelProblem::TimedOut { after, .. } => SamplingRefusal::Timeout(after),
                _ => SamplingRefusal::CallFailed(error.to_string()),
            })
        })
    }
}

fn no_model(error: ResolveError) -> SamplingRefusal {
    SamplingRefusal::NoModel(match error {
        // The full message fills a screen.
        ResolveError::NoModel(_) => {
            "set `model` or `auxiliary.mcp` in `config.yaml`, or start a local model server".into()
        }
        other => other.to_string(),
    })
}
