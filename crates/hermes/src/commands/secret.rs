//! `hermes secret …`: what `${keyring:NAME}` reads. Values come in unseen and never go out.

use std::io::{IsTerminal, Read};

use hermes_config::{Secret, SecretLocation, SecretStore, SecretStoreError, Settings, Variables};
use serde_json::{Value, json};

use super::mcp;
use crate::{
    cli::{SecretArgs, SecretCommand},
    context::Context,
    failure::{Failure, FailureKind},
    output::{Table, Tone},
    question::Questions,
};

/// More than any key or certificate has.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

pub(super) fn run(context: &Context, command: SecretCommand) -> Result<(), Failure> {
    match command {
        SecretCommand::Set(args) => set(context, &args),
        SecretCommand::List => list(context),
        SecretCommand::Remove(args) => remove(context, &args),
    }
}

fn open_store(context: &Context) -> SecretStore {
    let (variables, _) = Variables::load(&context.home, None);
    SecretStore::for_user(&context.home, &variables)
}

fn set(context: &Context, args: &SecretArgs) -> Result<(), Failure> {
    let name = &args.name;
    SecretStore::check_name(name).map_err(|error| store_failure(&error))?;
    let value = read_value(name)?;
    let location = open_store(context)
        .set(name, &value)
        .map_err(|error| store_failure(&error))?;
    if location == SecretLocation::File {
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
        .json(json!({"secret": name, "kept_in": location}));
    Ok(())
}

/// Typed unseen, or read from stdin.
fn read_value(name: &str) -> Result<Secret<String>, Failure> {
    let instead = format!("send it on stdin: `printf %s \"$VALUE\" | hermes secret set {name}`");
    let value = if std::io::stdin().is_terminal() {
        Questions::new(false).hidden("Value (it is not shown)", &instead)?
    } else {
        let mut text = String::new();
        let mut stdin = std::io::stdin().take(MAX_SECRET_BYTES + 1);
        stdin
            .read_to_string(&mut text)
            .map_err(|_| Failure::usage("a secret is text; stdin is not"))?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Secret::new(text.strip_suffix('\r').unwrap_or(text).to_owned())
    };
    if value.expose().len() as u64 > MAX_SECRET_BYTES {
        return Err(Failure::usage("a secret has at most 64 KiB"));
    }
    if value.expose().is_empty() {
        return Err(
            Failure::new(FailureKind::AnswerNeeded, "there is no value to keep").hint(instead),
        );
    }
    Ok(value)
}

fn list(context: &Context) -> Result<(), Failure> {
    let secrets = open_store(context)
        .list()
        .map_err(|error| store_failure(&error))?;
    // A configuration that cannot be read is not a reason to hide the names.
    let settings = Settings::load(&context.home).ok();
    let secrets: Vec<(String, SecretLocation, Vec<String>)> = secrets
        .into_iter()
        .map(|(name, location)| {
            let settings = settings.as_ref();
            let users = settings.map_or_else(Vec::new, |settings| servers_using(settings, &name));
            (name, location, users)
        })
        .collect();
    if secrets.is_empty() {
        context
            .output
            .note("No secret is kept; `hermes secret set NAME` keeps one.");
    } else {
        let mut table = Table::new(&["NAME", "KEPT IN", "USED BY"]);
        for (name, location, users) in &secrets {
            table.row([
                (name.clone(), Tone::Strong),
                (location.to_string(), Tone::Plain),
                (users.join(", "), Tone::Faint),
            ]);
        }
        context.output.table(&table);
    }
    let described = secrets.iter().map(
        |(name, location, users)| json!({"name": name, "kept_in": location, "used_by": users}),
    );
    context
        .output
        .json(json!({"secrets": described.collect::<Vec<Value>>()}));
    Ok(())
}

fn remove(context: &Context, args: &SecretArgs) -> Result<(), Failure> {
    let name = &args.name;
    if !open_store(context)
        .remove(name)
        .map_err(|error| store_failure(&error))?
    {
        let message = format!("no secret is kept under `{name}`");
        return Err(
            Failure::new(FailureKind::NotFound, message).hint("`hermes secret list` lists them")
        );
    }
    let settings = Settings::load(&context.home).ok();
    for user in settings
        .iter()
        .flat_map(|settings| servers_using(settings, name))
    {
        context
            .output
            .warning(format!("server `{user}` still refers to it"));
    }
    context.output.note(format!("Removed `{name}`."));
    context.output.json(json!({"removed": name}));
    Ok(())
}

/// The servers whose entries refer to a secret.
fn servers_using(settings: &Settings, name: &str) -> Vec<String> {
    let reference = format!("${{keyring:{name}}}");
    let entries = settings.servers.iter();
    entries
        .filter(|entry| entry.template.to_string().contains(&reference))
        .map(|entry| entry.name.to_string())
        .collect()
}

fn store_failure(error: &SecretStoreError) -> Failure {
    let kind = match error {
        SecretStoreError::BadName { .. } | SecretStoreError::Empty => FailureKind::Usage,
        SecretStoreError::Missing { .. } => FailureKind::NotFound,
        _ => FailureKind::Failed,
    };
    Failure::new(kind, error.to_string())
}
