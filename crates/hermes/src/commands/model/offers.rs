//! What can be used right now: providers with a key, servers of this machine, and the models that each lists.

use std::time::Duration;

use futures::future::join_all;
use hermes_agent::model::{
    KeyState, ListError, Provider, Surroundings, list_models, local_servers, providers,
};
use hermes_config::{ModelChoice, Settings};

use super::choose::Place;
use crate::context::Context;

/// How long a list is waited for before anything is shown.
const TIMEOUT: Duration = Duration::from_secs(4);

/// A provider that could be asked right now.
#[derive(Debug, Clone)]
pub(super) struct Offer {
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
    pub(super) place: Place,
    /// The model to use if nothing else is said.
    pub(super) usual: Option<String>,
    pub(super) models: Result<Vec<String>, ListError>,
}

/// Everything that could be used right now.
pub(super) async fn find_offers(context: &Context, settings: &Settings) -> Vec<Offer> {
    let around = Surroundings::new(&context.home, settings);
    let (known, local) = tokio::join!(providers(&around), local_servers(&around));
    let usable = known
        .into_iter()
        .filter(|provider| !matches!(provider.key, KeyState::Missing { .. }))
        .map(|provider| of_provider(&provider));
    let local = local.into_iter().map(|server| {
        let url = server.base_url.to_string();
        Offer {
            name: server.server.to_owned(),
            address: address_of(&server.base_url),
            is_local: true,
            usual: Some(server.model),
            ..of_address(url)
        }
    });
    let mut offers: Vec<Offer> = usable.chain(local).collect();
    let lists = offers.iter().map(|offer| async {
        let listed = list_models(&around, &offer.choice, None);
        let silent = || ListError::Unreachable {
            reason: format!("timed out after {} s", TIMEOUT.as_secs()),
        };
        let listed = tokio::time::timeout(TIMEOUT, listed).await;
        listed.unwrap_or_else(|_| Err(silent()))
    });
    let lists = join_all(lists).await;
    for (offer, models) in offers.iter_mut().zip(lists) {
        offer.models = models;
    }
    offers
}

fn address_of(url: &url::Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// A provider by its name; its models are not known yet.
pub(super) fn of_provider(provider: &Provider) -> Offer {
    Offer {
        name: provider.name.clone(),
        address: provider.address.clone(),
        is_local: false,
        key: provider.key.clone(),
        choice: ModelChoice {
            provider: Some(provider.name.clone()),
            ..ModelChoice::default()
        },
        place: Place::Provider(provider.name.clone()),
        usual: None,
        models: Ok(Vec::new()),
    }
}

/// A server by its address; its models are not known yet.
pub(super) fn of_address(url: String) -> Offer {
    Offer {
        name: url.clone(),
        address: url.clone(),
        is_local: false,
        key: KeyState::Unneeded,
        choice: ModelChoice {
            provider: Some("custom".into()),
            base_url: Some(url.clone()),
            ..ModelChoice::default()
        },
        place: Place::Address { url, key_env: None },
        usual: None,
        models: Ok(Vec::new()),
    }
}
