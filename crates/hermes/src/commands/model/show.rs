//! `hermes model --show`: the model that a conversation would begin with, and what else there is.

use hermes_agent::model::{
    KeyState, LocalModel, Origin, Provider, ResolveError, Selection, Surroundings, Wanted,
    local_servers, providers, resolve,
};
use hermes_config::Settings;
use serde_json::{Value, json};

use crate::{context::Context, failure::Failure};

/// What is used now, and what could be.
pub(super) struct Survey {
    pub(super) present: Result<Selection, ResolveError>,
    pub(super) providers: Vec<Provider>,
    pub(super) local: Vec<LocalModel>,
}

impl Survey {
    pub(super) async fn take(context: &Context, settings: &Settings) -> Self {
        let around = Surroundings::new(&context.home, settings);
        let wanted = Wanted::default();
        let (present, providers, local) = tokio::join!(
            resolve(&around, &wanted),
            providers(&around),
            local_servers(&around),
        );
        Self {
            present,
            providers,
            local,
        }
    }

    /// The present model in a few lines.
    pub(super) fn present_text(&self) -> String {
        match &self.present {
            Ok(found) => {
                let endpoint = &found.endpoint;
                let mut lines = vec![format!(
                    "`{}` from {} ({}), {}",
                    endpoint.model,
                    endpoint.provider,
                    endpoint.address(),
                    reason(found.origin),
                )];
                if endpoint.key.value.is_some() {
                    lines.push(format!("key: {}", endpoint.key.place));
                }
                if let Some(length) = endpoint.context_length {
                    lines.push(format!("context: {length} tokens"));
                }
                lines.join("\n")
            }
            Err(error) => error.to_string(),
        }
    }
}

pub(super) fn run(context: &Context) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let survey = context.block_on(async { Ok(Survey::take(context, &settings).await) })?;
    let output = context.output;
    output.line(survey.present_text());
    let mut object = match &survey.present {
        Ok(found) => present_json(found),
        Err(error) => {
            json!({"model": settings.model.choice.name, "problem": error.to_string()})
        }
    };
    let providers: Vec<Value> = survey.providers.iter().map(provider_json).collect();
    object["providers"] = json!(providers);
    let local = survey.local.iter().map(|found| {
        json!({"server": found.server, "base_url": found.base_url.as_str(), "model": found.model})
    });
    object["local"] = json!(local.collect::<Vec<_>>());
    output.json(object);
    Ok(())
}

/// The model for scripts.
pub(super) fn present_json(found: &Selection) -> Value {
    let endpoint = &found.endpoint;
    let origin = match found.origin {
        Origin::Flag => "flag",
        Origin::Session => "session",
        Origin::Configuration => "configuration",
        Origin::Detection => "detection",
    };
    let key = endpoint
        .key
        .value
        .as_ref()
        .map(|_| endpoint.key.place.trim_matches('`'));
    json!({
        "model": endpoint.model,
        "provider": endpoint.provider,
        "address": endpoint.address(),
        "origin": origin,
        "key": key,
        "context_length": endpoint.context_length,
    })
}

fn provider_json(provider: &Provider) -> Value {
    let key = match &provider.key {
        KeyState::Set { .. } => "set",
        KeyState::Missing { .. } => "missing",
        KeyState::Unneeded => "unneeded",
    };
    json!({"name": provider.name, "address": provider.address, "key": key})
}

fn reason(origin: Origin) -> &'static str {
    match origin {
        Origin::Flag => "as asked for",
        Origin::Session => "as in its session",
        Origin::Configuration => "as config.yaml says",
        Origin::Detection => "found on this machine",
    }
}
