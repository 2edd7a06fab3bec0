//! `hermes model` with somebody at the terminal: provider, key and model, each picked by number, name or a part of it.

use hermes_agent::model::{
    KeyState, ListError, ModelOverrides, Provider, ResolveContext, ResolveError, Selection,
    is_provider_url, list_models, list_providers, resolve_model,
};
use hermes_config::{Secret, Settings, mask, write_variable};

use super::{
    choose,
    choose::{ModelLocation, ModelToWrite},
    offers::{ProviderOffer, address_offer, find_offers, provider_offer},
    show::describe_origin,
};
use crate::{
    context::Context,
    failure::{Failure, FailureKind},
    output::{Output, Tone, printable},
    question::Questions,
};

const NONINTERACTIVE_HINT: &str = "`hermes model NAME --provider PROVIDER` asks nothing, `hermes model --list` shows what there is, `hermes model --show` changes nothing";

/// Holds the key of an address that the user typed.
const ADDRESS_KEY_VARIABLE: &str = "HERMES_MODEL_API_KEY";

/// How often a refused key may be typed again.
const MAX_KEY_ATTEMPTS: usize = 3;

/// One line of the list of providers.
enum ProviderEntry {
    /// Can be used right now, and its models are known.
    Ready(Box<ProviderOffer>),
    /// Has an entry in the configuration, but no key.
    Keyless(Provider),
    /// One of those that need a key.
    Others,
    /// A server by its address.
    Address,
}

/// What there is to choose from, and what is used now.
struct ModelSurvey {
    present: Result<Selection, ResolveError>,
    providers: Vec<Provider>,
    offers: Vec<ProviderOffer>,
}

pub(in crate::commands) fn run(context: &Context) -> Result<(), Failure> {
    let questions = Questions::new(false);
    if !questions.can_ask() {
        let message = "there is no terminal to ask on: which model?";
        return Err(Failure::new(FailureKind::AnswerNeeded, message).hint(NONINTERACTIVE_HINT));
    }
    let settings = context.written_settings()?;
    let output = context.output;
    output.progress("Looking for models…");
    let survey = context.block_on(async { Ok(survey_models(context, &settings).await) });
    output.end_progress();
    let survey = survey?;
    output.note(format!("{}\n", present_line(&survey.present)));
    let present = survey.present.ok().map(|selection| selection.endpoint);
    let (entries, others) = provider_entries(survey.providers, survey.offers);
    let usual = default_entry(
        &entries,
        present.as_ref().map(|endpoint| &*endpoint.provider),
    );
    let (mut offer, mut typed) = match pick_entry(output, questions, &entries, &others, usual)? {
        PickedProvider::Offer(offer) => (*offer, None),
        PickedProvider::Address => ask_address(questions)?,
    };
    let names = list_provider_models(context, questions, &settings, &mut offer, &mut typed)?;
    let is_same = present
        .as_ref()
        .is_some_and(|endpoint| endpoint.provider == offer.name);
    let usual = present.filter(|_| is_same).map(|endpoint| endpoint.model);
    let usual = usual.or_else(|| offer.default_model.clone());
    let name = pick_name(
        output,
        questions,
        &names,
        usual.as_deref(),
        NONINTERACTIVE_HINT,
    )?;

    let location = match (offer.location, &typed) {
        (ModelLocation::Address { url, .. }, Some((variable, _))) => ModelLocation::Address {
            url,
            key_env: Some(variable.clone()),
        },
        (location, _) => location,
    };
    if let Some((variable, key)) = &typed {
        context.home.create()?;
        write_variable(&context.home, variable, key.expose())?;
        let shown = mask(key.expose());
        output.note(format!("`{variable}` ({shown}) is kept in `.env`"));
    }
    choose::write_choice(context, &ModelToWrite { name, location })
}

async fn survey_models(context: &Context, settings: &Settings) -> ModelSurvey {
    let resolve_context = ResolveContext::new(&context.home, settings);
    let wanted = ModelOverrides::default();
    let (present, providers, offers) = tokio::join!(
        resolve_model(&resolve_context, &wanted),
        list_providers(&resolve_context),
        find_offers(context, settings),
    );
    ModelSurvey {
        present,
        providers,
        offers,
    }
}

/// What is used now, in one line. Who has no model is asked for one below.
fn present_line(present: &Result<Selection, ResolveError>) -> String {
    match present {
        Ok(selection) => format!(
            "Now: `{}` from {} ({}), {}",
            selection.endpoint.model,
            selection.endpoint.provider,
            selection.endpoint.address(),
            describe_origin(selection.origin),
        ),
        Err(ResolveError::NoModel(_)) => "No model is chosen yet.".to_owned(),
        Err(error) => format!("Now: {error}"),
    }
}

