//! Resolves the model of a home: flag, then the resumed session, then the configuration, then a local server.

mod explain;
mod keys;
mod lookup;
mod no_model;
pub(super) mod provider;

use std::sync::Arc;

use futures::future::BoxFuture;
use hermes_config::{Home, ModelChoice, ReferenceError, ReferencePolicy, Settings};

pub use self::{
    explain::{ExplainedValue, Explanation, explain_model},
    no_model::NoModel,
};
use super::{
    ApiKey, Endpoint, FallbackModel, HttpClients, HttpModel, LocalModel, LocalServers, Model,
    Protocol, RetryPolicy, RetryingModel,
};
use crate::model::{
    endpoint,
    providers::{detect, vision},
    resolve::{
        lookup::{ChoiceTarget, names_other_provider, resolve_choice},
        provider::known_context_length,
    },
};

/// Inputs for resolving a model.
#[derive(Debug, Clone)]
pub struct ResolveContext<'a> {
    pub home: &'a Home,
    pub settings: &'a Settings,
    /// What references in keys may resolve.
    pub references: ReferencePolicy,
    pub local: LocalServers,
    pub clients: Arc<HttpClients>,
}

impl<'a> ResolveContext<'a> {
    /// The context for the owner of a home.
    pub fn new(home: &'a Home, settings: &'a Settings) -> Self {
        Self {
            home,
            settings,
            references: ReferencePolicy::owner(),
            local: LocalServers::default(),
            clients: Arc::default(),
        }
    }
}

/// What this run requests, beyond the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelOverrides {
    /// `--model`.
    pub model: Option<String>,
    /// `--provider`.
    pub provider: Option<String>,
    /// Overrides the configured URL.
    pub base_url: Option<String>,
    /// The model of the session that is resumed.
    pub stored: Option<StoredModel>,
}

/// A model as a session stores it. Keys are not stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredModel {
    pub model: String,
    /// Its provider, where that is known.
    pub provider: Option<String>,
    /// Its address, where that is known.
    pub base_url: Option<String>,
}

#[derive(Clone)]
pub struct Selection {
    /// With retries and fallbacks.
    pub model: Arc<dyn Model>,
    /// Without fallbacks.
    pub endpoint: Endpoint,
    pub origin: SelectionOrigin,
    /// Notes for the user, one line each.
    pub notes: Vec<String>,
}

impl Selection {
    pub fn stored(&self) -> StoredModel {
        StoredModel {
            model: self.endpoint.model.clone(),
            provider: Some(self.endpoint.provider.clone()),
            base_url: Some(self.endpoint.base_url.to_string()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectionOrigin {
    Flag,
    Session,
    Configuration,
    /// Detected on this machine.
    Detection,
}

/// Why no model could be resolved. The user can fix all of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// None is configured and none was detected.
    #[error("{0}")]
    NoModel(Box<NoModel>),
    /// A provider that is neither built in nor configured.
    #[error(
        "there is no provider `{name}`; known providers: {}. Others need an entry with `base_url` under `providers` in `config.yaml`",
        known.join(", ")
    )]
    UnknownProvider { name: String, known: Vec<String> },
    /// A provider that is not supported yet.
    #[error(
        "`{provider}` is not supported yet: subscription logins and requests signed by a cloud are missing. Use a provider with an API key, or OpenRouter (`OPENROUTER_API_KEY`), which has most models"
    )]
    Unsupported { provider: String },
    #[error("`{provider}` needs a key: set {place}{}", key_hint(variable.as_deref()))]
    NoKey {
        provider: String,
        place: String,
        /// The variable that would hold it, if there is one.
        variable: Option<String>,
    },
    /// Neither the provider that a model's name begins with nor OpenRouter has a key.
    #[error(
        "`{model}` needs a key: set {place} to use {provider}, or `OPENROUTER_API_KEY` to use OpenRouter{}",
        key_hint(Some("NAME"))
    )]
    NoKeyOfEither {
        model: String,
        /// The provider that its name begins with.
        provider: String,
        /// That one's variables, for people.
        place: String,
    },
    /// A model whose name does not identify a provider.
    #[error(
        "it is unclear who offers the model `{model}`: name the provider with `--provider`, or `provider` under `model` in `config.yaml`"
    )]
    UnclearProvider { model: String },
    /// A model that the policy does not allow.
    #[error(
        "the model `{model}` is not allowed here: the operator's policy has no pattern for it in `models.allow`"
    )]
    NotAllowed { model: String },
    /// A provider without an address.
    #[error(
        "the provider `{provider}` needs a `base_url`{}",
        variable.as_ref().map(|name| format!(", in `config.yaml` or as `{name}`")).unwrap_or_default()
    )]
    NoBaseUrl {
        provider: String,
        variable: Option<String>,
    },
    /// An address that is none.
    #[error("the `base_url` of `{provider}` is not usable: {reason}")]
    BadBaseUrl { provider: String, reason: String },
    #[error("the key of `{provider}` is not available: {error}")]
    Reference {
        provider: String,
        error: ReferenceError,
    },
}

