//! `hermes mcp get`: one entry as it is in effect. Opens no connection.

use hermes_config::{Redactor, ServerEntry, mask, server::Auth};
use serde_json::{Map, Value, json};

use super::list;
use crate::{
    cli::NameArgs, commands::mcp::requests::probe, context::Context, failure::Failure, output::Tone,
};

pub(crate) fn run(context: &Context, args: &NameArgs) -> Result<(), Failure> {
    let mut settings = context.settings()?;
    context.add_built_in(&mut settings);
    let entry = probe::find_entry(&settings, &args.name)?;
    let written = redact_template(&entry.template);
    let state = list::server_state(context, &settings, entry);
    let warnings = probe::unset_variables(context, entry, &settings);
    let output = context.output;
    output.line(format!(
        "{}: {}",
        output.tint(Tone::Strong, entry.name.as_str()),
        output.tint(list::tone(state.status), state.as_str())
    ));
    let lines = flatten_lines(&written);
    let effect = effective_defaults(entry);
    for (key, value) in lines.iter().chain(&effect) {
        output.line(format!("  {key:<24} {value}"));
    }
    if let Some(error) = &state.error {
        output.line(format!("  {:<24} {error}", "error"));
    }
    for warning in &warnings {
        output.warning(warning);
    }
    let effect: Map<String, Value> = effect
        .into_iter()
        .map(|(key, value)| (key, value.into()))
        .collect();
    output.json(json!({
        "server": entry.name,
        "entry": written,
        "effect": effect,
        "status": state.as_str(),
        "error": state.error,
        "warnings": warnings,
    }));
    Ok(())
}

/// The entry with its references, and without what may still be a secret.
fn redact_template(template: &Value) -> Value {
    match template {
        Value::String(text) => Redactor::default().redact(text).into(),
        Value::Array(items) => items.iter().map(redact_template).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| {
                let secret = value
                    .as_str()
                    .filter(|text| names_a_secret(key) && !text.contains("${"));
                (
                    key.clone(),
                    secret.map_or_else(|| redact_template(value), |text| mask(text).into()),
                )
            })
            .collect::<Map<String, Value>>()
            .into(),
        other => other.clone(),
    }
}

/// Whether a header or variable of that name usually holds a secret.
fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASS", "AUTHORIZATION", "COOKIE"]
        .iter()
        .any(|word| name.contains(word))
}

/// One line for each value, with dotted keys.
fn flatten_lines(value: &Value) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    add_lines("", value, &mut lines);
    lines
}

fn add_lines(key: &str, value: &Value, lines: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, value) in members {
                let key = if key.is_empty() {
                    name.clone()
                } else {
                    format!("{key}.{name}")
                };
                add_lines(&key, value, lines);
            }
        }
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let words: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            lines.push((key.to_owned(), words.join(" ")));
        }
        Value::String(text) => lines.push((key.to_owned(), text.clone())),
        other => lines.push((key.to_owned(), other.to_string())),
    }
}

/// What counts although the entry does not say it.
fn effective_defaults(entry: &ServerEntry) -> Vec<(String, String)> {
    let Ok(server) = &entry.server else {
        return Vec::new();
    };
    let seconds = |limit: std::time::Duration| format!("{} s (default)", limit.as_secs_f64());
    let mut effect = vec![("transport", server.transport.kind().to_owned())];
    effect.push(("timeout", seconds(server.timeout)));
    effect.push(("connect_timeout", seconds(server.connect_timeout)));
    effect.push((
        "auth",
        match &server.auth {
            Some(Auth::OAuth) => "oauth".to_owned(),
            None => "none (default)".to_owned(),
        },
    ));
    effect
        .into_iter()
        .filter(|(key, _)| entry.template.get(key).is_none())
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}
