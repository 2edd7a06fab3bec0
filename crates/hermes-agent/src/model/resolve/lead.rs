//! Finds the provider of a choice: the configured one, the one that the model's name implies, or a server on this
//! machine.

use hermes_config::{ModelChoice, Settings};

use super::{
    ResolveError, Surroundings, no_model,
    place::{Place, entry, same_provider, stated},
};
use crate::model::{
    LocalModel,
    provider_table::{self, ProviderRow},
};

pub(super) enum Lead {
    Place(Box<Lookup>),
    /// A detected local server.
    Local(LocalModel),
}

/// A provider, and how it was found.
pub(super) struct Lookup {
    pub(super) place: Place,
    /// The provider's own name for the model.
    pub(super) name: Option<String>,
    pub(super) found_by: FoundBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoundBy {
    /// Its name, or its address.
    Choice,
    /// The prefix before the slash in the model's name.
    Prefix,
    Model,
    /// No other provider of this model has a key.
    OpenRouter,
}

/// Which providers a model's name may imply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Among {
    WithKey,
    All,
}

pub(super) async fn follow(
    around: &Surroundings<'_>,
    choice: &ModelChoice,
) -> Result<Lead, ResolveError> {
    if let Some(place) = stated(around.settings, choice)? {
        let name = choice.name.as_deref();
        let name = name.map(|name| name_at(&place.provider, around.settings, name).to_owned());
        return Ok(Lead::Place(Box::new(Lookup {
            place,
            name,
            found_by: FoundBy::Choice,
        })));
    }
    let name = choice.name.as_deref();
    if let Some(name) = name
        && let Some(found) = guess(around, choice, name, Among::WithKey)?
    {
        return Ok(Lead::Place(Box::new(found)));
    }
    if let Some(found) = detected(around, name).await {
        return Ok(Lead::Local(found));
    }
    let Some(name) = name else {
        return Err(no_model(around, None));
    };
    match guess(around, choice, name, Among::All)? {
        Some(found) => Ok(Lead::Place(Box::new(found))),
        None => Err(ResolveError::UnclearProvider {
            model: name.to_owned(),
        }),
    }
}

/// The model's name at a configured provider: one with its own model names does not expect its prefix.
fn name_at<'m>(provider: &str, settings: &Settings, name: &'m str) -> &'m str {
    let row = provider_table::row(provider)
        .filter(|row| !row.has_slashes && entry(settings, provider).is_none());
    match (row, provider_table::split_name(name)) {
        (Some(row), Some((prefix, rest))) if row.name == prefix.name => rest,
        _ => name,
    }
}

/// Whether a model's name implies another provider than the configured one: it begins with another one, and the
/// configured one has no names with slashes.
pub(super) fn points_elsewhere(settings: &Settings, name: &str) -> bool {
    let configured = &settings.model.choice;
    let Some(provider) = configured.provider.as_deref() else {
        return false;
    };
    let has_own_names = provider_table::row(provider).is_some_and(|row| !row.has_slashes)
        && entry(settings, provider).is_none()
        && configured.base_url.is_none();
    let prefix = provider_table::split_name(name).map(|(row, _)| row.name);
    has_own_names && prefix.is_some_and(|prefix| !same_provider(prefix, provider))
}

/// The provider that a model's name implies.
fn guess(
    around: &Surroundings<'_>,
    choice: &ModelChoice,
    model: &str,
    among: Among,
) -> Result<Option<Lookup>, ResolveError> {
    let settings = around.settings;
    let at = |provider: &str, name: &str, found_by: FoundBy| {
        let choice = ModelChoice {
            provider: Some(provider.to_owned()),
            ..choice.clone()
        };
        let place = stated(settings, &choice)?;
        Ok(place.map(|place| Lookup {
            place,
            name: Some(name.to_owned()),
            found_by,
        }))
    };
    let can_be_asked = |row: &ProviderRow| around.has_key(row);
    let Some((prefix, rest)) = model.split_once('/') else {
        return match provider_table::row_of_model(model) {
            Some(row) if among == Among::All || can_be_asked(row) => {
                at(row.name, model, FoundBy::Model)
            }
            _ => Ok(None),
        };
    };
    if let Some(entry) = entry(settings, prefix).filter(|_| !rest.is_empty()) {
        return at(&entry.name, rest, FoundBy::Prefix);
    }
    let named = provider_table::split_name(model);
    if let Some((row, name)) = named.filter(|(row, _)| can_be_asked(row)) {
        return at(row.name, name, FoundBy::Prefix);
    }
    let openrouter = provider_table::row("openrouter");
    match openrouter.filter(|row| can_be_asked(row)) {
        Some(row) => at(row.name, model, FoundBy::OpenRouter),
        None if among == Among::WithKey => Ok(None),
        None => Err(match (named, provider_table::later(prefix)) {
            (Some((row, _)), _) => ResolveError::NoKeyOfEither {
                model: model.to_owned(),
                provider: row.name.to_owned(),
                place: row.shown_keys(),
            },
            (None, Some(later)) => ResolveError::Later {
                provider: later.to_owned(),
            },
            (None, None) => return at("openrouter", model, FoundBy::OpenRouter),
        }),
    }
}

async fn detected(around: &Surroundings<'_>, name: Option<&str>) -> Option<LocalModel> {
    if !around.settings.model.autodetect {
        return None;
    }
    let variables = &around.settings.variables;
    around.local.find(&around.clients, variables, name).await
}

impl Lookup {
    /// The model, if one is named.
    pub(super) fn model(&self) -> Option<String> {
        self.name.clone().or_else(|| self.place.model.clone())
    }
}
