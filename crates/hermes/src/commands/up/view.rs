//! What `hermes up` shows: a live table on a terminal, plain lines elsewhere, nothing where JSON is wanted.

use std::{collections::HashMap, path::Path};

use hermes_mcp::{Host, LinkStatus, ServerStatus};

use super::{
    super::{
        gateway::accounts::AccountLine,
        state::{self, pluralize},
    },
    frame::{Frame, ServerRow},
    live_table::LiveTable,
};
use crate::{context::Context, output::Output};

/// Where the servers' states are shown.
pub(super) struct UpView {
    output: Output,
    title: String,
    kind: ViewKind,
    counts_down: bool,
    /// Bot accounts, beside the servers.
    accounts: Vec<AccountLine>,
    /// What was last said of each account, where there is no table.
    told_accounts: HashMap<String, String>,
}

enum ViewKind {
    Table(LiveTable),
    /// What was last said of each server.
    Lines(HashMap<String, String>),
    Nothing,
}

impl UpView {
    pub(super) fn new(context: &Context) -> Self {
        let output = context.output;
        let kind = match () {
            () if output.is_json() => ViewKind::Nothing,
            () if output.is_interactive() => ViewKind::Table(LiveTable::default()),
            () => ViewKind::Lines(HashMap::new()),
        };
        Self {
            title: format!(
                "hermes up: home {}, Ctrl-C stops everything",
                shorten_path(context.home.path())
            ),
            output,
            kind,
            counts_down: false,
            accounts: Vec::new(),
            told_accounts: HashMap::new(),
        }
    }

    /// Shows the present states; what is shown already stays as it is.
    pub(super) fn show(&mut self, host: &Host) {
        if !matches!(self.kind, ViewKind::Nothing) {
            self.show_servers(host, &host.status());
        }
    }

    /// How the bot accounts are. The table shows them with the next frame, lines tell what changed.
    pub(super) fn set_accounts(&mut self, accounts: Vec<AccountLine>) {
        self.accounts = accounts;
        if !matches!(self.kind, ViewKind::Lines(_)) {
            return;
        }
        for account in &self.accounts {
            // The time it was heard last is not news.
            let silent = AccountLine {
                last_ok_at: None,
                ..account.clone()
            };
            let line = silent.summary(0);
            if self.told_accounts.get(&account.label) != Some(&line) {
                self.output.line(&line);
                self.told_accounts.insert(account.label.clone(), line);
            }
        }
    }

