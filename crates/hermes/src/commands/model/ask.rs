//! `hermes model` with somebody at the terminal: provider, key, model.

use hermes_agent::model::{
    KeyState, ListError, Provider, ResolveError, Selection, Surroundings, Wanted, is_address,
    list_models, providers, resolve,
};
use hermes_config::{Secret, Settings, mask, write_variable};

use super::{
    choose::{self, Choice, Place},
    offers::{Offer, find_offers, of_address, of_provider},
    pick,
    show::reason,
};
use crate::{
    context::Context,
    failure::{Failure, Kind},
    output::{Output, Tone},
    question::Questions,
};

const INSTEAD: &str = "`hermes model NAME --provider PROVIDER` asks nothing, `hermes model --list` shows what there is, `hermes model --show` changes nothing";

/// Holds the key of an address that the user typed.
const ADDRESS_KEY: &str = "HERMES_MODEL_API_KEY";

/// How often a refused key may be typed again.
const ATTEMPTS: usize = 3;

/// One line of the list of providers.
enum Entry {
    /// Can be used right now, and its models are known.
    Ready(Box<Offer>),
    /// Has an entry in the configuration, but no key.
    Keyless(Provider),
    /// One of those that need a key.
    Others,
    /// A server by its address.
    Address,
}

/// What there is to choose from, and what is used now.
struct Survey {
    present: Result<Selection, ResolveError>,
    providers: Vec<Provider>,
    offers: Vec<Offer>,
}

pub(in crate::commands) fn run(context: &Context) -> Result<(), Failure> {
    let questions = Questions::new(false);
    if !questions.can_ask() {
        let message = "there is no terminal to ask on: which model?";
        return Err(Failure::new(Kind::AnswerNeeded, message).hint(INSTEAD));
    }
    let settings = context.written_settings()?;
    let output = context.output;
    output.progress("Looking for models…");
    let survey = context.block_on(async { Ok(take_survey(context, &settings).await) });
    output.end_progress();
    let survey = survey?;
    output.note(format!("{}\n", present_line(&survey.present)));
    let present = survey.present.ok().map(|found| found.endpoint);
    let (entries, others) = entries(survey.providers, survey.offers);
    let usual = usual(
        &entries,
        present.as_ref().map(|endpoint| &*endpoint.provider),
    );
    let (mut offer, mut typed) = match pick_entry(output, questions, &entries, &others, usual)? {
        Picked::Offer(offer) => (*offer, None),
        Picked::Address => ask_address(questions)?,
    };
    let names = models(context, questions, &settings, &mut offer, &mut typed)?;
    let is_same = present
        .as_ref()
        .is_some_and(|endpoint| endpoint.provider == offer.name);
    let usual = present.filter(|_| is_same).map(|endpoint| endpoint.model);
    let usual = usual.or_else(|| offer.usual.clone());
    let name = pick::name(output, questions, &names, usual.as_deref(), INSTEAD)?;

    let place = match (offer.place, &typed) {
        (Place::Address { url, .. }, Some((variable, _))) => Place::Address {
            url,
            key_env: Some(variable.clone()),
        },
        (place, _) => place,
    };
    if let Some((variable, key)) = &typed {
        context.home.create()?;
        write_variable(&context.home, variable, key.expose())?;
        let shown = mask(key.expose());
        output.note(format!("`{variable}` ({shown}) is kept in `.env`"));
    }
    choose::write(context, &Choice { name, place })
}

async fn take_survey(context: &Context, settings: &Settings) -> Survey {
    let around = Surroundings::new(&context.home, settings);
    let wanted = Wanted::default();
    let (present, providers, offers) = tokio::join!(
        resolve(&around, &wanted),
        providers(&around),
        find_offers(context, settings),
    );
    Survey {
        present,
        providers,
        offers,
    }
}

/// What is used now, in one line. Who has no model is asked for one below.
fn present_line(present: &Result<Selection, ResolveError>) -> String {
    match present {
        Ok(found) => format!(
            "Now: `{}` from {} ({}), {}",
            found.endpoint.model,
            found.endpoint.provider,
            found.endpoint.address(),
            reason(found.origin),
        ),
        Err(ResolveError::NoModel(_)) => "No model is chosen yet.".to_owned(),
        Err(error) => format!("Now: {error}"),
    }
}

/// The lines of the list, and the providers behind “another provider”.
fn entries(known: Vec<Provider>, offers: Vec<Offer>) -> (Vec<Entry>, Vec<Provider>) {
    let missing = known
        .into_iter()
        .filter(|provider| matches!(provider.key, KeyState::Missing { .. }));
    let (keyless, others): (Vec<_>, Vec<_>) = missing.partition(|provider| provider.is_configured);
    let mut entries: Vec<Entry> = offers.into_iter().map(Box::new).map(Entry::Ready).collect();
    entries.extend(keyless.into_iter().map(Entry::Keyless));
    entries.extend([Entry::Others, Entry::Address]);
    (entries, others)
}

