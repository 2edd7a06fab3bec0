//! `hermes config …`: reading and changing `config.yaml` and `.env`, with everything else in them as it was.

use std::io::Read;

use hermes_config::{
    ConfigFile, ConfigFileError, Secret, Settings, Variables, mask, nearest, remove_variable,
    write_variable,
};
use serde_json::{Value, json};

use super::{mcp, up};
use crate::{
    cli::{ConfigCommand, ConfigSetArgs},
    context::Context,
    failure::{Failure, FailureKind},
};

mod edit;
mod flat;

use flat::{format_value, is_secret, mask_secrets};

/// More than a key or a list has.
const MAX_STDIN_BYTES: u64 = 64 * 1024;

pub(super) fn run(context: &Context, command: Option<ConfigCommand>) -> Result<(), Failure> {
    match command.unwrap_or(ConfigCommand::Show) {
        ConfigCommand::Show => show(context),
        ConfigCommand::Get { key } => get(context, &key),
        ConfigCommand::Set(args) => set(context, &args),
        ConfigCommand::Unset { key } => unset(context, &key),
        ConfigCommand::Edit => edit::run(context),
        ConfigCommand::Check => check(context),
        ConfigCommand::Path => {
            print_path(context, &context.home.config_file());
            Ok(())
        }
        ConfigCommand::EnvPath => {
            print_path(context, &context.home.env_file());
            Ok(())
        }
    }
}

fn print_path(context: &Context, path: &std::path::Path) {
    let path = path.to_string_lossy();
    context.output.line(&path);
    context.output.json(json!({"path": path}));
}

fn show(context: &Context) -> Result<(), Failure> {
    let file = ConfigFile::open(&context.home)?;
    let document = file.get(&[]).cloned().unwrap_or_default();
    let output = context.output;
    let path = context.home.config_file();
    if path.exists() {
        output.line(format!("# {}", path.display()));
    } else {
        output.line(format!(
            "# {} does not exist: the defaults apply",
            path.display()
        ));
    }
    for (key, value) in flat::flatten(&document) {
        output.line(format!("{key} = {}", format_value(&key, &value)));
    }
    let variables = variables_of_file(context);
    if !variables.is_empty() {
        output.line(format!("\n# {}", context.home.env_file().display()));
        for (name, value) in &variables {
            output.line(format!("{name} = {value}"));
        }
    }
    let variables: serde_json::Map<String, Value> = variables
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect();
    output.json(json!({
        "path": path.to_string_lossy(),
        "env_path": context.home.env_file().to_string_lossy(),
        "config": mask_secrets("", &document),
        "env": variables,
    }));
    Ok(())
}

/// The names in `.env`, each with its value masked.
fn variables_of_file(context: &Context) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(context.home.env_file()).unwrap_or_default();
    let variables = Variables::from_pairs_and_text([], &text);
    let names = text.lines().filter_map(|line| {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, _) = line.split_once('=')?;
        let name = name.trim();
        is_variable(name).then(|| name.to_owned())
    });
    let mut known: Vec<(String, String)> = Vec::new();
    for name in names {
        if let Some(value) = variables.get(&name)
            && !known.iter().any(|(known, _)| *known == name)
        {
            known.push((name, mask(value)));
        }
    }
    known
}

fn get(context: &Context, key: &str) -> Result<(), Failure> {
    let output = context.output;
    if is_variable(key) {
        let (variables, _) = Variables::load(&context.home, None);
        let Some(value) = variables.get(key) else {
            return Err(not_set_failure(key, None));
        };
        output.line(mask(value));
        output.json(json!({"key": key, "value": mask(value)}));
        return Ok(());
    }
    let file = ConfigFile::open(&context.home)?;
    let Some(value) = file.get(&parse_key(key)?) else {
        let leaves = flat::flatten(&file.get(&[]).cloned().unwrap_or_default());
        let known = leaves.into_iter().map(|(known, _)| known);
        return Err(not_set_failure(key, nearest(key, known)));
    };
    let value = mask_secrets(key, value);
    match &value {
        Value::String(text) => output.line(text),
        Value::Object(_) | Value::Array(_) => {
            for (leaf, value) in flat::flatten(&value) {
                output.line(format!("{key}.{leaf} = {}", format_value(&leaf, &value)));
            }
        }
        other => output.line(other.to_string()),
    }
    output.json(json!({"key": key, "value": value}));
    Ok(())
}

fn not_set_failure(key: &str, near: Option<String>) -> Failure {
    let failure = Failure::new(FailureKind::NotFound, format!("`{key}` is not set"));
    match near {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None => failure.hint(
            "`hermes config show` lists what is set, docs/reference/configuration.md every key with its default",
        ),
    }
}

