//! State changes of servers during a chat: one line each, and the completion words that follow from them.

use std::{collections::HashMap, sync::Arc};

use hermes_agent::conversation::Conversation;
use hermes_mcp::{Host, link::Status, status::ServerStatus};
use tokio::sync::watch;

use super::words;
use crate::{
    chat::{editor::Vocabulary, screen::Screen, strip},
    commands::state::count,
};

/// The last state shown of each server, and the completion words.
pub(super) struct News {
    changes: Option<watch::Receiver<u64>>,
    /// Whether there is something to tell once the burst is over.
    is_pending: bool,
    last: HashMap<String, Status>,
    vocabulary: Arc<Vocabulary>,
}

/// Changes come in bursts, and the list of tools follows a new state by a moment.
const BURST: std::time::Duration = std::time::Duration::from_millis(20);

impl News {
    pub(super) fn new(conversation: &Conversation) -> Self {
        let vocabulary = Arc::new(Vocabulary::default());
        words::renew(&vocabulary, conversation);
        Self {
            changes: conversation.agent().host().map(Host::changes),
            is_pending: false,
            last: HashMap::new(),
            vocabulary,
        }
    }

    pub(super) fn vocabulary(&self) -> Arc<Vocabulary> {
        self.vocabulary.clone()
    }

    /// Returns when something may have changed.
    pub(super) async fn changed(&mut self) {
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
        tokio::time::sleep(BURST).await;
        self.is_pending = false;
    }

    /// Tells what is new.
    pub(super) fn tell(&mut self, conversation: &Conversation, screen: &Screen) {
        let Some(host) = conversation.agent().host() else {
            return;
        };
        let lines = self.lines(&host.status());
        words::renew(&self.vocabulary, conversation);
        for line in lines {
            // The last words of a server are lines of their own, each of which has to fit.
            for (place, line) in line.lines().enumerate() {
                let indent = if place == 0 { "" } else { "  " };
                let width = screen.width().saturating_sub(indent.len());
                screen.note(&format!("{indent}{}", strip::one_line(line, width)));
            }
        }
    }

    fn lines(&mut self, servers: &[ServerStatus]) -> Vec<String> {
        let mut ready = Vec::new();
        let mut lines = Vec::new();
        for server in servers {
            let before = self.last.get(&server.name).copied();
            // The error is still the one from before the login; whether that helped is told in a moment.
            let is_trying_login = before == Some(Status::NeedsAuth)
                && server.status == Status::Reconnecting
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
                Status::Ready => ready.push(format!("{name} ({})", count(server.tools, "tool"))),
                Status::Reconnecting if before == Some(Status::Ready) => {
                    lines.push(format!("{name} disconnected, reconnecting{why}"));
                }
                Status::Reconnecting => {
                    lines.push(format!("{name} failed, retrying{why}"));
                }
                Status::Parked => lines.push(format!("{name} is parked{why}")),
                Status::NeedsAuth => {
                    lines.push(format!("{name} needs a login: `/mcp login {name}`"));
                }
                Status::Invalid => lines.push(format!("{name} cannot be used{why}")),
                Status::Stopped if before.is_some() => lines.push(format!("{name} was stopped")),
                Status::Connecting | Status::Disabled | Status::Stopped | Status::Lazy => {}
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
        let mut news = News {
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
            server("a", Status::Connecting, None),
            server("b", Status::Connecting, None),
        ];
        assert!(news.lines(&connecting).is_empty());
        let ready = [
            server("a", Status::Ready, None),
            server("b", Status::Ready, None),
        ];
        assert_eq!(news.lines(&ready), ["ready: a (2 tools), b (2 tools)"]);
        assert!(news.lines(&ready).is_empty());
        let trouble = [
            server(
                "a",
                Status::Reconnecting,
                Some("\nit ended; its last stderr lines:\nTraceback\nboom\n"),
            ),
            server("b", Status::NeedsAuth, None),
        ];
        assert_eq!(
            news.lines(&trouble),
            [
                "a disconnected, reconnecting: it ended; its last stderr lines:\nTraceback\nboom",
                "b needs a login: `/mcp login b`"
            ]
        );
        // Somebody logged in: nothing failed.
        let trying = server("b", Status::Reconnecting, Some("nobody has logged in yet"));
        assert!(news.lines(std::slice::from_ref(&trying)).is_empty());
        let failed = ServerStatus {
            attempt: 1,
            error: Some("it does not answer".into()),
            ..trying
        };
        assert_eq!(
            news.lines(&[failed]),
            ["b failed, retrying: it does not answer"]
        );
    }
}