    /// The same, where their states are known.
    pub(super) fn show_servers(&mut self, host: &Host, servers: &[ServerStatus]) {
        let now = state::unix_now();
        self.counts_down = servers
            .iter()
            .any(|server| server.next_attempt_at.is_some());
        match &mut self.kind {
            ViewKind::Nothing => {}
            ViewKind::Lines(last) => {
                for server in servers {
                    let line = server_line(server, now);
                    let key = change_key(server);
                    if last.get(&server.name) != Some(&key) {
                        self.output.line(line);
                        last.insert(server.name.clone(), key);
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
            ViewKind::Table(table) => {
                let registry = host.registry();
                let rows = servers.iter().map(|server| {
                    let tools = registry
                        .tools()
                        .filter(|tool| tool.server.as_str() == server.name)
                        .map(|tool| tool.original_name());
                    ServerRow::new(server, &tools.collect::<Vec<_>>(), now)
                });
                let accounts = self.accounts.iter();
                let rows = rows.chain(accounts.map(|account| ServerRow::for_account(account, now)));
                let frame = Frame {
                    title: self.title.clone(),
                    rows: rows.collect(),
                    summary: summarize_servers(servers),
                };
                table.draw(self.output, frame);
            }
        }
    }

    /// Whether a span of time is on display that gets shorter by itself.
    pub(super) fn counts_down(&self) -> bool {
        self.counts_down && matches!(self.kind, ViewKind::Table(_))
    }

    /// A message beside the states.
    pub(super) fn print_message(&mut self, text: &str) {
        match &mut self.kind {
            ViewKind::Table(table) => table.print_message(self.output, text),
            ViewKind::Lines(_) | ViewKind::Nothing => self.output.note(text),
        }
    }

    pub(super) fn handle_resize(&mut self) {
        if let ViewKind::Table(table) = &mut self.kind {
            table.invalidate();
        }
    }

    pub(super) fn begin_stopping(&mut self, host: &Host) {
        let running = host
            .status()
            .iter()
            .filter(|server| !is_settled(server.status))
            .count();
        self.announce(format!("Stopping {} …", pluralize(running, "server")));
        self.show(host);
    }

    pub(super) fn end_stopping(&mut self, host: &Host) {
        self.announce("Stopped.".to_owned());
        self.show(host);
    }

    fn announce(&mut self, text: String) {
        match &mut self.kind {
            ViewKind::Table(_) => self.title = text,
            ViewKind::Lines(_) | ViewKind::Nothing => self.output.note(text),
        }
    }
}

fn is_settled(status: LinkStatus) -> bool {
    matches!(
        status,
        LinkStatus::Disabled | LinkStatus::Invalid | LinkStatus::Stopped | LinkStatus::Lazy
    )
}

/// One server as a line of its own.
fn server_line(server: &ServerStatus, now: u64) -> String {
    let name = &server.name;
    let note = state::status_note(server, now);
    match (server.status, note.as_str()) {
        (LinkStatus::Ready | LinkStatus::Lazy, _) => {
            let era = server.era.map_or("", |era| era.as_str());
            let tools = pluralize(server.tools, "tool");
            format!("{name}: {}, {tools}, {era}", server.status)
                .trim_end_matches([',', ' '])
                .to_owned()
        }
        (status, "") => format!("{name}: {status}"),
        (status, note) => format!("{name}: {status}; {note}"),
    }
}

/// What has to change before a server gets another line: spans of time do not count.
fn change_key(server: &ServerStatus) -> String {
    let timeless = ServerStatus {
        next_attempt_at: None,
        ..server.clone()
    };
    format!("{} {}", server.attempt, server_line(&timeless, 0))
}

/// `3 servers: 2 ready, 1 parked; 12 tools`
fn summarize_servers(servers: &[ServerStatus]) -> String {
    let mut states: Vec<(LinkStatus, usize)> = Vec::new();
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
    let servers = pluralize(servers.len(), "server");
    format!(
        "{servers}: {}; {}",
        states.join(", "),
        pluralize(tools, "tool")
    )
    .replace(": ;", ";")
}

/// A path below the user's directory begins with `~`.
fn shorten_path(path: &Path) -> String {
    match std::env::home_dir().and_then(|user| path.strip_prefix(user).ok().map(Path::to_owned)) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use hermes_config::ServerName;

    use super::*;

    fn server(name: &str, status: LinkStatus) -> ServerStatus {
        ServerStatus::unconnected(&ServerName::new(name), "stdio", status)
    }

    #[test]
    fn a_ready_server_is_told_with_its_tools() {
        let ready = ServerStatus {
            tools: 1,
            ..server("time", LinkStatus::Ready)
        };
        assert_eq!(server_line(&ready, 0), "time: ready, 1 tool");
    }

    #[test]
    fn a_failing_server_is_told_with_the_reason() {
        let failing = ServerStatus {
            error: Some("it ended\nmore".into()),
            next_attempt_at: Some(4),
            ..server("time", LinkStatus::Reconnecting)
        };
        assert_eq!(
            server_line(&failing, 2),
            "time: reconnecting; next attempt in 2 s; it ended"
        );
    }

    #[test]
    fn the_passing_of_time_is_not_a_change_but_another_failure_is() {
        let mut failing = ServerStatus {
            error: Some("it ended".into()),
            next_attempt_at: Some(4),
            attempt: 1,
            ..server("time", LinkStatus::Reconnecting)
        };
        let before = change_key(&failing);
        failing.next_attempt_at = None;
        assert_eq!(change_key(&failing), before);
        failing.attempt = 2;
        assert_ne!(change_key(&failing), before);
    }

    #[test]
    fn the_summary_counts_states_and_tools() {
        let mut servers = vec![
            server("a", LinkStatus::Ready),
            server("b", LinkStatus::Parked),
            server("c", LinkStatus::Ready),
        ];
        servers[0].tools = 3;
        assert_eq!(
            summarize_servers(&servers),
            "3 servers: 2 ready, 1 parked; 3 tools"
        );
        assert_eq!(summarize_servers(&[]), "0 servers; 0 tools");
    }
}