fn set(context: &Context, args: &ConfigSetArgs) -> Result<(), Failure> {
    let key = args.key.trim();
    let text = if args.value == "-" {
        read_stdin()?
    } else {
        Secret::new(args.value.clone())
    };
    let output = context.output;
    if is_variable(key) {
        context.home.create()?;
        write_variable(&context.home, key, text.expose())?;
        let value = mask(text.expose());
        output.note(format!(
            "`{key}` ({value}) is kept in {}",
            context.home.env_file().display()
        ));
        mcp::reload_running(context);
        output.json(json!({"key": key, "value": value, "file": ".env"}));
        return Ok(());
    }
    let path = parse_key(key)?;
    up::write_first_config(context)?;
    let mut file = ConfigFile::open(&context.home)?;
    let before = load_warnings(&file);
    let value = parse_value(text.expose());
    file.set(&path, value.clone());
    file.save().map_err(edit_failure)?;
    output.note(format!(
        "{key} = {} ({})",
        format_value(key, &value),
        context.home.config_file().display()
    ));
    if !args.force {
        for warning in load_warnings(&file) {
            if !before.contains(&warning) {
                output.warning(warning);
            }
        }
    }
    if is_secret(key) && value.as_str().is_some_and(|text| !text.contains("${")) {
        output.warning(format!(
            "`{key}` is now in config.yaml as plain text; `hermes secret set NAME` stores it separately, and \
             `${{keyring:NAME}}` or a variable of .env refers to it"
        ));
    }
    mcp::reload_running(context);
    output.json(json!({"key": key, "value": mask_secrets(key, &value), "file": "config.yaml"}));
    Ok(())
}

fn unset(context: &Context, key: &str) -> Result<(), Failure> {
    let output = context.output;
    let removed = if is_variable(key) {
        let is_there = variables_of_file(context)
            .iter()
            .any(|(name, _)| name == key);
        if is_there {
            remove_variable(&context.home, key)?;
        }
        is_there
    } else {
        let mut file = ConfigFile::open(&context.home)?;
        let removed = file.unset(&parse_key(key)?);
        file.save().map_err(edit_failure)?;
        removed
    };
    if !removed {
        return Err(not_set_failure(key, None));
    }
    output.note(format!("`{key}` is no longer set"));
    mcp::reload_running(context);
    output.json(json!({"key": key, "removed": true}));
    Ok(())
}

fn check(context: &Context) -> Result<(), Failure> {
    let settings = Settings::load(&context.home)?;
    let output = context.output;
    let warnings: Vec<String> = settings.warnings.iter().map(ToString::to_string).collect();
    for warning in &warnings {
        output.warning(warning);
    }
    let path = context.home.config_file();
    output.line(match warnings.len() {
        _ if !path.exists() => format!("{} does not exist: the defaults apply", path.display()),
        0 => format!("{} can be used", path.display()),
        _ => format!("{} can be used, with the warnings above", path.display()),
    });
    output.json(json!({"path": path.to_string_lossy(), "warnings": warnings}));
    Ok(())
}

/// What loading the text would warn of.
fn load_warnings(file: &ConfigFile) -> Vec<String> {
    let settings = Settings::parse(&file.text(), Variables::default());
    settings.map_or_else(
        |_| Vec::new(),
        |settings| settings.warnings.iter().map(ToString::to_string).collect(),
    )
}

fn edit_failure(error: ConfigFileError) -> Failure {
    Failure::from(error).hint("nothing was changed; `hermes config edit` opens the file")
}

/// A key as the path that leads to it.
fn parse_key(key: &str) -> Result<Vec<&str>, Failure> {
    let parts: Vec<&str> = key.split('.').collect();
    if parts.iter().any(|part| part.trim().is_empty()) {
        return Err(Failure::usage(format!("`{key}` is not a key"))
            .hint("keys are names with dots between them, such as `agent.max_turns`"));
    }
    Ok(parts)
}

/// Whether a name is that of a variable: in capital letters.
fn is_variable(key: &str) -> bool {
    key.starts_with(|first: char| first.is_ascii_uppercase())
        && key
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// A number, a flag, a list or a mapping where YAML has one; text otherwise.
fn parse_value(text: &str) -> Value {
    let trimmed = text.trim();
    if matches!(trimmed, "null" | "~") {
        return Value::Null;
    }
    match hermes_config::read_yaml(text) {
        // What says nothing, such as an empty text, is read as an empty mapping.
        Ok(Value::Object(members)) if members.is_empty() && trimmed != "{}" => text.into(),
        Ok(Value::Null) | Err(_) => text.into(),
        Ok(value) => value,
    }
}

fn read_stdin() -> Result<Secret<String>, Failure> {
    let mut text = String::new();
    std::io::stdin()
        .take(MAX_STDIN_BYTES)
        .read_to_string(&mut text)?;
    Ok(Secret::new(text.trim_end_matches(['\n', '\r']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_yaml_makes_of_them() {
        for (text, expected) in [
            ("40", json!(40)),
            ("true", json!(true)),
            ("[a, b]", json!(["a", "b"])),
            ("gpt-5", json!("gpt-5")),
            (
                "openai/gpt-5: the best",
                json!({"openai/gpt-5": "the best"}),
            ),
            ("", json!("")),
            ("null", Value::Null),
            ("{}", json!({})),
            ("# no comment", json!("# no comment")),
            ("${KEY}", json!("${KEY}")),
            ("[broken", json!("[broken")),
        ] {
            assert_eq!(parse_value(text), expected, "{text}");
        }
    }

    #[test]
    fn names_in_capital_letters_are_variables() {
        assert!(is_variable("OPENAI_API_KEY") && is_variable("HF_TOKEN"));
        assert!(!is_variable("model") && !is_variable("Model") && !is_variable("_X"));
    }
}
