//! `hermes model --show`: the model that a conversation would begin with, who says so, and what else there is; `--list`:
//! every provider that could be used right now, with its models.

use hermes_agent::model::{
    ExplainedValue, Explanation, KeyState, LocalModel, ModelOverrides, Provider, ResolveContext,
    ResolveError, Selection, SelectionOrigin, explain_model, list_local_servers, list_providers,
    resolve_model,
};
use hermes_config::Settings;
use serde_json::{Value, json};

use super::offers::{ProviderOffer, find_offers};
use crate::{
    context::Context,
    failure::Failure,
    output::{Tone, printable},
};

/// What is used now, and what could be.
struct ModelSummary {
    present: Result<Selection, ResolveError>,
    explanation: Explanation,
    providers: Vec<Provider>,
    local: Vec<LocalModel>,
}

async fn summarize_models(context: &Context, settings: &Settings) -> ModelSummary {
    let resolve_context = ResolveContext::new(&context.home, settings);
    let wanted = ModelOverrides::default();
    let (present, explanation, providers, local) = tokio::join!(
        resolve_model(&resolve_context, &wanted),
        explain_model(&resolve_context, &wanted),
        list_providers(&resolve_context),
        list_local_servers(&resolve_context),
    );
    ModelSummary {
        present,
        explanation,
        providers,
        local,
    }
}

pub(super) fn run(context: &Context) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let survey = context.block_on(async { Ok(summarize_models(context, &settings).await) })?;
    let output = context.output;
    let explanation = &survey.explanation;
    let advice = key_advice(context, explanation);
    output.line(render_explanation(explanation, advice.as_deref()));
    let mut object = match &survey.present {
        Ok(selection) => present_json(selection),
        Err(error) => json!({
            "model": explanation.model.as_ref().map(|part| &part.value),
            "provider": explanation.provider.as_ref().map(|part| &part.value),
            "problem": error.to_string(),
        }),
    };
    let source = |part: &Option<ExplainedValue>| part.as_ref().map(|part| part.source.clone());
    object["base_url"] = json!(explanation.base_url.as_ref().map(|part| &part.value));
    object["sources"] = json!({
        "model": source(&explanation.model),
        "provider": source(&explanation.provider),
        "base_url": source(&explanation.base_url),
    });
    object["vision"] = json!(explanation.supports_images);
    object["key_advice"] = json!(advice);
    let providers: Vec<Value> = survey.providers.iter().map(provider_json).collect();
    object["providers"] = json!(providers);
    let local = survey.local.iter().map(|selection| {
        json!({"server": selection.server, "base_url": selection.base_url.as_str(), "model": selection.model})
    });
    object["local"] = json!(local.collect::<Vec<_>>());
    output.json(object);
    Ok(())
}

fn render_explanation(explanation: &Explanation, advice: Option<&str>) -> String {
    let part = |part: &Option<ExplainedValue>| match part {
        Some(part) => format!("{} ({})", part.value, part.source),
        None => "none".to_owned(),
    };
    let key = match (&explanation.key, advice) {
        (_, Some(advice)) => format!("missing: {advice}"),
        (Some(KeyState::Set { place }), None) => place.clone(),
        (Some(KeyState::Missing { place, .. }), None) => format!("missing: set {place}"),
        (Some(KeyState::NotNeeded), None) => "none is needed".to_owned(),
        (None, None) => "none".to_owned(),
    };
    let mut lines = vec![
        format!("model     {}", part(&explanation.model)),
        format!("provider  {}", part(&explanation.provider)),
        format!("base      {}", part(&explanation.base_url)),
        format!("key       {key}"),
    ];
    if let Some(length) = explanation.context_length {
        lines.push(format!("context   {length} tokens"));
    }
    if explanation.problem.is_none() {
        let images = if explanation.supports_images {
            "sent to it"
        } else {
            "not sent: it gets their paths (`model.vision: true` if it can see)"
        };
        lines.push(format!("images    {images}"));
    }
    if let Some(problem) = &explanation.problem {
        lines.push(format!("\n{problem}"));
    }
    lines.join("\n")
}

/// Where to put the key that is missing.
fn key_advice(context: &Context, explanation: &Explanation) -> Option<String> {
    let variable = match (&explanation.key, &explanation.problem) {
        (
            Some(KeyState::Missing {
                variable: Some(variable),
                ..
            }),
            _,
        ) => variable.clone(),
        (_, Some(ResolveError::NoKeyOfEither { place, .. })) => {
            let first = place.split('`').nth(1);
            first.unwrap_or("OPENROUTER_API_KEY").to_owned()
        }
        (None, Some(ResolveError::NoModel(selection))) if selection.keys.is_empty() => {
            "OPENAI_API_KEY".to_owned()
        }
        _ => return None,
    };
    let example = match &explanation.problem {
        Some(ResolveError::NoModel(_)) if explanation.key.is_none() => ", for example",
        _ => "",
    };
    Some(format!(
        "put `{variable}=…` into {}{example}, or keep it with `hermes secret set {variable}`",
        context.home.env_file().display()
    ))
}

/// The model for scripts.
pub(super) fn present_json(selection: &Selection) -> Value {
    let endpoint = &selection.endpoint;
    let origin = match selection.origin {
        SelectionOrigin::Flag => "flag",
        SelectionOrigin::Session => "session",
        SelectionOrigin::Configuration => "configuration",
        SelectionOrigin::Detection => "detection",
    };
    let key = endpoint
        .key
        .value
        .as_ref()
        .map(|_| endpoint.key.source.trim_matches('`'));
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
        KeyState::NotNeeded => "unneeded",
    };
    json!({"name": provider.name, "address": provider.address, "key": key})
}

pub(super) fn describe_origin(origin: SelectionOrigin) -> &'static str {
    match origin {
        SelectionOrigin::Flag => "as asked for",
        SelectionOrigin::Session => "as in its session",
        SelectionOrigin::Configuration => "as config.yaml says",
        SelectionOrigin::Detection => "found on this machine",
    }
}

pub(super) fn run_list(context: &Context) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let offers = context.block_on(async { Ok(find_offers(context, &settings).await) })?;
    let output = context.output;
    if offers.is_empty() {
        output.note(
            "No provider's key is set, and no server on this machine has a model.\n\n\
             hint: put a key into the home's `.env`, such as `OPENAI_API_KEY=…`, or start a server such as Ollama",
        );
    }
    for offer in &offers {
        output.line(format!(
            "{}  {}",
            offer.name,
            output.tint(Tone::Faint, &offer.address)
        ));
        match &offer.models {
            Ok(models) => {
                for model in models {
                    output.line(format!("  {}", printable(model)));
                }
            }
            Err(error) => output.line(format!("  ({error})")),
        }
    }
    let offers: Vec<Value> = offers.iter().map(offer_json).collect();
    output.json(json!({"offers": offers}));
    Ok(())
}

fn offer_json(offer: &ProviderOffer) -> Value {
    json!({
        "provider": offer.name,
        "address": offer.address,
        "local": offer.is_local,
        "models": offer.models.as_ref().ok(),
        "problem": offer.models.as_ref().err().map(ToString::to_string),
    })
}
