//! `hermes mcp list`: what is configured. Opens no connection and needs no runtime.

use std::{collections::HashMap, mem::ManuallyDrop, time::Duration};

use hermes_config::{Server, ServerEntry, Settings, TransportSettings};
use hermes_mcp::{
    LinkStatus, control,
    control::{ControlRequest, ControlResponse},
};
use serde_json::{Value, json};

use crate::{
    commands::mcp::{login, requests::probe},
    context::Context,
    failure::Failure,
    output::{Table, Tone},
};

/// Timeout for a running process to answer.
const STATUS_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) fn run(context: &Context) -> Result<(), Failure> {
    // The process ends when the list is out: what it read goes with it.
    let settings = ManuallyDrop::new(context.settings()?);
    let live = live_states(context);
    let mut table = Table::new(&["NAME", "TRANSPORT", "TARGET", "TOOLS", "STATUS"]);
    let mut servers = Vec::new();
    let mut logins = Vec::new();
    let mut odd = Vec::new();
    for entry in &settings.servers {
        let known = live.get(entry.name.as_str()).cloned();
        let known = known.unwrap_or_else(|| configured_state(context, &settings, entry));
        let (state, status) = (known.status, known.as_str());
        let error = known.error;
        let warnings = probe::unset_variables(context, entry, &settings);
        odd.extend(
            warnings
                .iter()
                .map(|text| format!("server `{}`, {text}", entry.name)),
        );
        let (transport, target, tools, is_enabled) = match &entry.server {
            Ok(server) => (
                server.transport.kind(),
                describe_target(server),
                describe_filter(server),
                server.enabled,
            ),
            Err(problem) => ("-", problem.to_string(), "-".to_owned(), true),
        };
        table.row([
            (entry.name.to_string(), Tone::Strong),
            (transport.to_owned(), Tone::Plain),
            (target.clone(), Tone::Plain),
            (tools.clone(), Tone::Plain),
            (status.to_owned(), tone(state)),
        ]);
        let mut server = json!({
            "name": entry.name,
            "transport": transport,
            "target": target,
            "enabled": is_enabled,
            "tools": tools,
            "status": status,
            "warnings": warnings,
        });
        if let Some(error) = error {
            server["error"] = json!(error);
            if state == Some(LinkStatus::NeedsAuth) {
                logins.push(format!("`{}`: {error}", entry.name));
            }
        }
        servers.push(server);
    }
    if servers.is_empty() {
        context.output.note("No MCP server is configured.\n\nAdd one, for example:\n  hermes mcp add time -- uvx mcp-server-time");
    } else {
        context.output.table(&table);
    }
    for warning in logins.into_iter().chain(odd) {
        context.output.warning(warning);
    }
    context
        .output
        .json(json!({"servers": Value::Array(servers)}));
    Ok(())
}

/// How a server is, and why.
#[derive(Clone, Default)]
pub(crate) struct ListedState {
    /// None of one that no process runs, and that is to be connected and may be.
    pub(crate) status: Option<LinkStatus>,
    pub(crate) error: Option<String>,
}

impl ListedState {
    pub(crate) fn as_str(&self) -> &'static str {
        self.status.map_or("enabled", LinkStatus::as_str)
    }
}

/// How one server is: in a running process, or by what the files tell.
pub(crate) fn server_state(
    context: &Context,
    settings: &Settings,
    entry: &ServerEntry,
) -> ListedState {
    let mut live = live_states(context);
    let live = live.remove(entry.name.as_str());
    live.unwrap_or_else(|| configured_state(context, settings, entry))
}

/// The states in running processes of this home; with several processes the first one counts.
fn live_states(context: &Context) -> HashMap<String, ListedState> {
    let mut states = HashMap::new();
    for reply in control::query_processes(&context.home, &ControlRequest::Status, STATUS_TIMEOUT) {
        if let ControlResponse::Status { servers } = reply.response {
            for server in servers {
                let state = ListedState {
                    status: Some(server.status),
                    error: server.error,
                };
                states.entry(server.name).or_insert(state);
            }
        }
    }
    states
}

/// What the files tell of a server that no process runs.
fn configured_state(context: &Context, settings: &Settings, entry: &ServerEntry) -> ListedState {
    let (status, error) = match &entry.server {
        Ok(server) if server.enabled => match login::missing_login(&context.home, settings, server)
        {
            Some(missing) => (LinkStatus::NeedsAuth, Some(missing)),
            None => return ListedState::default(),
        },
        Ok(_) => (LinkStatus::Disabled, None),
        Err(problem) => (LinkStatus::Invalid, Some(problem.to_string())),
    };
    ListedState {
        status: Some(status),
        error,
    }
}

pub(in crate::commands) fn tone(state: Option<LinkStatus>) -> Tone {
    match state {
        Some(LinkStatus::Ready | LinkStatus::Lazy) => Tone::Good,
        Some(LinkStatus::Reconnecting | LinkStatus::Connecting) => Tone::Warning,
        Some(LinkStatus::Parked | LinkStatus::NeedsAuth | LinkStatus::Invalid) => Tone::Bad,
        Some(LinkStatus::Disabled | LinkStatus::Stopped) => Tone::Faint,
        None => Tone::Plain,
    }
}

/// The command line or the address, without what may be a secret.
pub(crate) fn describe_target(server: &Server) -> String {
    let text = match &server.transport {
        TransportSettings::Stdio(stdio) => std::iter::once(&stdio.command)
            .chain(&stdio.args)
            .cloned()
            .collect::<Vec<_>>()
            .join(" "),
        TransportSettings::Http(http) | TransportSettings::Sse(http) => http.url.clone(),
    };
    hermes_config::Redactor::default()
        .redact(&text)
        .into_owned()
}

/// `all`, `2 selected` or `-3 excluded`.
fn describe_filter(server: &Server) -> String {
    match (&server.tools.include, &server.tools.exclude) {
        (Some(include), _) => format!("{} selected", include.len()),
        (None, Some(exclude)) if !exclude.is_empty() => format!("-{} excluded", exclude.len()),
        _ => "all".to_owned(),
    }
}