/// The lines of the list, and the providers behind “another provider”.
fn provider_entries(
    known: Vec<Provider>,
    offers: Vec<ProviderOffer>,
) -> (Vec<ProviderEntry>, Vec<Provider>) {
    let missing = known
        .into_iter()
        .filter(|provider| matches!(provider.key, KeyState::Missing { .. }));
    let (keyless, others): (Vec<_>, Vec<_>) = missing.partition(|provider| provider.is_configured);
    let mut entries: Vec<ProviderEntry> = offers
        .into_iter()
        .map(Box::new)
        .map(ProviderEntry::Ready)
        .collect();
    entries.extend(keyless.into_iter().map(ProviderEntry::Keyless));
    entries.extend([ProviderEntry::Others, ProviderEntry::Address]);
    (entries, others)
}

/// The present provider, else the first that could be used right now.
fn default_entry(entries: &[ProviderEntry], present: Option<&str>) -> usize {
    let is_present = |entry: &ProviderEntry| match entry {
        ProviderEntry::Ready(offer) => Some(&*offer.name) == present,
        ProviderEntry::Keyless(provider) => Some(&*provider.name) == present,
        ProviderEntry::Others | ProviderEntry::Address => false,
    };
    entries.iter().position(is_present).unwrap_or(0)
}

enum PickedProvider {
    Offer(Box<ProviderOffer>),
    Address,
}

fn pick_entry(
    output: Output,
    questions: Questions,
    entries: &[ProviderEntry],
    others: &[Provider],
    usual: usize,
) -> Result<PickedProvider, Failure> {
    let width = entries.iter().map(|entry| entry_label(entry).len()).max();
    for (index, entry) in entries.iter().enumerate() {
        let (text, tone) = entry_remark(entry);
        output.note(format!(
            "{:>4}  {:width$}  {}",
            index + 1,
            entry_label(entry),
            output.tint(tone, &text),
            width = width.unwrap_or(0),
        ));
    }
    loop {
        let default = (usual + 1).to_string();
        let answer = questions.text("Provider", Some(&default), NONINTERACTIVE_HINT)?;
        let number = answer.parse::<usize>().ok();
        let numbered = number.and_then(|number| entries.get(number.checked_sub(1)?));
        let named = entries.iter().find(|entry| entry_label(entry) == answer);
        match numbered.or(named) {
            Some(ProviderEntry::Ready(offer)) => return Ok(PickedProvider::Offer(offer.clone())),
            Some(ProviderEntry::Keyless(provider)) => {
                return Ok(PickedProvider::Offer(Box::new(provider_offer(provider))));
            }
            Some(ProviderEntry::Address) => return Ok(PickedProvider::Address),
            Some(ProviderEntry::Others) => {
                let choices: Vec<_> = others.iter().map(|provider| &*provider.name).collect();
                output.note(format!("Type one of: {}", choices.join(", ")));
            }
            None => match others.iter().find(|provider| provider.name == answer) {
                Some(provider) => {
                    return Ok(PickedProvider::Offer(Box::new(provider_offer(provider))));
                }
                None => output.note(format!(
                    "Please answer with a number from 1 to {}, or the name of a provider.",
                    entries.len()
                )),
            },
        }
    }
}

fn entry_label(entry: &ProviderEntry) -> &str {
    match entry {
        ProviderEntry::Ready(offer) => &offer.name,
        ProviderEntry::Keyless(provider) => &provider.name,
        ProviderEntry::Others => "another provider",
        ProviderEntry::Address => "another address",
    }
}

fn entry_remark(entry: &ProviderEntry) -> (String, Tone) {
    match entry {
        ProviderEntry::Ready(offer) => {
            let place = match &offer.key {
                _ if offer.is_local => format!("runs on this machine, {}", offer.address),
                KeyState::Set { place } => format!("key set: {place}"),
                KeyState::Missing { .. } | KeyState::NotNeeded => offer.address.clone(),
            };
            match &offer.models {
                Ok(models) if models.len() == 1 => {
                    let only = crate::output::printable(&models[0]);
                    (format!("{place}, has {only}"), Tone::Good)
                }
                Ok(models) => (format!("{place}, has {} models", models.len()), Tone::Good),
                Err(error) => (format!("{place}; {error}"), Tone::Plain),
            }
        }
        ProviderEntry::Keyless(_) => ("no key yet".into(), Tone::Faint),
        ProviderEntry::Others => (
            "one of those that need no more than a key: asks for it".into(),
            Tone::Faint,
        ),
        ProviderEntry::Address => ("a server that speaks OpenAI's protocol".into(), Tone::Faint),
    }
}

/// A key that was typed, and its variable.
type TypedKey = Option<(String, Secret<String>)>;

