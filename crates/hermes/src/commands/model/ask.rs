//! `hermes model` with somebody at the terminal: provider, key, model.

use hermes_agent::model::{
    KeyState, ListError, LocalModel, Provider, Surroundings, is_address, list_models,
};
use hermes_config::{ModelChoice, Secret, Settings, mask, write_variable};

use super::{
    choose::{self, Choice, Place},
    pick,
    show::Survey,
};
use crate::{
    context::Context,
    failure::{Failure, Kind},
    output::Tone,
    question::Questions,
};

const INSTEAD: &str =
    "`hermes model NAME --provider PROVIDER` asks nothing, `hermes model --show` changes nothing";

/// Holds the key of an address that the user typed.
const ADDRESS_KEY: &str = "HERMES_MODEL_API_KEY";

/// How often a refused key may be typed again.
const ATTEMPTS: usize = 3;

/// One line of the list of providers.
enum Entry {
    Known(Provider),
    Local(LocalModel),
    Address,
}

pub(in crate::commands) fn run(context: &Context) -> Result<(), Failure> {
    let questions = Questions::new(false);
    if !questions.can_ask() {
        let message = "there is no terminal to ask on: which model?";
        return Err(Failure::new(Kind::AnswerNeeded, message).hint(INSTEAD));
    }
    let settings = context.written_settings()?;
    let survey = context.block_on(async { Ok(Survey::take(context, &settings).await) })?;
    let output = context.output;
    output.note(format!("Now: {}\n", survey.present_text()));
    let present = survey
        .present
        .as_ref()
        .ok()
        .map(|found| found.endpoint.clone());
    let entries = entries(survey);
    let usual = usual(
        &entries,
        present.as_ref().map(|endpoint| &*endpoint.provider),
    );
    let entry = pick_entry(context, questions, &entries, usual)?;
    let (mut asked, place) = match entry {
        Entry::Known(provider) => known(provider),
        Entry::Local(server) => local(server),
        Entry::Address => address(questions)?,
    };
    let names = models(context, questions, &settings, &mut asked)?;
    let is_same = present
        .as_ref()
        .is_some_and(|endpoint| endpoint.provider == asked.name);
    let usual = present.filter(|_| is_same).map(|endpoint| endpoint.model);
    let usual = usual.or_else(|| asked.usual.clone());
    let name = pick::name(output, questions, &names, usual.as_deref(), INSTEAD)?;

    let place = match (place, &asked.typed) {
        (Place::Address { url, .. }, Some((variable, _))) => Place::Address {
            url,
            key_env: Some(variable.clone()),
        },
        (place, _) => place,
    };
    if let Some((variable, key)) = &asked.typed {
        context.home.create()?;
        write_variable(&context.home, variable, key.expose())?;
        let shown = mask(key.expose());
        output.note(format!("`{variable}` ({shown}) is kept in `.env`"));
    }
    choose::write(context, &Choice { name, place })
}

/// A provider whose models are wanted.
struct Asked {
    /// For people.
    name: String,
    choice: ModelChoice,
    key: KeyState,
    /// The model to use if nothing else is said.
    usual: Option<String>,
    /// A key that was typed, and its variable.
    typed: Option<(String, Secret<String>)>,
}

fn entries(survey: Survey) -> Vec<Entry> {
    let known = survey.providers.into_iter().map(Entry::Known);
    let local = survey.local.into_iter().map(Entry::Local);
    known.chain(local).chain([Entry::Address]).collect()
}

/// The present provider, else the first that could be used right now.
fn usual(entries: &[Entry], present: Option<&str>) -> usize {
    let is_present = |entry: &Entry| match entry {
        Entry::Known(provider) => Some(&*provider.name) == present,
        Entry::Local(server) => Some(server.server) == present,
        Entry::Address => false,
    };
    let is_usable = |entry: &Entry| match entry {
        Entry::Known(provider) => !matches!(provider.key, KeyState::Missing { .. }),
        Entry::Local(_) => true,
        Entry::Address => false,
    };
    let found = entries.iter().position(is_present);
    found
        .or_else(|| entries.iter().position(is_usable))
        .unwrap_or(0)
}

