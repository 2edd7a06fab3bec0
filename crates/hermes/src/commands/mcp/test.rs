//! `hermes mcp test`: connects, lists, disconnects, and tells what was found.

use std::time::Duration;

use hermes_config::{PinTools, Server, ServerName, Settings};
use hermes_mcp::{
    Host,
    control::{self, Question},
    sandbox::Confined,
};
use serde_json::{Value, json};

use super::{
    offer,
    probe::{self, Answered, Need},
};
use crate::{
    cli::TestArgs,
    context::Context,
    failure::Failure,
    output::{Output, Table, Tone},
};

pub(super) fn run(context: &Context, args: &TestArgs) -> Result<(), Failure> {
    let settings = context.settings()?;
    let Some(name) = &args.name else {
        return test_all(context, &settings, args);
    };
    let name = probe::entry(&settings, name)?.name.clone();
    let report = context.block_on(test(context, &settings, &name, args.timeout))?;
    context.output.json(report);
    Ok(())
}

fn test_all(context: &Context, settings: &Settings, args: &TestArgs) -> Result<(), Failure> {
    let names: Vec<ServerName> = settings
        .servers
        .iter()
        .filter(|entry| entry.server.as_ref().map_or(true, |server| server.enabled))
        .map(|entry| entry.name.clone())
        .collect();
    let mut reports = Vec::new();
    let mut failed = Vec::new();
    for name in &names {
        match context.block_on(test(context, settings, name, args.timeout)) {
            Ok(report) => reports.push(report),
            Err(failure) if failure.exit_code() == 130 => return Err(failure),
            Err(failure) => {
                reports.push(json!({"server": name, "ok": false, "error": failure.message}));
                context.output.note(format!("{name}: {}", failure.message));
                failed.push(name.to_string());
            }
        }
    }
    if !failed.is_empty() {
        return Err(Failure::failed(format!(
            "{} of {} servers failed: {}",
            failed.len(),
            names.len(),
            failed.join(", ")
        )));
    }
    context.output.json(json!({"results": reports}));
    Ok(())
}

async fn test(
    context: &Context,
    settings: &Settings,
    name: &ServerName,
    seconds: Option<f64>,
) -> Result<Value, Failure> {
    // A running process that has given this server up tries again, too.
    control::ask(
        &context.home,
        &Question::Wake {
            server: name.clone(),
        },
        Duration::from_millis(500),
    );
    let settings = probe::with_limit(settings, name, seconds)?;
    let host = probe::host(context, &offer::without_pins(&settings), &[name]).await?;
    let outcome = probe::answer(context, &host, name, Need::Everything).await;
    let pins = probe::entry(&settings, name.as_str())?.server.as_ref().ok();
    let report = outcome.map(|answered| {
        let changed = pins.map_or_else(Vec::new, |server| changed(context, server, &answered));
        report(context, &host, name, &answered, changed)
    });
    host.shutdown().await;
    report
}

/// Warnings about tools that are not what they were when they were accepted.
fn changed(context: &Context, server: &Server, answered: &Answered) -> Vec<String> {
    if server.pin_tools == PinTools::Off {
        return Vec::new();
    }
    let name = &server.name;
    match offer::compare(context, server, &answered.catalog) {
        Ok(comparison) => comparison
            .changed
            .iter()
            .map(|tool| {
                format!(
                    "`{}` has changed since it was accepted; `hermes mcp tools {name} --diff` shows how",
                    tool.name
                )
            })
            .collect(),
        Err(failure) => vec![failure.message],
    }
}

fn report(
    context: &Context,
    host: &Host,
    name: &ServerName,
    answered: &Answered,
    changed: Vec<String>,
) -> Value {
    let registry = host.registry();
    let status = host
        .status()
        .into_iter()
        .find(|status| status.name == name.as_str());
    let info = &answered.session.info;
    let elapsed = answered.elapsed.as_millis();
    let era = answered.session.era.as_str();
    let transport = status
        .as_ref()
        .map_or(String::new(), |status| status.transport.clone());
    let (mut warnings, sandbox) = status
        .map(|status| (status.warnings, status.sandbox))
        .unwrap_or_default();
    warnings.extend(changed);

    let output = context.output;
    let title = info.server_info.as_ref().map_or_else(String::new, |info| {
        format!(", {} {}", info.name, info.version)
    });
    output.line(format!(
        "{} {name}: {transport}, {era} era, protocol {}{title}, {elapsed} ms",
        output.tint(Tone::Good, "ready"),
        info.protocol_version,
    ));
    if let Some(sandbox) = &sandbox {
        show_sandbox(output, sandbox);
    }
    if let Some(instructions) = &info.instructions {
        output.line(format!("\nInstructions: {}\n", instructions.trim()));
    }
    let mut table = Table::new(&["TOOL", "REGISTERED AS", "DESCRIPTION"]);
    let mut tools = Vec::new();
    for tool in &answered.catalog.tools {
        let registered = registry.find_original(name, tool.name.as_str());
        let description = tool.definition.description.as_deref().unwrap_or_default();
        let shown = registered.map_or("(filtered out)", |tool| tool.name.as_str());
        table.row([
            (tool.name.to_string(), Tone::Strong),
            (
                shown.to_owned(),
                if registered.is_some() {
                    Tone::Plain
                } else {
                    Tone::Faint
                },
            ),
            (description.trim().to_owned(), Tone::Faint),
        ]);
        tools.push(json!({
            "name": tool.name,
            "registered_name": registered.map(|tool| &tool.name),
            "description": description,
            "included": registered.is_some(),
        }));
    }
    output.table(&table);
    let catalog = &answered.catalog;
    output.line(format!(
        "\n{} tools, {} resources, {} prompts",
        catalog.tools.len(),
        catalog.resources.len() + catalog.templates.len(),
        catalog.prompts.len()
    ));
    for warning in &warnings {
        output.warning(warning);
    }
    let capabilities = serde_json::to_value(&info.capabilities).unwrap_or_default();
    let capabilities: Vec<&String> = capabilities
        .as_object()
        .map(|map| map.keys().collect())
        .unwrap_or_default();
    let mut report = json!({
        "server": name,
        "transport": transport,
        "era": era,
        "protocol_version": info.protocol_version,
        "server_info": info.server_info,
        "capabilities": capabilities,
        "instructions": info.instructions,
        "elapsed_ms": elapsed,
        "tools": tools,
        "resources": catalog.resources.len() + catalog.templates.len(),
        "prompts": catalog.prompts.len(),
        "warnings": warnings,
    });
    if let Some(sandbox) = sandbox {
        report["sandbox"] = json!(sandbox);
    }
    report
}

/// What keeps the server in, and what it may reach.
fn show_sandbox(output: Output, sandbox: &Confined) {
    output.line(format!("sandbox: {sandbox}"));
    if sandbox.plan.support.landlock.is_none() {
        return;
    }
    for (verb, paths) in [
        ("reads ", &sandbox.plan.read),
        ("writes", &sandbox.plan.write),
    ] {
        for path in paths {
            output.line(format!("  {verb} {}", path.display()));
        }
    }
}
