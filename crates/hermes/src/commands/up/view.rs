//! What `hermes up` shows: a live table on a terminal, plain lines elsewhere, nothing where JSON is wanted.

use std::{collections::HashMap, path::Path};

use hermes_mcp::{Host, link::Status, status::ServerStatus};

use super::{
    super::state::{self, count},
    frame::{Frame, Row},
    live_table::LiveTable,
};
use crate::{context::Context, output::Output};

/// Where the servers' states are shown.
pub(super) struct View {
    output: Output,
    title: String,
    kind: Kind,
    counts_down: bool,
}

enum Kind {
    Table(LiveTable),
    /// What was last said of each server.
    Lines(HashMap<String, String>),
    Nothing,
}

impl View {
    pub(super) fn new(context: &Context) -> Self {
        let output = context.output;
        let kind = match () {
            () if output.is_json() => Kind::Nothing,
            () if output.is_interactive() => Kind::Table(LiveTable::default()),
            () => Kind::Lines(HashMap::new()),
        };
        Self {
            title: format!(
                "hermes up: home {}, Ctrl-C stops everything",
                shortened(context.home.path())
            ),
            output,
            kind,
            counts_down: false,
        }
    }

    /// Shows the present states; what is shown already stays as it is.
    pub(super) fn show(&mut self, host: &Host) {
        if !matches!(self.kind, Kind::Nothing) {
            self.show_servers(host, &host.status());
        }
    }

    /// The same, where their states are known.
    pub(super) fn show_servers(&mut self, host: &Host, servers: &[ServerStatus]) {
        let now = state::now();
        self.counts_down = servers
            .iter()
            .any(|server| server.next_attempt_at.is_some());
        match &mut self.kind {
            Kind::Nothing => {}
            Kind::Lines(last) => {
                for server in servers {
                    let line = line(server, now);
                    let said = identity(server);
                    if last.get(&server.name) != Some(&said) {
                        self.output.line(line);
                        last.insert(server.name.clone(), said);
                    }
                }
                last.retain(|name, _| {
                    let is_there = servers.iter().any(|server| server.name == *name);
                    if !is_there {
                        self.output.line(format!("{name}: removed"));
                    }
                    is_there
                });
            }
            Kind::Table(table) => {
                let registry = host.registry();
                let rows = servers.iter().map(|server| {
                    let tools = registry
                        .tools()
                        .filter(|tool| tool.server.as_str() == server.name)
                        .map(|tool| tool.original());
                    Row::new(server, &tools.collect::<Vec<_>>(), now)
                });
                let frame = Frame {
                    title: self.title.clone(),
                    rows: rows.collect(),
                    summary: summary(servers),
                };
                table.draw(self.output, frame);
            }
        }
    }

    /// Whether a span of time is on display that gets shorter by itself.
    pub(super) fn counts_down(&self) -> bool {
        self.counts_down && matches!(self.kind, Kind::Table(_))
    }

    /// A message beside the states.
    pub(super) fn say(&mut self, text: &str) {
        match &mut self.kind {
            Kind::Table(table) => table.say(self.output, text),
            Kind::Lines(_) | Kind::Nothing => self.output.note(text),
        }
    }

    pub(super) fn resized(&mut self) {
        if let Kind::Table(table) = &mut self.kind {
            table.forget_content();
        }
    }

    pub(super) fn begin_stopping(&mut self, host: &Host) {
        let running = host
            .status()
            .iter()
            .filter(|server| !is_at_rest(server.status))
            .count();
        self.announce(format!("Stopping {} …", count(running, "server")));
        self.show(host);
    }

    pub(super) fn end_stopping(&mut self, host: &Host) {
        self.announce("Stopped.".to_owned());
        self.show(host);
    }

    fn announce(&mut self, text: String) {
        match &mut self.kind {
            Kind::Table(_) => self.title = text,
            Kind::Lines(_) | Kind::Nothing => self.output.note(text),
        }
    }
}

fn is_at_rest(status: Status) -> bool {
    matches!(
        status,
        Status::Disabled | Status::Invalid | Status::Stopped | Status::Lazy
    )
}

/// One server as a line of its own.
fn line(server: &ServerStatus, now: u64) -> String {
    let name = &server.name;
    let note = state::note(server, now);
    match (server.status, note.as_str()) {
        (Status::Ready | Status::Lazy, _) => {
            let era = server.era.map_or("", |era| era.as_str());
            let tools = count(server.tools, "tool");
            format!("{name}: {}, {tools}, {era}", server.status)
                .trim_end_matches([',', ' '])
                .to_owned()
        }
        (status, "") => format!("{name}: {status}"),
        (status, note) => format!("{name}: {status}; {note}"),
    }
}

/// What has to change before a server gets another line: spans of time do not count.
fn identity(server: &ServerStatus) -> String {
    let timeless = ServerStatus {
        next_attempt_at: None,
        ..server.clone()
    };
    format!("{} {}", server.attempt, line(&timeless, 0))
}

/// `3 servers: 2 ready, 1 parked; 12 tools`
fn summary(servers: &[ServerStatus]) -> String {
    let mut states: Vec<(Status, usize)> = Vec::new();
    for server in servers {
        match states
            .iter_mut()
            .find(|(status, _)| *status == server.status)
        {
            Some((_, number)) => *number += 1,
            None => states.push((server.status, 1)),
        }
    }
    let states: Vec<String> = states
        .iter()
        .map(|(status, number)| format!("{number} {status}"))
        .collect();
    let tools = servers.iter().map(|server| server.tools).sum();
    let servers = count(servers.len(), "server");
    format!("{servers}: {}; {}", states.join(", "), count(tools, "tool")).replace(": ;", ";")
}

/// A path below the user's directory begins with `~`.
fn shortened(path: &Path) -> String {
    match std::env::home_dir().and_then(|user| path.strip_prefix(user).ok().map(Path::to_owned)) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use hermes_config::ServerName;

    use super::*;

    fn server(name: &str, status: Status) -> ServerStatus {
        ServerStatus::unconnected(&ServerName::new(name), "stdio", status)
    }

    #[test]
    fn a_ready_server_is_told_with_its_tools() {
        let ready = ServerStatus {
            tools: 1,
            ..server("time", Status::Ready)
        };
        assert_eq!(line(&ready, 0), "time: ready, 1 tool");
    }

    #[test]
    fn a_failing_server_is_told_with_the_reason() {
        let failing = ServerStatus {
            error: Some("it ended\nmore".into()),
            next_attempt_at: Some(4),
            ..server("time", Status::Reconnecting)
        };
        assert_eq!(
            line(&failing, 2),
            "time: reconnecting; next attempt in 2 s; it ended"
        );
    }

    #[test]
    fn the_passing_of_time_is_no_change_but_another_failure_is() {
        let mut failing = ServerStatus {
            error: Some("it ended".into()),
            next_attempt_at: Some(4),
            attempt: 1,
            ..server("time", Status::Reconnecting)
        };
        let before = identity(&failing);
        failing.next_attempt_at = None;
        assert_eq!(identity(&failing), before);
        failing.attempt = 2;
        assert_ne!(identity(&failing), before);
    }

    #[test]
    fn the_summary_counts_states_and_tools() {
        let mut servers = vec![
            server("a", Status::Ready),
            server("b", Status::Parked),
            server("c", Status::Ready),
        ];
        servers[0].tools = 3;
        assert_eq!(summary(&servers), "3 servers: 2 ready, 1 parked; 3 tools");
        assert_eq!(summary(&[]), "0 servers; 0 tools");
    }
}
