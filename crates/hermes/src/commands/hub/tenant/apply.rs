//! `hermes tenant apply`: makes tenants what documents say.

mod document;

use std::path::Path;

use serde_json::{Map, Value};

use self::document::{TenantDocument, read_documents};
use super::tenant_call;
use crate::{
    cli::TenantApplyArgs,
    commands::hub::client::{HubClient, call::read_text, plain_text},
    failure::Failure,
    output::printable,
};

pub(super) fn run(hub: &HubClient<'_>, args: &TenantApplyArgs) -> Result<(), Failure> {
    let text = read_text(&args.file)?;
    let base = match args.file.parent() {
        Some(parent) if args.file.as_os_str() != "-" => parent,
        _ => Path::new("."),
    };
    // All of them are read before the first is sent.
    let file = args.file.display().to_string();
    let documents = read_documents(&file, &text, base)?;
    let is_dry = args.dry_run || args.diff;
    let call = |document: &TenantDocument<'_>, is_dry: bool| {
        tenant_call("put_manifest", &document.tenant)
            .with("manifest", Value::Object(document.manifest.clone()))
            .with_flag("dry_run", is_dry)
    };
    if documents.len() > 1 && !is_dry {
        // A mistake in the last one keeps the first one from being made, too.
        for (index, document) in documents.iter().enumerate() {
            // What an earlier one of the same tenant makes is not there yet.
            let is_same = |other: &TenantDocument<'_>| other.tenant == document.tenant;
            if documents[..index].iter().any(is_same) {
                continue;
            }
            let checked = hub.call_quietly(&call(document, true));
            checked.map_err(|failure| document.add_place(failure))?;
        }
    }
    for document in documents {
        let answer = hub.call(&call(&document, is_dry));
        let answer = answer.map_err(|failure| document.add_place(failure))?;
        if !hub.output().is_json() {
            show_report(hub, &document.tenant, &answer.value, args.diff);
        }
    }
    Ok(())
}

/// Prints the present document of a tenant.
pub(super) fn show_manifest(hub: &HubClient<'_>, tenant: &str) -> Result<(), Failure> {
    let answer = hub.call(&tenant_call("get_manifest", tenant))?;
    if !hub.output().is_json() {
        let text = serde_json::to_string_pretty(&answer.value)
            .map_err(|error| Failure::failed(error.to_string()))?;
        hub.output().raw(&format!("{text}\n"));
    }
    Ok(())
}

fn show_report(hub: &HubClient<'_>, tenant: &str, report: &Value, with_values: bool) {
    let output = hub.output();
    let mut unchanged = 0;
    let mut changed = 0;
    for part in report["parts"].as_array().into_iter().flatten() {
        let sign = match part["outcome"].as_str() {
            Some("created") => '+',
            Some("changed") => '~',
            Some("removed") => '-',
            _ => {
                unchanged += 1;
                continue;
            }
        };
        changed += 1;
        output.line(format!("{sign} {tenant}: {}", plain_text(&part["part"])));
        if with_values {
            for (sign, member) in [('-', "before"), ('+', "after")] {
                for line in value_lines(&part[member]) {
                    output.line(format!("    {sign} {}", printable(&line)));
                }
            }
        }
    }
    let done = if report["dryRun"] == true {
        "would change"
    } else {
        "changed"
    };
    output.note(format!(
        "`{tenant}`: {changed} {done}, {unchanged} unchanged."
    ));
}

fn value_lines(value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::String(text) => text.lines().map(str::to_owned).collect(),
        Value::Object(members) => member_lines(members),
        other => vec![other.to_string()],
    }
}

fn member_lines(members: &Map<String, Value>) -> Vec<String> {
    let lines = members.iter();
    lines
        .map(|(name, value)| format!("{name}: {value}"))
        .collect()
}
