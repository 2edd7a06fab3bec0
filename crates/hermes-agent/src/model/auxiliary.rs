//! Auxiliary models: summaries, approvals, titles, sampling.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use hermes_config::{AuxiliaryModel, AuxiliaryTask, ModelChoice, Settings};
use tokio::time::timeout;

use super::{
    Endpoint, HttpClients, HttpModel, Model, ModelError, ModelEventSink, ModelOverrides,
    ModelProblem, ModelReply, ModelRequest, ResolveContext, ResolveError, RetryPolicy,
    RetryingModel, Selection, TextDelivery,
    resolve::{ResolvedEndpoint, resolve_endpoint, resolve_model},
};

/// The model for one auxiliary task, with that task's own limits.
#[derive(Debug, Clone)]
pub struct Auxiliary {
    endpoint: Endpoint,
    clients: Arc<HttpClients>,
    retry: RetryPolicy,
    timeout: Duration,
    reasoning_effort: Option<String>,
}

/// The conversation's own endpoint, possibly with another of its models.
fn own_endpoint(main: &Selection, settings: &AuxiliaryModel) -> Endpoint {
    let mut endpoint = match &settings.model {
        Some(model) => main.endpoint.with_model(model),
        None => main.endpoint.clone(),
    };
    endpoint.extra_body.extend(settings.extra_body.clone());
    endpoint
}

/// The configured provider; `None` for the conversation's own.
fn configured_choice(settings: &AuxiliaryModel) -> Option<ModelChoice> {
    let is_own = ["auto", "main"]
        .iter()
        .any(|word| word.eq_ignore_ascii_case(&settings.provider));
    if is_own && settings.base_url.is_none() {
        return None;
    }
    Some(ModelChoice {
        name: settings.model.clone(),
        provider: Some(settings.provider.clone()).filter(|_| !is_own),
        base_url: settings.base_url.clone(),
        api_key: settings.api_key.clone(),
        extra_body: settings.extra_body.clone(),
        ..ModelChoice::default()
    })
}

impl Auxiliary {
    /// The model for a task: the configured one, or else the conversation's own. That one is
    /// resolved only if it is needed and not given.
    pub async fn find(
        context: &ResolveContext<'_>,
        main: Option<&Selection>,
        task: AuxiliaryTask,
    ) -> Result<Self, ResolveError> {
        let settings = context.settings.auxiliary.task(task);
        let endpoint = match (configured_choice(settings), main) {
            (Some(choice), _) => match resolve_endpoint(context, &choice).await? {
                ResolvedEndpoint::Stated(endpoint) | ResolvedEndpoint::Detected(endpoint) => {
                    endpoint
                }
            },
            (None, Some(main)) => own_endpoint(main, settings),
            (None, None) => {
                let main = resolve_model(context, &ModelOverrides::default()).await?;
                own_endpoint(&main, settings)
            }
        };
        Ok(Self {
            endpoint,
            clients: Arc::clone(&context.clients),
            retry: RetryPolicy::new(context.settings.auxiliary.transient_retries),
            timeout: settings.timeout,
            reasoning_effort: settings.reasoning_effort.clone(),
        })
    }

    /// Whether the settings name a model or provider for a task, its own or the conversation's.
    pub fn is_configured(settings: &Settings, task: AuxiliaryTask) -> bool {
        let main = &settings.model.choice;
        configured_choice(settings.auxiliary.task(task)).is_some()
            || main.name.is_some()
            || main.provider.is_some()
            || main.base_url.is_some()
    }

    pub fn name(&self) -> &str {
        &self.endpoint.model
    }

    #[must_use]
    pub fn with_model(&self, model: &str) -> Self {
        Self {
            endpoint: self.endpoint.with_model(model),
            ..self.clone()
        }
    }

    /// How long one request may take, retries included.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let model = HttpModel::new(self.endpoint.clone(), Arc::clone(&self.clients));
        let model = RetryingModel::new(model, self.retry);
        let request = ModelRequest {
            reasoning_effort: request
                .reasoning_effort
                .or(self.reasoning_effort.as_deref()),
            // The text is not shown before it is complete.
            shown_text: TextDelivery::Revocable,
            ..*request
        };
        match timeout(self.timeout, model.complete(&request, &mut |_| {})).await {
            Ok(result) => result,
            Err(_) => Err(self.endpoint.error(ModelProblem::TimedOut {
                after: self.timeout,
                again: false,
            })),
        }
    }
}

impl Model for Auxiliary {
    fn name(&self) -> &str {
        &self.endpoint.model
    }

    fn provider(&self) -> &str {
        &self.endpoint.provider
    }

    fn context_length(&self) -> Option<u32> {
        self.endpoint.context_length
    }

    fn supports_images(&self) -> bool {
        self.endpoint.supports_images
    }

    /// The sink receives nothing: only the complete reply is used.
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        _sink: ModelEventSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(self.complete(request))
    }
}
