//! `hermes mcp list`: what is configured. Opens no connection and needs no runtime.

use std::{collections::HashMap, mem::ManuallyDrop, time::Duration};

use hermes_config::{Server, ServerEntry, Settings, TransportSettings};
use hermes_mcp::{
    control::{self, Answer, Question},
    link::Status,
};
use serde_json::{Value, json};

use super::login;
use crate::{
    context::Context,
    failure::Failure,
    output::{Table, Tone},
};

/// A running process that takes longer does not answer at all.
const PATIENCE: Duration = Duration::from_millis(500);

pub(super) fn run(context: &Context) -> Result<(), Failure> {
    // The process ends when the list is out: what it read goes with it.
    let settings = ManuallyDrop::new(context.settings()?);
    let live = live_states(context);
    let mut table = Table::new(&["NAME", "TRANSPORT", "TARGET", "TOOLS", "STATUS"]);
    let mut servers = Vec::new();
    let mut logins = Vec::new();
    for entry in &settings.servers {
        let known = live.get(entry.name.as_str()).cloned();
        let known = known.or_else(|| configured(context, &settings, entry));
        let (state, error) = match known {
            Some(State { status, error }) => (Some(status), error),
            None => (None, None),
        };
        let status = state.map_or("enabled", Status::as_str);
        let (transport, target, tools, is_enabled) = match &entry.server {
            Ok(server) => (
                server.transport.kind(),
                target(server),
                tools(server),
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
        });
        if let Some(error) = error {
            server["error"] = json!(error);
            if state == Some(Status::NeedsAuth) {
                logins.push(format!("`{}`: {error}", entry.name));
            }
        }
        servers.push(server);
    }
    if servers.is_empty() {
        context.output.note("No MCP server is configured.\n\nAdd one, for example:\n  hermes mcp add time --command uvx --args mcp-server-time");
    } else {
        context.output.table(&table);
    }
    for login in logins {
        context.output.warning(login);
    }
    context
        .output
        .json(json!({"servers": Value::Array(servers)}));
    Ok(())
}

/// How a server is, and why.
#[derive(Clone)]
struct State {
    status: Status,
    error: Option<String>,
}

/// The states in running processes of this home; with several processes the first one counts.
fn live_states(context: &Context) -> HashMap<String, State> {
    let mut states = HashMap::new();
    for reply in control::ask(&context.home, &Question::Status, PATIENCE) {
        if let Answer::Status { servers } = reply.answer {
            for server in servers {
                let state = State {
                    status: server.status,
                    error: server.error,
                };
                states.entry(server.name).or_insert(state);
            }
        }
    }
    states
}

/// What the files tell of a server that no process runs; `None` of one that is to be connected and may be.
fn configured(context: &Context, settings: &Settings, entry: &ServerEntry) -> Option<State> {
    let (status, error) = match &entry.server {
        Ok(server) if server.enabled => {
            let missing = login::missing(&context.home, settings, server)?;
            (Status::NeedsAuth, Some(missing))
        }
        Ok(_) => (Status::Disabled, None),
        Err(problem) => (Status::Invalid, Some(problem.to_string())),
    };
    Some(State { status, error })
}

pub(in crate::commands) fn tone(state: Option<Status>) -> Tone {
    match state {
        Some(Status::Ready | Status::Lazy) => Tone::Good,
        Some(Status::Reconnecting | Status::Connecting) => Tone::Warning,
        Some(Status::Parked | Status::NeedsAuth | Status::Invalid) => Tone::Bad,
        Some(Status::Disabled | Status::Stopped) => Tone::Faint,
        None => Tone::Plain,
    }
}

/// The command line or the address, without what may be a secret.
pub(super) fn target(server: &Server) -> String {
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
fn tools(server: &Server) -> String {
    match (&server.tools.include, &server.tools.exclude) {
        (Some(include), _) => format!("{} selected", include.len()),
        (None, Some(exclude)) if !exclude.is_empty() => format!("-{} excluded", exclude.len()),
        _ => "all".to_owned(),
    }
}
