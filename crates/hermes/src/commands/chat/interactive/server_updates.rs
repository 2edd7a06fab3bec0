//! State changes of servers during a chat: one line each, and the completion words that follow from them.

use std::{collections::HashMap, sync::Arc};

use hermes_agent::conversation::Conversation;
use hermes_mcp::{Host, LinkStatus, ServerStatus};
use tokio::sync::watch;

use crate::commands::{
    chat::{
        editor::CompletionWords, interactive::completion_words, rendering::wrap, screen::Screen,
    },
    state::pluralize,
};

/// The last state shown of each server, and the completion words.
pub(super) struct ServerUpdates {
    changes: Option<watch::Receiver<u64>>,
    /// Whether there is something to tell once the burst is over.
    is_pending: bool,
    last: HashMap<String, LinkStatus>,
    vocabulary: Arc<CompletionWords>,
}

/// Changes come in bursts, and the list of tools follows a new state by a moment.
const DEBOUNCE: std::time::Duration = std::time::Duration::from_millis(20);

impl ServerUpdates {
    pub(super) fn new(conversation: &Conversation) -> Self {
        let vocabulary = Arc::new(CompletionWords::default());
        completion_words::refresh_words(&vocabulary, conversation);
        Self {
            changes: conversation.agent().host().map(Host::subscribe_changes),
            is_pending: false,
            last: HashMap::new(),
            vocabulary,
        }
    }

    pub(super) fn vocabulary(&self) -> Arc<CompletionWords> {
        self.vocabulary.clone()
    }

    /// Returns when something may have changed.
    pub(super) async fn wait_for_change(&mut self) {
        if !self.is_pending {
            match &mut self.changes {
                Some(changes) if changes.has_changed().is_ok() => {
                    let _ = changes.changed().await;
                }
                _ => std::future::pending().await,
            }
            self.is_pending = true;
        }
        // This future may be dropped here; what is pending then stays so.
        tokio::time::sleep(DEBOUNCE).await;
        self.is_pending = false;
    }

    /// Tells what is new.
    pub(super) fn show_changes(&mut self, conversation: &Conversation, screen: &Screen) {
        let Some(host) = conversation.agent().host() else {
            return;
        };
        let lines = self.change_lines(&host.status());
        completion_words::refresh_words(&self.vocabulary, conversation);
        for line in lines {
            // The last stderr lines of a server are separate lines, each of which has to fit.
            for (index, line) in line.lines().enumerate() {
                let indent = if index == 0 { "" } else { "  " };
                let width = screen.width().saturating_sub(indent.len());
                screen.note(&format!("{indent}{}", wrap::first_line(line, width)));
            }
        }
    }

    fn change_lines(&mut self, servers: &[ServerStatus]) -> Vec<String> {
        let mut ready = Vec::new();
        let mut lines = Vec::new();
        for server in servers {
            let before = self.last.get(&server.name).copied();
            // The error is still the one from before the login; whether that helped is told in a moment.
            let is_trying_login = before == Some(LinkStatus::NeedsAuth)
                && server.status == LinkStatus::Reconnecting
                && server.attempt == 0;
            if before == Some(server.status) || is_trying_login {
                continue;
            }
            self.last.insert(server.name.clone(), server.status);
            let name = &server.name;
            let why = server.error.as_deref().map(str::trim);
            let why = why.filter(|why| !why.is_empty());
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            match server.status {
                LinkStatus::Ready => {
                    ready.push(format!("{name} ({})", pluralize(server.tools, "tool")));
                }
                LinkStatus::Reconnecting if before == Some(LinkStatus::Ready) => {
                    lines.push(format!("{name} disconnected, reconnecting{why}"));
                }
                LinkStatus::Reconnecting => {
                    lines.push(format!("{name} failed, retrying{why}"));
                }
                LinkStatus::Parked => lines.push(format!("{name} is parked{why}")),
                LinkStatus::NeedsAuth => {
                    lines.push(format!("{name} needs a login: `/mcp login {name}`"));
                }
                LinkStatus::Invalid => lines.push(format!("{name} cannot be used{why}")),
                LinkStatus::Stopped if before.is_some() => {
                    lines.push(format!("{name} was stopped"));
                }
                LinkStatus::Connecting
                | LinkStatus::Disabled
                | LinkStatus::Stopped
                | LinkStatus::Lazy => {}
            }
        }
        if !ready.is_empty() {
            lines.insert(0, format!("ready: {}", ready.join(", ")));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use hermes_config::ServerName;

    use super::*;

    #[test]
    fn only_what_is_new_is_told() {
        let mut updates = ServerUpdates {
            changes: None,
            is_pending: false,
            last: HashMap::new(),
            vocabulary: Arc::default(),
        };
        let server = |name: &str, status, error: Option<&str>| ServerStatus {
            tools: 2,
            error: error.map(str::to_owned),
            ..ServerStatus::unconnected(&ServerName::new(name), "stdio", status)
        };
        let connecting = [
            server("a", LinkStatus::Connecting, None),
            server("b", LinkStatus::Connecting, None),
        ];
        assert!(updates.change_lines(&connecting).is_empty());
        let ready = [
            server("a", LinkStatus::Ready, None),
            server("b", LinkStatus::Ready, None),
        ];
        assert_eq!(
            updates.change_lines(&ready),
            ["ready: a (2 tools), b (2 tools)"]
        );
        assert!(updates.change_lines(&ready).is_empty());
        let problem = [
            server(
                "a",
                LinkStatus::Reconnecting,
                Some("\nit ended; its last stderr lines:\nTraceback\nboom\n"),
            ),
            server("b", LinkStatus::NeedsAuth, None),
        ];
        assert_eq!(
            updates.change_lines(&problem),
            [
                "a disconnected, reconnecting: it ended; its last stderr lines:\nTraceback\nboom",
                "b needs a login: `/mcp login b`"
            ]
        );
        // Somebody logged in: nothing failed.
        let trying = server("b", LinkStatus::Reconnecting, Some("there is no login yet"));
        assert!(
            updates
                .change_lines(std::slice::from_ref(&trying))
                .is_empty()
        );
        let failed = ServerStatus {
            attempt: 1,
            error: Some("it does not answer".into()),
            ..trying
        };
        assert_eq!(
            updates.change_lines(&[failed]),
            ["b failed, retrying: it does not answer"]
        );
    }
}
