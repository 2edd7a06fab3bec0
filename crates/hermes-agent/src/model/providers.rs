//! Lists providers (built in, configured, or local) and the models that
//! each of them offers.

pub(crate) mod detect;
pub(crate) mod table;
pub(crate) mod vision;

use std::time::Duration;

use hermes_config::{ModelChoice, Secret};
use serde_json::{Map, Value};
use tokio::time::timeout;
use url::Url;

use super::{Endpoint, LocalModel, Protocol, ResolveContext, ResolveError, http::root_cause};
use crate::model::{
    endpoint,
    providers::table::PROVIDERS,
    resolve::{provider, provider::ResolvedProvider},
};

const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// A provider in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// The value of `provider`.
    pub name: String,
    /// Host and port, as they are shown.
    pub address: String,
    /// Whether the configuration has an entry for it.
    pub is_configured: bool,
    pub key: KeyState,
}

/// Whether there is a key for a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyState {
    Set {
        place: String,
    },
    /// Required but not set.
    Missing {
        /// Where it could be set, for messages.
        place: String,
        /// The variable that would hold it, if there is one.
        variable: Option<String>,
    },
    NotNeeded,
}

/// Why a provider's models could not be listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The provider is unknown or has no URL.
    #[error(transparent)]
    Unknown(#[from] ResolveError),
    #[error("it rejected the key (HTTP {status})")]
    KeyRefused {
        /// 401 or 403.
        status: u16,
    },
    #[error("it does not answer: {reason}")]
    Unreachable { reason: String },
    /// It replied, but not with a list.
    #[error("it does not list its models (HTTP {status})")]
    NoList { status: u16 },
}

/// The built-in and configured providers. [`list_local_servers`] finds local ones.
pub async fn list_providers(context: &ResolveContext<'_>) -> Vec<Provider> {
    let configured = context.settings.providers.iter().map(|entry| &*entry.name);
    let is_configured = |name: &str| {
        let mut names = context.settings.providers.iter().map(|entry| &*entry.name);
        names.any(|known| known.eq_ignore_ascii_case(name))
    };
    let elsewhere = PROVIDERS.iter().filter(|row| !row.is_local());
    let built_in = elsewhere.map(|row| row.name);
    let mut providers = Vec::new();
    for name in built_in
        .filter(|name| !is_configured(name))
        .chain(configured)
    {
        let choice = ModelChoice {
            provider: Some(name.to_owned()),
            ..ModelChoice::default()
        };
        // An entry without a URL cannot be chosen.
        if let Ok(Some(provider)) = provider::resolve_stated(context.settings, &choice) {
            providers.push(Provider {
                name: name.to_owned(),
                is_configured: is_configured(name),
                address: endpoint::host_and_port(&provider.base_url),
                key: key_state(context, &provider).await,
            });
        }
    }
    providers
}

pub(super) async fn key_state(
    context: &ResolveContext<'_>,
    provider: &ResolvedProvider,
) -> KeyState {
    let missing = |shown: String| KeyState::Missing {
        place: shown,
        variable: provider.key_variable().map(str::to_owned),
    };
    match provider.resolve_key(context).await {
        Ok(key) if key.value.is_some() => KeyState::Set { place: key.source },
        Ok(_) => KeyState::NotNeeded,
        Err(ResolveError::NoKey {
            place: provider, ..
        }) => missing(provider),
        Err(error) => missing(error.to_string()),
    }
}

/// The local servers with the model each would use. Empty if detection is off.
pub async fn list_local_servers(context: &ResolveContext<'_>) -> Vec<LocalModel> {
    if !context.settings.model.autodetect {
        return Vec::new();
    }
    let variables = &context.settings.variables;
    context
        .local
        .find_all(&context.clients, variables, None)
        .await
}

/// The models of the provider that a choice names, listed with `key` or its own key.
pub async fn list_models(
    context: &ResolveContext<'_>,
    choice: &ModelChoice,
    key: Option<Secret<String>>,
) -> Result<Vec<String>, ListError> {
    let provider = provider::resolve_stated(context.settings, choice)?.ok_or_else(|| {
        ResolveError::NoBaseUrl {
            provider: "custom".into(),
            variable: None,
        }
    })?;
    let mut own = provider.resolve_key(context).await.unwrap_or_default();
    if key.is_some() {
        own.value = key;
    }
    let endpoint = Endpoint {
        provider: provider.name,
        protocol: provider.protocol,
        base_url: provider.base_url,
        key: own,
        model: String::new(),
        context_length: None,
        supports_images: false,
        extra_body: Map::new(),
    };
    fetch_models(context, &endpoint).await
}

async fn fetch_models(
    context: &ResolveContext<'_>,
    endpoint: &Endpoint,
) -> Result<Vec<String>, ListError> {
    let unreachable = |reason: String| ListError::Unreachable {
        reason: endpoint.sanitize(&reason),
    };
    let url = list_url(endpoint);
    let client = context.clients.client_for(&endpoint.base_url);
    let client = client.map_err(|error| unreachable(root_cause(&error)))?;
    let request = endpoint.authorize(client.get(url)).map_err(unreachable)?;
    let response = async {
        let response = request.send().await?;
        Ok((response.status(), response.bytes().await?))
    };
    let (status, body) = match timeout(LIST_TIMEOUT, response).await {
        Ok(Ok(answer)) => answer,
        Ok(Err::<_, reqwest::Error>(error)) => return Err(unreachable(root_cause(&error))),
        Err(_) => {
            return Err(unreachable(format!(
                "timed out after {} s",
                LIST_TIMEOUT.as_secs()
            )));
        }
    };
    let status = status.as_u16();
    if matches!(status, 401 | 403) {
        return Err(ListError::KeyRefused { status });
    }
    let list: Value = serde_json::from_slice(&body).unwrap_or_default();
    match (status, &list["data"]) {
        (200..300, Value::Array(models)) => {
            Ok(models.iter().filter_map(detect::chat_model_name).collect())
        }
        _ => Err(ListError::NoList { status }),
    }
}

fn list_url(endpoint: &Endpoint) -> String {
    let base = endpoint.base_url.as_str().trim_end_matches('/');
    match endpoint.protocol {
        Protocol::ChatCompletions => format!("{base}/models"),
        Protocol::AnthropicMessages => {
            let base = base.strip_suffix("/v1").unwrap_or(base);
            format!("{base}/v1/models?limit=1000")
        }
    }
}

pub fn is_provider_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}