/// The present provider, else the first that could be used right now.
fn usual(entries: &[Entry], present: Option<&str>) -> usize {
    let is_present = |entry: &Entry| match entry {
        Entry::Ready(offer) => Some(&*offer.name) == present,
        Entry::Keyless(provider) => Some(&*provider.name) == present,
        Entry::Others | Entry::Address => false,
    };
    entries.iter().position(is_present).unwrap_or(0)
}

enum Picked {
    Offer(Box<Offer>),
    Address,
}

fn pick_entry(
    output: Output,
    questions: Questions,
    entries: &[Entry],
    others: &[Provider],
    usual: usize,
) -> Result<Picked, Failure> {
    let width = entries.iter().map(|entry| label(entry).len()).max();
    for (index, entry) in entries.iter().enumerate() {
        let (text, tone) = remark(entry);
        output.note(format!(
            "{:>4}  {:width$}  {}",
            index + 1,
            label(entry),
            output.tint(tone, &text),
            width = width.unwrap_or(0),
        ));
    }
    loop {
        let default = (usual + 1).to_string();
        let answer = questions.text("Provider", Some(&default), INSTEAD)?;
        let number = answer.parse::<usize>().ok();
        let numbered = number.and_then(|number| entries.get(number.checked_sub(1)?));
        let named = entries.iter().find(|entry| label(entry) == answer);
        match numbered.or(named) {
            Some(Entry::Ready(offer)) => return Ok(Picked::Offer(offer.clone())),
            Some(Entry::Keyless(provider)) => {
                return Ok(Picked::Offer(Box::new(of_provider(provider))));
            }
            Some(Entry::Address) => return Ok(Picked::Address),
            Some(Entry::Others) => {
                let choices: Vec<_> = others.iter().map(|provider| &*provider.name).collect();
                output.note(format!("Type one of: {}", choices.join(", ")));
            }
            None => match others.iter().find(|provider| provider.name == answer) {
                Some(provider) => return Ok(Picked::Offer(Box::new(of_provider(provider)))),
                None => output.note(format!(
                    "Please answer with a number from 1 to {}, or the name of a provider.",
                    entries.len()
                )),
            },
        }
    }
}

fn label(entry: &Entry) -> &str {
    match entry {
        Entry::Ready(offer) => &offer.name,
        Entry::Keyless(provider) => &provider.name,
        Entry::Others => "another provider",
        Entry::Address => "another address",
    }
}

fn remark(entry: &Entry) -> (String, Tone) {
    match entry {
        Entry::Ready(offer) => {
            let place = match &offer.key {
                _ if offer.is_local => format!("runs on this machine, {}", offer.address),
                KeyState::Set { place } => format!("key set: {place}"),
                KeyState::Missing { .. } | KeyState::Unneeded => offer.address.clone(),
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
        Entry::Keyless(_) => ("no key yet".into(), Tone::Faint),
        Entry::Others => (
            "one of those that need no more than a key: asks for it".into(),
            Tone::Faint,
        ),
        Entry::Address => ("a server that speaks OpenAI's protocol".into(), Tone::Faint),
    }
}

/// A key that was typed, and its variable.
type TypedKey = Option<(String, Secret<String>)>;

fn ask_address(questions: Questions) -> Result<(Offer, TypedKey), Failure> {
    let url = questions.text("Address (such as http://127.0.0.1:8080/v1)", None, INSTEAD)?;
    if !is_address(&url) {
        return Err(Failure::usage(format!(
            "`{url}` is not an address; it has to begin with `http://` or `https://`"
        )));
    }
    let key = questions.hidden("Key (not shown; empty if it needs none)", INSTEAD)?;
    let typed = (!key.expose().is_empty()).then(|| (ADDRESS_KEY.to_owned(), key));
    Ok((of_address(url), typed))
}

/// The models that the provider lists; none where it does not say. Asks for a key that is missing or refused.
fn models(
    context: &Context,
    questions: Questions,
    settings: &Settings,
    offer: &mut Offer,
    typed: &mut TypedKey,
) -> Result<Vec<String>, Failure> {
    let output = context.output;
    let listed = offer.models.as_ref().ok().filter(|names| !names.is_empty());
    if let Some(names) = listed {
        return Ok(names.clone());
    }
    if let KeyState::Missing { variable, place } = &offer.key {
        match variable {
            Some(variable) => *typed = Some(type_key(questions, &offer.name, variable)?),
            None => output.warning(format!("`{}` has no key: {place}", offer.name)),
        }
    }
    for _ in 0..ATTEMPTS {
        output.progress(&format!("Asking {} for its models…", offer.name));
        let key = typed.as_ref().map(|(_, key)| key.clone());
        let listed = context.block_on(async {
            let around = Surroundings::new(&context.home, settings);
            Ok(list_models(&around, &offer.choice, key).await)
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
                // A key that is written in the file is for the user to mend there.
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
        *typed = Some(type_key(questions, &offer.name, &variable)?);
    }
    Err(Failure::failed(format!(
        "{} rejected every key; nothing was changed",
        offer.name
    )))
}

fn type_key(
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