/// Where to put a key, appended to the name of its variable.
fn key_hint(variable: Option<&str>) -> String {
    match variable {
        Some(name) => format!(", in the home's `.env` or with `hermes secret set {name}`"),
        None => String::new(),
    }
}

pub fn resolve_model<'a>(
    context: &'a ResolveContext<'a>,
    overrides: &'a ModelOverrides,
) -> BoxFuture<'a, Result<Selection, ResolveError>> {
    Box::pin(async move {
        let (choice, mut origin) = choose_model(context.settings, overrides);
        let mut notes = Vec::new();
        let endpoint = match resolve_endpoint(context, &choice).await? {
            ResolvedEndpoint::Stated(endpoint) => endpoint,
            ResolvedEndpoint::Detected(endpoint) => {
                notes.push(format!(
                    "using `{}` from {} on {}",
                    endpoint.model,
                    endpoint.provider,
                    endpoint::host_and_port(&endpoint.base_url)
                ));
                if choice.name.is_none() {
                    origin = SelectionOrigin::Detection;
                }
                endpoint
            }
        };
        let mut others: Vec<Arc<dyn Model>> = Vec::new();
        for fallback in &context.settings.fallback_providers {
            match self::resolve_endpoint(context, fallback).await {
                Ok(ResolvedEndpoint::Stated(endpoint) | ResolvedEndpoint::Detected(endpoint)) => {
                    others.push(context.build_model(endpoint));
                }
                Err(ResolveError::NoModel(_)) => {
                    notes.push("a fallback provider has no `model` and is ignored".to_owned());
                }
                Err(error) => notes.push(format!("a fallback provider is ignored: {error}")),
            }
        }
        let first = context.build_model(endpoint.clone());
        let model = if others.is_empty() {
            first
        } else {
            Arc::new(FallbackModel::new(first, others))
        };
        Ok(Selection {
            model,
            endpoint,
            origin,
            notes,
        })
    })
}

impl ResolveContext<'_> {
    fn build_model(&self, endpoint: Endpoint) -> Arc<dyn Model> {
        let model = HttpModel::new(endpoint, Arc::clone(&self.clients));
        let policy = RetryPolicy::new(self.settings.agent.api_max_retries);
        Arc::new(RetryingModel::new(model, policy))
    }
}