fn pick_entry<'e>(
    context: &Context,
    questions: Questions,
    entries: &'e [Entry],
    usual: usize,
) -> Result<&'e Entry, Failure> {
    let output = context.output;
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
        if let Some(entry) = numbered.or(named) {
            return Ok(entry);
        }
        output.note(format!(
            "Please answer with a number from 1 to {}.",
            entries.len()
        ));
    }
}

fn label(entry: &Entry) -> &str {
    match entry {
        Entry::Known(provider) => &provider.name,
        Entry::Local(server) => server.server,
        Entry::Address => "another address",
    }
}

fn remark(entry: &Entry) -> (String, Tone) {
    match entry {
        Entry::Known(provider) => match &provider.key {
            KeyState::Set { place } => (format!("key set: {place}"), Tone::Good),
            KeyState::Missing { .. } => ("no key yet".into(), Tone::Faint),
            KeyState::Unneeded => (provider.address.clone(), Tone::Plain),
        },
        Entry::Local(server) => (
            format!(
                "runs on this machine, has {}",
                crate::output::printable(&server.model)
            ),
            Tone::Good,
        ),
        Entry::Address => ("a server that speaks OpenAI's protocol".into(), Tone::Faint),
    }
}

fn known(provider: &Provider) -> (Asked, Place) {
    let asked = Asked {
        name: provider.name.clone(),
        choice: ModelChoice {
            provider: Some(provider.name.clone()),
            ..ModelChoice::default()
        },
        key: provider.key.clone(),
        usual: None,
        typed: None,
    };
    (asked, Place::Provider(provider.name.clone()))
}

fn local(server: &LocalModel) -> (Asked, Place) {
    let url = server.base_url.to_string();
    let (mut asked, place) = at(url);
    server.server.clone_into(&mut asked.name);
    asked.usual = Some(server.model.clone());
    (asked, place)
}

fn address(questions: Questions) -> Result<(Asked, Place), Failure> {
    let url = questions.text("Address (such as http://127.0.0.1:8080/v1)", None, INSTEAD)?;
    if !is_address(&url) {
        return Err(Failure::usage(format!(
            "`{url}` is no address; it has to begin with `http://` or `https://`"
        )));
    }
    let (mut asked, place) = at(url);
    let key = questions.hidden("Key (not shown; empty if it needs none)", INSTEAD)?;
    if !key.expose().is_empty() {
        asked.typed = Some((ADDRESS_KEY.to_owned(), key));
    }
    Ok((asked, place))
}

fn at(url: String) -> (Asked, Place) {
    let asked = Asked {
        name: url.clone(),
        choice: ModelChoice {
            provider: Some("custom".into()),
            base_url: Some(url.clone()),
            ..ModelChoice::default()
        },
        key: KeyState::Unneeded,
        usual: None,
        typed: None,
    };
    (asked, Place::Address { url, key_env: None })
}

/// The models that the provider lists; none where it does not say. Asks for a key that is missing or refused.
fn models(
    context: &Context,
    questions: Questions,
    settings: &Settings,
    asked: &mut Asked,
) -> Result<Vec<String>, Failure> {
    let output = context.output;
    if let KeyState::Missing { variable, place } = &asked.key {
        match variable {
            Some(variable) => asked.typed = Some(type_key(questions, &asked.name, variable)?),
            None => output.warning(format!("`{}` has no key: {place}", asked.name)),
        }
    }
    for _ in 0..ATTEMPTS {
        output.progress(&format!("Asking {} for its models…", asked.name));
        let key = asked.typed.as_ref().map(|(_, key)| key.clone());
        let listed = context.block_on(async {
            let around = Surroundings::new(&context.home, settings);
            Ok(list_models(&around, &asked.choice, key).await)
        });
        output.end_progress();
        let error = match listed? {
            Ok(names) => return Ok(names),
            Err(error) => error,
        };
        output.note(format!("{}: {error}", asked.name));
        let variable = match (&error, &asked.typed, &asked.key) {
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
        asked.typed = Some(type_key(questions, &asked.name, &variable)?);
    }
    Err(Failure::failed(format!(
        "{} refused every key; nothing was changed",
        asked.name
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
