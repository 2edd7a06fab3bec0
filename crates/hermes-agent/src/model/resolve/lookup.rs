//! Finds the provider of a choice: the configured one, the one that the model's name implies, or a server on this
//! machine.

use hermes_config::{ModelChoice, Settings};

use super::{ResolveContext, ResolveError, no_model_error};
use crate::model::{
    LocalModel,
    providers::{table, table::ProviderRow},
    resolve::provider::{ResolvedProvider, find_entry, resolve_stated, same_provider},
};

pub(super) enum ChoiceTarget {
    Provider(Box<ProviderLookup>),
    /// A detected local server.
    Local(LocalModel),
}

/// A provider, and how it was found.
pub(super) struct ProviderLookup {
    pub(super) provider: ResolvedProvider,
    /// The provider's own name for the model.
    pub(super) model_name: Option<String>,
    pub(super) found_by: LookupReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookupReason {
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
enum ProviderScope {
    WithKey,
    All,
}

pub(super) async fn resolve_choice(
    context: &ResolveContext<'_>,
    choice: &ModelChoice,
) -> Result<ChoiceTarget, ResolveError> {
    if let Some(provider) = resolve_stated(context.settings, choice)? {
        let name = choice.name.as_deref();
        let name =
            name.map(|name| model_name_at(&provider.name, context.settings, name).to_owned());
        return Ok(ChoiceTarget::Provider(Box::new(ProviderLookup {
            provider,
            model_name: name,
            found_by: LookupReason::Choice,
        })));
    }
    let name = choice.name.as_deref();
    if let Some(name) = name
        && let Some(lookup) = guess_provider(context, choice, name, ProviderScope::WithKey)?
    {
        return Ok(ChoiceTarget::Provider(Box::new(lookup)));
    }
    if let Some(local) = detect_local(context, name).await {
        return Ok(ChoiceTarget::Local(local));
    }
    let Some(name) = name else {
        return Err(no_model_error(context, None));
    };
    match guess_provider(context, choice, name, ProviderScope::All)? {
        Some(lookup) => Ok(ChoiceTarget::Provider(Box::new(lookup))),
        None => Err(ResolveError::UnclearProvider {
            model: name.to_owned(),
        }),
    }
}

/// The model's name at a configured provider: one with its own model names does not expect its prefix.
fn model_name_at<'m>(provider: &str, settings: &Settings, name: &'m str) -> &'m str {
    let row = table::find_row(provider)
        .filter(|row| !row.has_slashes && find_entry(settings, provider).is_none());
    match (row, table::split_name(name)) {
        (Some(row), Some((prefix, rest))) if row.name == prefix.name => rest,
        _ => name,
    }
}

/// Whether a model's name implies another provider than the configured one: it begins with another one, and the
/// configured one has no names with slashes.
pub(super) fn names_other_provider(settings: &Settings, name: &str) -> bool {
    let configured = &settings.model.choice;
    let Some(provider) = configured.provider.as_deref() else {
        return false;
    };
    let has_own_names = table::find_row(provider).is_some_and(|row| !row.has_slashes)
        && find_entry(settings, provider).is_none()
        && configured.base_url.is_none();
    let prefix = table::split_name(name).map(|(row, _)| row.name);
    has_own_names && prefix.is_some_and(|prefix| !same_provider(prefix, provider))
}

/// The provider that a model's name implies.
fn guess_provider(
    context: &ResolveContext<'_>,
    choice: &ModelChoice,
    model: &str,
    among: ProviderScope,
) -> Result<Option<ProviderLookup>, ResolveError> {
    let settings = context.settings;
    let at = |provider: &str, name: &str, found_by: LookupReason| {
        let choice = ModelChoice {
            provider: Some(provider.to_owned()),
            ..choice.clone()
        };
        let provider = resolve_stated(settings, &choice)?;
        Ok(provider.map(|provider| ProviderLookup {
            provider,
            model_name: Some(name.to_owned()),
            found_by,
        }))
    };
    let can_be_asked = |row: &ProviderRow| context.has_key(row);
    let Some((prefix, rest)) = model.split_once('/') else {
        return match table::row_for_model(model) {
            Some(row) if among == ProviderScope::All || can_be_asked(row) => {
                at(row.name, model, LookupReason::Model)
            }
            _ => Ok(None),
        };
    };
    if let Some(entry) = find_entry(settings, prefix).filter(|_| !rest.is_empty()) {
        return at(&entry.name, rest, LookupReason::Prefix);
    }
    let named = table::split_name(model);
    if let Some((row, name)) = named.filter(|(row, _)| can_be_asked(row)) {
        return at(row.name, name, LookupReason::Prefix);
    }
    let openrouter = table::find_row("openrouter");
    match openrouter.filter(|row| can_be_asked(row)) {
        Some(row) => at(row.name, model, LookupReason::OpenRouter),
        None if among == ProviderScope::WithKey => Ok(None),
        None => Err(match (named, table::unsupported_provider(prefix)) {
            (Some((row, _)), _) => ResolveError::NoKeyOfEither {
                model: model.to_owned(),
                provider: row.name.to_owned(),
                place: row.format_keys(),
            },
            (None, Some(later)) => ResolveError::Unsupported {
                provider: later.to_owned(),
            },
            (None, None) => return at("openrouter", model, LookupReason::OpenRouter),
        }),
    }
}

async fn detect_local(context: &ResolveContext<'_>, name: Option<&str>) -> Option<LocalModel> {
    if !context.settings.model.autodetect {
        return None;
    }
    let variables = &context.settings.variables;
    context.local.find(&context.clients, variables, name).await
}

impl ProviderLookup {
    /// The model, if one is named.
    pub(super) fn model(&self) -> Option<String> {
        self.model_name
            .clone()
            .or_else(|| self.provider.model.clone())
    }
}
