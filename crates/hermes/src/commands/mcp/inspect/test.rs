//! `hermes mcp test`: connects, lists, disconnects, and tells what was found.

use std::{collections::HashSet, time::Duration};

use futures::stream::{FuturesOrdered, StreamExt};
use hermes_config::{PinTools, Server, ServerName, Settings};
use hermes_mcp::{
    Host, ToolOrigin, control, control::ControlRequest, process::sandbox::AppliedSandbox,
    tools::catalog::Catalog,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    cli::TestArgs,
    commands::mcp::requests::{
        offer, probe,
        probe::{ListNeed, ProbeResult},
    },
    context::Context,
    failure::Failure,
    output::{Output, Table, Tone},
};

/// How long a running process may take to say that it tries a server again. It does so in any case.
const WAKE_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) fn run(context: &Context, args: &TestArgs) -> Result<(), Failure> {
    let mut settings = context.settings()?;
    let Some(name) = &args.name else {
        return test_all(context, &settings, args);
    };
    context.add_built_in(&mut settings);
    let name = probe::find_entry(&settings, name)?.name.clone();
    let mut results = Vec::new();
    let collect = |_: &ServerName, result| results.push(result);
    context.block_on(test_servers(
        context,
        &settings,
        &[name],
        args.timeout,
        collect,
    ))?;
    for result in results {
        context.output.json(result?);
    }
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
    let collect = |name: &ServerName, result: Result<Value, Failure>| match result {
        Ok(report) => reports.push(report),
        Err(failure) => {
            reports.push(json!({"server": name, "ok": false, "error": failure.message}));
            context.output.note(format!("{name}: {}", failure.message));
            failed.push(name.to_string());
        }
    };
    context.block_on(test_servers(
        context,
        settings,
        &names,
        args.timeout,
        collect,
    ))?;
    if !failed.is_empty() {
        return Err(Failure::failed(format!(
            "{} of {} servers failed: {}",
            failed.len(),
            names.len(),
            failed.join(", ")
        ))
        .finding("results", json!(reports)));
    }
    context.output.json(json!({"results": reports}));
    Ok(())
}

/// Tests servers, all at once. What came of each is told in order, as soon as nothing before it is missing.
async fn test_servers(
    context: &Context,
    settings: &Settings,
    names: &[ServerName],
    seconds: Option<f64>,
    mut tell: impl FnMut(&ServerName, Result<Value, Failure>),
) -> Result<(), Failure> {
    let mut limited = settings.clone();
    for name in names {
        limited = probe::with_connect_timeout(&limited, name, seconds)?;
    }
    let mut wakes = wake_servers(context, names);
    let all: Vec<&ServerName> = names.iter().collect();
    let looked_at = offer::without_pins(&limited);
    // Who gives a limit means it.
    let host = match seconds {
        None => probe::start_host(context, &looked_at, &all).await?,
        Some(_) => probe::start_host_within_timeouts(context, &looked_at, &all).await?,
    };
    let mut answers: FuturesOrdered<_> = names
        .iter()
        .map(|name| probe::wait_for_server(context, &host, name, ListNeed::Everything))
        .collect();
    for name in names {
        let Some(outcome) = answers.next().await else {
            break;
        };
        let entry = probe::find_entry(settings, name.as_str())?;
        let report = match outcome {
            Ok(answered) => {
                let pins = entry.server.as_ref().ok();
                let changes = pins.map(|server| compare_pins(context, server, &answered));
                Ok(report_server(
                    context,
                    &host,
                    name,
                    &answered,
                    changes.unwrap_or_default(),
                ))
            }
            Err(unanswered) => {
                // What stays as written usually explains why a server fails.
                probe::warn_of_unset_variables(context, entry, settings);
                Err(Failure::from(unanswered))
            }
        };
        tell(name, report);
    }
    drop(answers);
    host.shutdown().await;
    while wakes.join_next().await.is_some() {}
    Ok(())
}