/// The choice to resolve, and its origin.
fn choose_model(settings: &Settings, overrides: &ModelOverrides) -> (ModelChoice, SelectionOrigin) {
    let configured = &settings.model.choice;
    let renamed = |name: &str| {
        let is_configured = configured.name.as_deref() == Some(name);
        if !is_configured && names_other_provider(settings, name) {
            return ModelChoice {
                name: Some(name.to_owned()),
                ..ModelChoice::default()
            };
        }
        ModelChoice {
            // Settings of the configured model do not apply to others.
            context_length: configured.context_length.filter(|_| is_configured),
            vision: configured.vision.filter(|_| is_configured),
            name: Some(name.to_owned()),
            ..configured.clone()
        }
    };
    let is_configured = |provider: &str| {
        configured
            .provider
            .as_deref()
            .is_some_and(|known| provider::same_provider(known, provider))
    };
    let is_same = |a: &str, b: &str| a.trim_end_matches('/') == b.trim_end_matches('/');
    let is_elsewhere = |address: &&String| {
        let known = configured.base_url.as_deref();
        !known.is_some_and(|known| is_same(known, address))
    };
    if let Some(address) = overrides.base_url.as_ref().filter(is_elsewhere) {
        let choice = ModelChoice {
            name: overrides.model.clone(),
            provider: overrides.provider.clone(),
            base_url: Some(address.clone()),
            ..ModelChoice::default()
        };
        return (choice, SelectionOrigin::Flag);
    }
    match (&overrides.model, &overrides.provider, &overrides.stored) {
        (Some(name), None, _) => (renamed(name), SelectionOrigin::Flag),
        (name, Some(provider), _) => {
            let choice = match name {
                _ if !is_configured(provider) => ModelChoice {
                    name: name.clone(),
                    provider: Some(provider.clone()),
                    ..ModelChoice::default()
                },
                Some(name) => renamed(name),
                None => configured.clone(),
            };
            (choice, SelectionOrigin::Flag)
        }
        (None, None, Some(stored)) => {
            let is_same_address = match (&stored.base_url, &configured.base_url) {
                (Some(a), Some(b)) => is_same(a, b),
                (Some(_), None) => stored.provider.is_some(),
                (None, _) => true,
            };
            let is_same_provider = stored.provider.as_deref().is_none_or(is_configured);
            let is_ours = is_same_address && is_same_provider;
            let choice = if is_ours {
                renamed(&stored.model)
            } else {
                ModelChoice {
                    name: Some(stored.model.clone()),
                    provider: stored.provider.clone(),
                    base_url: stored.base_url.clone(),
                    ..ModelChoice::default()
                }
            };
            (choice, SelectionOrigin::Session)
        }
        (None, None, None) => (configured.clone(), SelectionOrigin::Configuration),
    }
}

/// An endpoint, and whether it was configured or detected.
pub(super) enum ResolvedEndpoint {
    Stated(Endpoint),
    Detected(Endpoint),
}

pub(super) async fn resolve_endpoint(
    context: &ResolveContext<'_>,
    choice: &ModelChoice,
) -> Result<ResolvedEndpoint, ResolveError> {
    let lookup = match resolve_choice(context, choice).await? {
        ChoiceTarget::Provider(lookup) => lookup,
        ChoiceTarget::Local(lookup) => {
            return Ok(ResolvedEndpoint::Detected(local_endpoint(
                lookup,
                choice.vision,
            )));
        }
    };
    let named = lookup.model();
    let provider = lookup.provider;
    let key = provider.resolve_key(context).await?;
    let (model, listed_length, is_detected) = match named {
        Some(model) => (model, None, false),
        None => match detect::detect_at(&context.clients, &provider.base_url).await {
            Some(lookup) => (lookup.model, lookup.context_length, true),
            None => return Err(no_model_error(context, Some(provider.name))),
        },
    };
    let context_length = choice
        .context_length
        .or(provider.context_length)
        .or(listed_length)
        .or_else(|| known_context_length(&provider.base_url, &model));
    let stated_vision = choice.vision.or(provider.vision);
    let endpoint = Endpoint {
        provider: provider.name,
        protocol: provider.protocol,
        base_url: provider.base_url,
        key,
        supports_images: stated_vision.unwrap_or_else(|| vision::has_vision(&model)),
        model,
        context_length,
        extra_body: provider.extra_body,
    };
    Ok(if is_detected {
        ResolvedEndpoint::Detected(endpoint)
    } else {
        ResolvedEndpoint::Stated(endpoint)
    })
}

fn local_endpoint(lookup: LocalModel, stated_vision: Option<bool>) -> Endpoint {
    Endpoint {
        provider: lookup.server.to_owned(),
        protocol: Protocol::ChatCompletions,
        base_url: lookup.base_url,
        key: ApiKey::default(),
        supports_images: stated_vision.unwrap_or_else(|| vision::has_vision(&lookup.model)),
        model: lookup.model,
        context_length: lookup.context_length,
        extra_body: serde_json::Map::new(),
    }
}

fn no_model_error(context: &ResolveContext<'_>, provider: Option<String>) -> ResolveError {
    ResolveError::NoModel(Box::new(NoModel::new(context, provider)))
}