fn ask_address(questions: Questions) -> Result<(ProviderOffer, TypedKey), Failure> {
    let url = questions.text(
        "Address (such as http://127.0.0.1:8080/v1)",
        None,
        NONINTERACTIVE_HINT,
    )?;
    if !is_provider_url(&url) {
        return Err(Failure::usage(format!(
            "`{url}` is not an address; it has to begin with `http://` or `https://`"
        )));
    }
    let key = questions.hidden(
        "Key (not shown; empty if it needs none)",
        NONINTERACTIVE_HINT,
    )?;
    let typed = (!key.expose().is_empty()).then(|| (ADDRESS_KEY_VARIABLE.to_owned(), key));
    Ok((address_offer(url), typed))
}

/// The models that the provider lists; none where it does not say. Asks for a key that is missing or refused.
fn list_provider_models(
    context: &Context,
    questions: Questions,
    settings: &Settings,
    offer: &mut ProviderOffer,
    typed: &mut TypedKey,
) -> Result<Vec<String>, Failure> {
    let output = context.output;
    let listed = offer.models.as_ref().ok().filter(|names| !names.is_empty());
    if let Some(names) = listed {
        return Ok(names.clone());
    }
    if let KeyState::Missing { variable, place } = &offer.key {
        match variable {
            Some(variable) => *typed = Some(ask_key(questions, &offer.name, variable)?),
            None => output.warning(format!("`{}` has no key: {place}", offer.name)),
        }
    }
    for _ in 0..MAX_KEY_ATTEMPTS {
        output.progress(&format!("Asking {} for its models…", offer.name));
        let key = typed.as_ref().map(|(_, key)| key.clone());
        let listed = context.block_on(async {
            let resolve_context = ResolveContext::new(&context.home, settings);
            Ok(list_models(&resolve_context, &offer.choice, key).await)
        });
        output.end_progress();
        let error = match listed? {
            Ok(names) => return Ok(names),
            Err(error) => error,
        };
        output.note(format!("{}: {error}", offer.name));
        let variable = match (&error, &*typed, &offer.key) {
            (ListError::KeyRefused { .. }, Some((variable, _)), _) => variable.clone(),
            (ListError::KeyRefused { .. }, None, KeyState::Set { place }) => {
                let variable = place.trim_matches('`').to_owned();
                // A key that is written in the file is for the user to fix there.
                if !variable
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'_')
                {
                    return Ok(Vec::new());
                }
                variable
            }
            _ => return Ok(Vec::new()),
        };
        *typed = Some(ask_key(questions, &offer.name, &variable)?);
    }
    Err(Failure::failed(format!(
        "{} rejected every key; nothing was changed",
        offer.name
    )))
}

fn ask_key(
    questions: Questions,
    provider: &str,
    variable: &str,
) -> Result<(String, Secret<String>), Failure> {
    let question = format!("Key of {provider} (not shown; kept in .env as {variable})");
    let key = questions.hidden(&question, &format!("set `{variable}`"))?;
    if key.expose().is_empty() {
        return Err(Failure::failed("no key was given; nothing was changed"));
    }
    Ok((variable.to_owned(), key))
}

/// More lines than this push the question's beginning off a usual screen.
const MAX_SHOWN: usize = 20;

/// Lets the person pick one of the names, or another one where that is allowed.
pub(super) fn pick_name(
    output: Output,
    questions: Questions,
    names: &[String],
    usual: Option<&str>,
    instead: &str,
) -> Result<String, Failure> {
    let mut shown: Vec<&String> = names.iter().collect();
    let mut confirmed: Option<String> = None;
    loop {
        for (index, name) in shown.iter().enumerate().take(MAX_SHOWN) {
            output.note(format!("{:>4}  {}", index + 1, printable(name)));
        }
        if shown.len() > MAX_SHOWN {
            let more = shown.len() - MAX_SHOWN;
            output.note(format!("      … and {more} more; type a part of a name"));
        }
        let usual = usual.or(names.first().map(String::as_str));
        let answer = questions.text("Model", usual, instead)?;
        let number = answer.parse::<usize>().ok().filter(|number| *number > 0);
        let numbered = number.and_then(|number| shown.get(number - 1));
        if let Some(name) = numbered {
            return Ok((*name).clone());
        }
        let is_known = names.contains(&answer);
        // Lists are not always complete, so a name may be insisted on.
        if is_known || names.is_empty() && !answer.is_empty() || confirmed.as_ref() == Some(&answer)
        {
            return Ok(answer);
        }
        let part = answer.to_lowercase();
        let matching: Vec<&String> = names
            .iter()
            .filter(|name| name.to_lowercase().contains(&part))
            .collect();
        if matching.is_empty() {
            output.note(format!(
                "`{}` is not in the list; type it again to use it anyway.",
                printable(&answer)
            ));
            confirmed = Some(answer);
        } else {
            shown = matching;
        }
    }
}