/// Running processes that have given these servers up try again, too. They are asked about all at once: each answers when
/// it knows more.
fn wake_servers(context: &Context, names: &[ServerName]) -> JoinSet<()> {
    let mut wakes = JoinSet::new();
    for name in names {
        let home = context.home.clone();
        let wake = ControlRequest::Wake {
            server: name.clone(),
        };
        wakes.spawn_blocking(move || {
            control::query_processes(&home, &wake, WAKE_TIMEOUT);
        });
    }
    wakes
}

/// Tools that are not what they were when they were accepted.
#[derive(Default)]
struct PinChanges {
    warnings: Vec<String>,
    /// Those that are not offered for it.
    withheld: Vec<String>,
}

fn compare_pins(context: &Context, server: &Server, answered: &ProbeResult) -> PinChanges {
    let catalog = &answered.catalog;
    let names = |withheld: Vec<String>| match server.pin_tools {
        PinTools::Block => withheld,
        PinTools::Off | PinTools::Warn => Vec::new(),
    };
    if server.pin_tools == PinTools::Off {
        return PinChanges::default();
    }
    let name = &server.name;
    match offer::compare_pins(context, server, catalog) {
        Ok(comparison) => {
            let changed = comparison.changed.iter().map(|tool| tool.name.to_string());
            let changed: Vec<String> = changed.collect();
            let warning = |tool: &String| {
                format!(
                    "`{tool}` has changed since it was accepted; `hermes mcp tools {name} --diff` shows how"
                )
            };
            PinChanges {
                warnings: changed.iter().map(warning).collect(),
                withheld: names(changed),
            }
        }
        // Without pins nothing is known to be what was accepted.
        Err(failure) => PinChanges {
            warnings: vec![failure.message],
            withheld: names(
                catalog
                    .tools
                    .iter()
                    .map(|tool| tool.name.to_string())
                    .collect(),
            ),
        },
    }
}

fn report_server(
    context: &Context,
    host: &Host,
    name: &ServerName,
    answered: &ProbeResult,
    changes: PinChanges,
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
    warnings.extend(changes.warnings);

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
    let tools = show_tools(context, host, name, &answered.catalog, &changes.withheld);
    let catalog = &answered.catalog;
    let of_it = registry.tools().filter(|tool| tool.server == *name);
    let utilities: Vec<&str> = of_it
        .filter(|tool| matches!(tool.origin, ToolOrigin::Utility(_)))
        .map(|tool| tool.name.as_str())
        .collect();
    let left_out = tools
        .iter()
        .filter(|tool| tool["included"] == false)
        .count();
    output.line(format!(
        "\n{}{}, {} resources, {} prompts",
        offer::describe_tool_count(catalog.tools.len() - left_out, utilities.len()),
        match left_out {
            0 => String::new(),
            left_out => format!(" offered, {left_out} left out"),
        },
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
        "utilities": utilities,
        "resources": catalog.resources.len() + catalog.templates.len(),
        "prompts": catalog.prompts.len(),
        "warnings": warnings,
    });
    if let Some(sandbox) = sandbox {
        report["sandbox"] = json!(sandbox);
    }
    report
}

/// The server's own tools as a table, and as they are in `--json` output.
fn show_tools(
    context: &Context,
    host: &Host,
    name: &ServerName,
    catalog: &Catalog,
    withheld: &[String],
) -> Vec<Value> {
    let registry = host.registry();
    let mut table = Table::new(&["TOOL", "REGISTERED AS", "DESCRIPTION"]);
    let mut tools = Vec::new();
    let withheld: HashSet<&str> = withheld.iter().map(String::as_str).collect();
    for tool in &catalog.tools {
        let is_withheld = withheld.contains(tool.name.as_str());
        let registered = registry
            .find_original(name, tool.name.as_str())
            .filter(|_| !is_withheld);
        let description = tool.definition.description.as_deref().unwrap_or_default();
        let shown = match registered {
            Some(tool) => tool.name.as_str(),
            None if is_withheld => "(withheld: it has changed)",
            None => "(filtered out)",
        };
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
    context.output.table(&table);
    tools
}

/// What keeps the server in, and what it may reach.
fn show_sandbox(output: Output, sandbox: &AppliedSandbox) {
    output.line(format!("sandbox: {sandbox}"));
    if let Some(note) = sandbox.open_sockets_note() {
        output.line(format!("  {note}"));
    }
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
