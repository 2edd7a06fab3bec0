//! `hermes mcp status` and `hermes mcp` alone: the states of the servers, live where a process runs them.

use std::time::Duration;

use clap::Subcommand;
use hermes_config::{ServerName, Settings};
use hermes_mcp::{
    LinkStatus, ServerStatus, control,
    control::{ControlRequest, ControlResponse},
    tools::toolset,
};
use serde_json::json;

use super::list::tone;
use crate::{
    cli::{McpCommand, StatusArgs},
    commands::{mcp::inspect::cached_servers::CachedServers, state},
    context::Context,
    failure::Failure,
    output::{Table, Tone},
};

/// Timeout for a running process to answer.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// The servers' states, and the processes that reported them.
struct StatusReport {
    servers: Vec<ServerStatus>,
    /// The running processes that were asked.
    processes: Vec<u32>,
}

pub(crate) fn run(context: &Context, args: &StatusArgs) -> Result<(), Failure> {
    let mut known = query_status(context)?;
    if let Some(name) = &args.name {
        let names: Vec<String> = known.servers.iter().map(|s| s.name.clone()).collect();
        known.servers.retain(|server| server.name == *name);
        let Some(server) = known.servers.first() else {
            return Err(Failure::no_such_server(name, names));
        };
        print_details(context, server);
    } else {
        print_table(context, &known);
    }
    context
        .output
        .json(json!({"processes": known.processes, "servers": known.servers}));
    Ok(())
}

/// `hermes mcp` alone: the states, then the verbs.
pub(crate) fn overview(context: &Context) -> Result<(), Failure> {
    let known = query_status(context)?;
    print_table(context, &known);
    context
        .output
        .json(json!({"processes": known.processes, "servers": known.servers}));
    let output = context.output;
    output.line(output.tint(Tone::Faint, "\nhermes mcp …"));
    let command = McpCommand::augment_subcommands(clap::Command::new("mcp"));
    for verb in command.get_subcommands() {
        let about = verb
            .get_about()
            .map(ToString::to_string)
            .unwrap_or_default();
        output.line(format!("  {:<10} {about}", verb.get_name()));
    }
    Ok(())
}

/// How many servers the running processes of this home have ready; none if there is no such process.
pub(in crate::commands) fn count_ready_servers(context: &Context) -> Option<usize> {
    let replies = control::query_processes(&context.home, &ControlRequest::Status, STATUS_TIMEOUT);
    let statuses = replies
        .into_iter()
        .filter_map(|reply| match reply.response {
            ControlResponse::Status { servers } => Some(servers),
            _ => None,
        });
    let ready = |servers: Vec<ServerStatus>| {
        let ready = servers
            .iter()
            .filter(|server| server.status == LinkStatus::Ready);
        ready.count()
    };
    statuses.map(ready).max()
}

fn query_status(context: &Context) -> Result<StatusReport, Failure> {
    let mut processes = Vec::new();
    let mut servers: Vec<ServerStatus> = Vec::new();
    for reply in control::query_processes(&context.home, &ControlRequest::Status, STATUS_TIMEOUT) {
        if let ControlResponse::Status { servers: reported } = reply.response {
            processes.push(reply.pid);
            for server in reported {
                // With several processes the first one counts.
                if !servers.iter().any(|known| known.name == server.name) {
                    servers.push(server);
                }
            }
        }
    }
    let settings = match Settings::load(&context.home) {
        Ok(settings) => settings,
        // A running process keeps its last good configuration.
        Err(error) if !processes.is_empty() => {
            context.output.warning(error.to_string());
            return Ok(StatusReport { servers, processes });
        }
        Err(error) => return Err(error.into()),
    };
    let remembered = CachedServers::new(&context.home, &settings).status();
    let unknown = remembered
        .into_iter()
        .filter(|server| !servers.iter().any(|known| known.name == server.name));
    servers.extend(unknown.collect::<Vec<_>>());
    Ok(StatusReport { servers, processes })
}

fn print_table(context: &Context, known: &StatusReport) {
    let output = context.output;
    if known.servers.is_empty() {
        output.note("No MCP server is configured; `hermes mcp add` adds one.");
        return;
    }
    if known.processes.is_empty() {
        output.note("No hermes process runs: this is what configuration and cache know.");
    }
    let mut table = Table::new(&[
        "NAME",
        "TRANSPORT",
        "STATUS",
        "TOOLS",
        "ERA",
        "SINCE",
        "NOTE",
    ]);
    let now = state::unix_now();
    for server in &known.servers {
        table.row([
            (server.name.clone(), Tone::Strong),
            (server.transport.clone(), Tone::Plain),
            (server.status.to_string(), tone(Some(server.status))),
            (server.tools.to_string(), Tone::Plain),
            (
                server.era.map_or("", |era| era.as_str()).to_owned(),
                Tone::Plain,
            ),
            (since(server, now).unwrap_or_default(), Tone::Plain),
            (state::status_note(server, now), Tone::Plain),
        ]);
    }
    output.table(&table);
    for line in state::sampling_lines(&known.servers) {
        output.line(line);
    }
    for server in &known.servers {
        for warning in &server.warnings {
            output.warning(format!("server `{}`, {warning}", server.name));
        }
    }
}

fn since(server: &ServerStatus, now: u64) -> Option<String> {
    (server.since > 0).then(|| state::format_span(now.saturating_sub(server.since)))
}

/// Everything about one server, a line each.
fn print_details(context: &Context, server: &ServerStatus) {
    let output = context.output;
    let now = state::unix_now();
    let text = |value: &dyn std::fmt::Display| Some(value.to_string());
    let calls = server.calls;
    let facts = [
        ("transport", text(&server.transport)),
        (
            "since",
            since(server, now).map(|span| format!("{span} ago")),
        ),
        ("tools", text(&server.tools)),
        (
            "toolset",
            (server.tools > 0).then(|| toolset::toolset_name(&ServerName::new(&server.name))),
        ),
        ("era", server.era.map(|era| era.as_str().to_owned())),
        ("protocol", server.protocol_version.clone()),
        (
            "server",
            server
                .server_info
                .as_ref()
                .map(|info| format!("{} {}", info.name, info.version)),
        ),
        ("pid", server.pid.map(|pid| pid.to_string())),
        (
            "calls",
            (calls.total > 0).then(|| {
                format!(
                    "{}, of these {} errors, {} timeouts, {} cancelled",
                    calls.total, calls.errors, calls.timeouts, calls.cancelled
                )
            }),
        ),
        ("sampling", state::sampling_summary(server)),
        (
            "in flight",
            (server.in_flight > 0).then(|| server.in_flight.to_string()),
        ),
        (
            "restarts",
            (server.restarts > 0).then(|| server.restarts.to_string()),
        ),
        (
            "next attempt",
            server
                .next_attempt_at
                .map(|at| format!("in {} s", at.saturating_sub(now))),
        ),
        ("error", server.error.clone()),
    ];
    let word = output.tint(tone(Some(server.status)), server.status.as_str());
    output.line(format!(
        "{}: {word}",
        output.tint(Tone::Strong, &server.name)
    ));
    for (name, value) in facts {
        if let Some(value) = value {
            output.line(format!(
                "  {name:<12} {}",
                value.replace('\n', "\n               ")
            ));
        }
    }
    for warning in &server.warnings {
        output.warning(warning);
    }
}
