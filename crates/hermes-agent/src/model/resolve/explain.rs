//! Explains which model would be used and why, also if something is missing.

use hermes_config::ModelChoice;

use super::{
    ChoiceTarget, ModelOverrides, ResolveContext, ResolveError, ResolvedEndpoint, SelectionOrigin,
    choose_model, resolve_choice, resolve_endpoint,
};
use crate::model::{
    KeyState,
    providers::key_state,
    resolve::{
        lookup::{LookupReason, ProviderLookup},
        provider::BaseSource,
    },
};

/// A value and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedValue {
    pub value: String,
    /// For people.
    pub source: String,
}

/// Model, provider, URL and key, as far as known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub model: Option<ExplainedValue>,
    pub provider: Option<ExplainedValue>,
    pub base_url: Option<ExplainedValue>,
    /// `None` if the provider is unknown.
    pub key: Option<KeyState>,
    /// Where known.
    pub context_length: Option<u32>,
    pub supports_images: bool,
    pub problem: Option<ResolveError>,
}

/// Explains which model would be used and why.
pub async fn explain_model(
    context: &ResolveContext<'_>,
    overrides: &ModelOverrides,
) -> Explanation {
    let (choice, origin) = choose_model(context.settings, overrides);
    let describe_origin = |part: &str, flag: &str| match origin {
        SelectionOrigin::Flag => format!("`{flag}`"),
        SelectionOrigin::Session => "the session".to_owned(),
        SelectionOrigin::Configuration | SelectionOrigin::Detection => {
            format!("`{part}` in `config.yaml`")
        }
    };
    let name = choice.name.clone().map(|value| ExplainedValue {
        value,
        source: describe_origin("model", "--model"),
    });
    let mut explanation = Explanation {
        model: name,
        provider: None,
        base_url: None,
        key: None,
        context_length: None,
        supports_images: false,
        problem: None,
    };
    match resolve_choice(context, &choice).await {
        Ok(ChoiceTarget::Provider(lookup)) => {
            explanation.key = Some(key_state(context, &lookup.provider).await);
            explain_provider(&mut explanation, &choice, &lookup, &describe_origin);
        }
        Ok(ChoiceTarget::Local(_)) => {}
        // `resolve` below reports it, too.
        Err(_) => explanation.provider = stated_provider(&choice, &describe_origin),
    }
    match resolve_endpoint(context, &choice).await {
        Ok(ResolvedEndpoint::Stated(endpoint)) => {
            explanation.context_length = endpoint.context_length;
            explanation.supports_images = endpoint.supports_images;
        }
        Ok(ResolvedEndpoint::Detected(endpoint)) => {
            let lookup = |value: String| ExplainedValue {
                value,
                source: "found on this machine".to_owned(),
            };
            explanation.context_length = endpoint.context_length;
            explanation.supports_images = endpoint.supports_images;
            explanation.model = Some(lookup(endpoint.model));
            let provider = || lookup(endpoint.provider.clone());
            explanation.provider.get_or_insert_with(provider);
            let base_url = || lookup(endpoint.base_url.to_string());
            explanation.base_url.get_or_insert_with(base_url);
            explanation.key.get_or_insert(KeyState::NotNeeded);
        }
        Err(error) => explanation.problem = Some(error),
    }
    explanation
}

fn stated_provider(
    choice: &ModelChoice,
    describe_origin: &impl Fn(&str, &str) -> String,
) -> Option<ExplainedValue> {
    choice.provider.clone().map(|value| ExplainedValue {
        value,
        source: describe_origin("model.provider", "--provider"),
    })
}

fn explain_provider(
    explanation: &mut Explanation,
    choice: &ModelChoice,
    lookup: &ProviderLookup,
    describe_origin: &impl Fn(&str, &str) -> String,
) {
    let provider = &lookup.provider;
    let of_entry = || format!("the provider's entry in `config.yaml`, `{}`", provider.name);
    if let Some(model) = lookup.model() {
        let source = match explanation.model.take() {
            Some(named) => named.source,
            None => of_entry(),
        };
        explanation.model = Some(ExplainedValue {
            value: model,
            source,
        });
    }
    let provider_source = match lookup.found_by {
        LookupReason::Choice if choice.provider.is_some() => {
            describe_origin("model.provider", "--provider")
        }
        LookupReason::Choice => "its address".to_owned(),
        LookupReason::Prefix => "the model's name begins with it".to_owned(),
        LookupReason::Model => "the model's name".to_owned(),
        LookupReason::OpenRouter => "it offers models of many providers, and has a key".to_owned(),
    };
    explanation.provider = Some(ExplainedValue {
        value: provider.name.clone(),
        source: provider_source,
    });
    explanation.base_url = Some(ExplainedValue {
        value: provider.base_url.to_string(),
        source: match &provider.base_source {
            BaseSource::Choice => describe_origin("model.base_url", "--base-url"),
            BaseSource::Entry => of_entry(),
            BaseSource::Variable(name) => format!("`{name}`"),
            BaseSource::Table => "built in".to_owned(),
        },
    });
}
