//! Explains which model would be used and why, also if something is missing.

use hermes_config::ModelChoice;

use super::{
    Found, Lead, Origin, ResolveError, Surroundings, Wanted, chosen, endpoint, follow,
    lead::{FoundBy, Lookup},
    place::BaseSource,
};
use crate::model::{KeyState, providers::key_state};

/// A value and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    pub value: String,
    /// For people.
    pub source: String,
}

/// Model, provider, URL and key, as far as known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub model: Option<Explained>,
    pub provider: Option<Explained>,
    pub base_url: Option<Explained>,
    /// `None` if the provider is unknown.
    pub key: Option<KeyState>,
    /// Where known.
    pub context_length: Option<u32>,
    pub sees_images: bool,
    pub problem: Option<ResolveError>,
}

/// Explains which model would be used and why.
pub async fn explain(around: &Surroundings<'_>, wanted: &Wanted) -> Explanation {
    let (choice, origin) = chosen(around.settings, wanted);
    let asked = |part: &str, flag: &str| match origin {
        Origin::Flag => format!("`{flag}`"),
        Origin::Session => "the session".to_owned(),
        Origin::Configuration | Origin::Detection => format!("`{part}` in `config.yaml`"),
    };
    let name = choice.name.clone().map(|value| Explained {
        value,
        source: asked("model", "--model"),
    });
    let mut explanation = Explanation {
        model: name,
        provider: None,
        base_url: None,
        key: None,
        context_length: None,
        sees_images: false,
        problem: None,
    };
    match follow(around, &choice).await {
        Ok(Lead::Place(found)) => {
            explanation.key = Some(key_state(around, &found.place).await);
            tell_place(&mut explanation, &choice, &found, &asked);
        }
        Ok(Lead::Local(_)) => {}
        // `resolve` below reports it, too.
        Err(_) => explanation.provider = stated_provider(&choice, &asked),
    }
    match endpoint(around, &choice).await {
        Ok(Found::Stated(endpoint)) => {
            explanation.context_length = endpoint.context_length;
            explanation.sees_images = endpoint.sees_images;
        }
        Ok(Found::Detected(endpoint)) => {
            let found = |value: String| Explained {
                value,
                source: "found on this machine".to_owned(),
            };
            explanation.context_length = endpoint.context_length;
            explanation.sees_images = endpoint.sees_images;
            explanation.model = Some(found(endpoint.model));
            let provider = || found(endpoint.provider.clone());
            explanation.provider.get_or_insert_with(provider);
            let base_url = || found(endpoint.base_url.to_string());
            explanation.base_url.get_or_insert_with(base_url);
            explanation.key.get_or_insert(KeyState::Unneeded);
        }
        Err(error) => explanation.problem = Some(error),
    }
    explanation
}

fn stated_provider(
    choice: &ModelChoice,
    asked: &impl Fn(&str, &str) -> String,
) -> Option<Explained> {
    choice.provider.clone().map(|value| Explained {
        value,
        source: asked("model.provider", "--provider"),
    })
}

fn tell_place(
    explanation: &mut Explanation,
    choice: &ModelChoice,
    found: &Lookup,
    asked: &impl Fn(&str, &str) -> String,
) {
    let place = &found.place;
    let of_entry = || {
        format!(
            "the provider's entry in `config.yaml`, `{}`",
            place.provider
        )
    };
    if let Some(model) = found.model() {
        let source = match explanation.model.take() {
            Some(named) => named.source,
            None => of_entry(),
        };
        explanation.model = Some(Explained {
            value: model,
            source,
        });
    }
    let provider_source = match found.found_by {
        FoundBy::Choice if choice.provider.is_some() => asked("model.provider", "--provider"),
        FoundBy::Choice => "its address".to_owned(),
        FoundBy::Prefix => "the model's name begins with it".to_owned(),
        FoundBy::Model => "the model's name".to_owned(),
        FoundBy::OpenRouter => "it offers models of many providers, and has a key".to_owned(),
    };
    explanation.provider = Some(Explained {
        value: place.provider.clone(),
        source: provider_source,
    });
    explanation.base_url = Some(Explained {
        value: place.base_url.to_string(),
        source: match &place.base_source {
            BaseSource::Choice => asked("model.base_url", "--base-url"),
            BaseSource::Entry => of_entry(),
            BaseSource::Variable(name) => format!("`{name}`"),
            BaseSource::Table => "built in".to_owned(),
        },
    });
}
