//! `hermes secret …`: what `${keyring:NAME}` reads. Values come in unseen and never go out.

use std::io::{IsTerminal, Read};

use hermes_config::{Secret, SecretPlace, SecretStore, SecretStoreError, Settings, Variables};
use serde_json::{Value, json};

use super::mcp;
use crate::{
    cli::{SecretArgs, SecretCommand},
    context::Context,
    failure::{Failure, Kind},
    output::{Table, Tone},
    question::Questions,
};

/// More than any key or certificate has.
const LONGEST: u64 = 64 * 1024;

pub(super) fn run(context: &Context, command: SecretCommand) -> Result<(), Failure> {
    match command {
        SecretCommand::Set(args) => set(context, &args),
        SecretCommand::List => list(context),
        SecretCommand::Remove(args) => remove(context, &args),
    }
}

fn store(context: &Context) -> SecretStore {
    let (variables, _) = Variables::load(&context.home, None);
    SecretStore::of_user(&context.home, &variables)
}

fn set(context: &Context, args: &SecretArgs) -> Result<(), Failure> {
    let name = &args.name;
    SecretStore::check_name(name).map_err(|error| failure(&error))?;
    let value = value(name)?;
    let place = store(context)
        .set(name, &value)
        .map_err(|error| failure(&error))?;
    if place == SecretPlace::File {
        context.output.note(
            "There is no system keyring here: the secret is encrypted in `secrets.json` of the home, with the key in `secrets.key`.",
        );
    }
    context.output.note(format!(
        "Kept `{name}`. Write `${{keyring:{name}}}` where it belongs."
    ));
    mcp::reload_running(context);
    context
        .output
        .json(json!({"secret": name, "kept_in": place}));
    Ok(())
}

/// Typed unseen, or read from stdin.
fn value(name: &str) -> Result<Secret<String>, Failure> {
    let instead = format!("send it on stdin: `printf %s \"$VALUE\" | hermes secret set {name}`");
    let value = if std::io::stdin().is_terminal() {
        Questions::new(false).hidden("Value (it is not shown)", &instead)?
    } else {
        let mut text = String::new();
        let mut stdin = std::io::stdin().take(LONGEST + 1);
        stdin
            .read_to_string(&mut text)
            .map_err(|_| Failure::usage("a secret is text; stdin is not"))?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Secret::new(text.strip_suffix('\r').unwrap_or(text).to_owned())
    };
    if value.expose().len() as u64 > LONGEST {
        return Err(Failure::usage("a secret has at most 64 KiB"));
    }
    if value.expose().is_empty() {
        return Err(Failure::new(Kind::AnswerNeeded, "there is no value to keep").hint(instead));
    }
    Ok(value)
}

fn list(context: &Context) -> Result<(), Failure> {
    let secrets = store(context).list().map_err(|error| failure(&error))?;
    // A configuration that cannot be read is not a reason to hide the names.
    let settings = Settings::load(&context.home).ok();
    let secrets: Vec<(String, SecretPlace, Vec<String>)> = secrets
        .into_iter()
        .map(|(name, place)| {
            let settings = settings.as_ref();
            let users = settings.map_or_else(Vec::new, |settings| used_by(settings, &name));
            (name, place, users)
        })
        .collect();
    if secrets.is_empty() {
        context
            .output
            .note("No secret is kept; `hermes secret set NAME` keeps one.");
    } else {
        let mut table = Table::new(&["NAME", "KEPT IN", "USED BY"]);
        for (name, place, users) in &secrets {
            table.row([
                (name.clone(), Tone::Strong),
                (place.to_string(), Tone::Plain),
                (users.join(", "), Tone::Faint),
            ]);
        }
        context.output.table(&table);
    }
    let described = secrets
        .iter()
        .map(|(name, place, users)| json!({"name": name, "kept_in": place, "used_by": users}));
    context
        .output
        .json(json!({"secrets": described.collect::<Vec<Value>>()}));
    Ok(())
}

fn remove(context: &Context, args: &SecretArgs) -> Result<(), Failure> {
    let name = &args.name;
    if !store(context)
        .remove(name)
        .map_err(|error| failure(&error))?
    {
        let message = format!("no secret is kept under `{name}`");
        return Err(Failure::new(Kind::NotFound, message).hint("`hermes secret list` lists them"));
    }
    let settings = Settings::load(&context.home).ok();
    for user in settings.iter().flat_map(|settings| used_by(settings, name)) {
        context
            .output
            .warning(format!("server `{user}` still refers to it"));
    }
    context.output.note(format!("Removed `{name}`."));
    context.output.json(json!({"removed": name}));
    Ok(())
}

/// The servers whose entries refer to a secret.
fn used_by(settings: &Settings, name: &str) -> Vec<String> {
    let reference = format!("${{keyring:{name}}}");
    let entries = settings.servers.iter();
    entries
        .filter(|entry| entry.template.to_string().contains(&reference))
        .map(|entry| entry.name.to_string())
        .collect()
}

fn failure(error: &SecretStoreError) -> Failure {
    let kind = match error {
        SecretStoreError::BadName { .. } | SecretStoreError::Empty => Kind::Usage,
        SecretStoreError::Missing { .. } => Kind::NotFound,
        _ => Kind::Failed,
    };
    Failure::new(kind, error.to_string())
}
