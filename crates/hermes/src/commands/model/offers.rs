//! What can be used right now: providers with a key, servers of this machine, and the models that each lists.

use std::time::Duration;

use futures::future::join_all;
use hermes_agent::model::{
    KeyState, ListError, Provider, ResolveContext, list_local_servers, list_models, list_providers,
};
use hermes_config::{ModelChoice, Settings};

use super::choose::ModelLocation;
use crate::context::Context;

/// How long a list is waited for before anything is shown.
const LIST_TIMEOUT: Duration = Duration::from_secs(4);

/// A provider that could be asked right now.
#[derive(Debug, Clone)]
pub(super) struct ProviderOffer {
    /// For people.
    pub(super) name: String,
    /// Host and port.
    pub(super) address: String,
    /// Whether it runs on this machine.
    pub(super) is_local: bool,
    pub(super) key: KeyState,
    /// How it is asked.
    pub(super) choice: ModelChoice,
    /// How it is written down.
    pub(super) location: ModelLocation,
    /// The model to use if nothing else is said.
    pub(super) default_model: Option<String>,
    pub(super) models: Result<Vec<String>, ListError>,
}

/// Everything that could be used right now.
pub(super) async fn find_offers(context: &Context, settings: &Settings) -> Vec<ProviderOffer> {
    let resolve_context = ResolveContext::new(&context.home, settings);
    let (known, local) = tokio::join!(
        list_providers(&resolve_context),
        list_local_servers(&resolve_context)
    );
    let usable = known
        .into_iter()
        .filter(|provider| !matches!(provider.key, KeyState::Missing { .. }))
        .map(|provider| provider_offer(&provider));
    let local = local.into_iter().map(|server| {
        let url = server.base_url.to_string();
        ProviderOffer {
            name: server.server.to_owned(),
            address: host_and_port(&server.base_url),
            is_local: true,
            default_model: Some(server.model),
            ..address_offer(url)
        }
    });
    let mut offers: Vec<ProviderOffer> = usable.chain(local).collect();
    let lists = offers.iter().map(|offer| async {
        let listed = list_models(&resolve_context, &offer.choice, None);
        let silent = || ListError::Unreachable {
            reason: format!("timed out after {} s", LIST_TIMEOUT.as_secs()),
        };
        let listed = tokio::time::timeout(LIST_TIMEOUT, listed).await;
        listed.unwrap_or_else(|_| Err(silent()))
    });
    let lists = join_all(lists).await;
    for (offer, models) in offers.iter_mut().zip(lists) {
        offer.models = models;
    }
    offers
}

fn host_and_port(url: &url::Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// A provider by its name; its models are not known yet.
pub(super) fn provider_offer(provider: &Provider) -> ProviderOffer {
    ProviderOffer {
        name: provider.name.clone(),
        address: provider.address.clone(),
        is_local: false,
        key: provider.key.clone(),
        choice: ModelChoice {
            provider: Some(provider.name.clone()),
            ..ModelChoice::default()
        },
        location: ModelLocation::Provider(provider.name.clone()),
        default_model: None,
        models: Ok(Vec::new()),
    }
}

/// A server by its address; its models are not known yet.
pub(super) fn address_offer(url: String) -> ProviderOffer {
    ProviderOffer {
        name: url.clone(),
        address: url.clone(),
        is_local: false,
        key: KeyState::NotNeeded,
        choice: ModelChoice {
            provider: Some("custom".into()),
            base_url: Some(url.clone()),
            ..ModelChoice::default()
        },
        location: ModelLocation::Address { url, key_env: None },
        default_model: None,
        models: Ok(Vec::new()),
    }
}
