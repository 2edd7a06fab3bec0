//! Mentions of MCP resources: `@server:uri` attaches a resource to the message.
//!
//! A mentioned resource is watched from then on. When it has changed, the next turn gets its new content.

use std::{
    fmt::Write as _,
    hash::{DefaultHasher, Hash, Hasher},
};

use hermes_config::ServerName;
use hermes_mcp::{CallOptions, Host, LinkStatus, host::ResourceWatch};
use tokio::sync::broadcast::{self, error::TryRecvError};

use crate::{
    message::{Content, Part},
    tools::toolbox::wrap_untrusted,
};

mod find;

pub use crate::mention::find::{MentionCandidate, complete_mention};
use find::{Mention, MentionTarget};

/// Longer resources are truncated.
const MAX_RESOURCE_CHARS: usize = 100_000;
/// How many resources of one conversation are watched; the oldest are dropped.
const MAX_WATCHED: usize = 32;

pub struct Mentions {
    host: Host,
    watched: Vec<WatchedResource>,
}

struct WatchedResource {
    server: ServerName,
    uri: String,
    updates: broadcast::Receiver<String>,
    seen_hash: u64,
    _watch: Option<ResourceWatch>,
}

/// The resources that a message mentions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attachments {
    /// All resources, marked as untrusted data; `None` without any.
    pub text: Option<String>,
    /// Why mentions were not attached, one line each.
    pub warnings: Vec<String>,
}

impl Attachments {
    /// Appends the resources to a message.
    #[must_use]
    pub fn append_to(self, content: Content) -> Content {
        match (self.text, content) {
            (None, content) => content,
            (Some(more), Content::Text(text)) => Content::Text(format!("{text}\n\n{more}")),
            (Some(more), Content::Parts(mut parts)) => {
                parts.push(Part::from_text(more));
                Content::Parts(parts)
            }
        }
    }
}

impl Mentions {
    /// For a new conversation.
    pub fn new(host: Host) -> Self {
        Self {
            host,
            watched: Vec::new(),
        }
    }

    /// A message as it is sent: changes of resources mentioned before, the message, and the resources it mentions.
    /// Also returns warnings, one line each.
    pub async fn expand_message(
        &mut self,
        content: Content,
        options: &CallOptions,
    ) -> (Content, Vec<String>) {
        let changes = self.changed_since_last_turn(options).await;
        let attached = self.attach_resources(&content.text(), options).await;
        let warnings = attached.warnings.clone();
        let content = attached.append_to(content);
        let content = match (changes, content) {
            (None, content) => content,
            (Some(changes), Content::Text(text)) => Content::Text(format!("{changes}\n\n{text}")),
            (Some(changes), Content::Parts(mut parts)) => {
                parts.insert(0, Part::from_text(changes));
                Content::Parts(parts)
            }
        };
        (content, warnings)
    }

    /// The mentioned servers that have to be connected first.
    pub fn servers_to_connect(&self, message: &str) -> Vec<ServerName> {
        let mut awaited = Vec::new();
        for Mention { target, .. } in find::find_mentions(message, &self.host.servers()) {
            let MentionTarget::Resource { server, .. } = target else {
                continue;
            };
            let link = self.host.link(&server);
            let is_ready = link.is_some_and(|link| link.borrow().status == LinkStatus::Ready);
            if !is_ready && !awaited.contains(&server) {
                awaited.push(server);
            }
        }
        awaited
    }

    /// Reads every resource that a message mentions, and watches it.
    pub async fn attach_resources(&mut self, message: &str, options: &CallOptions) -> Attachments {
        let mut attached = Attachments::default();
        let mut texts = Vec::new();
        for Mention { target, written } in find::find_mentions(message, &self.host.servers()) {
            match target {
                MentionTarget::Unknown(server) => {
                    let known = self.host.servers().into_iter();
                    let near = hermes_config::nearest(&server, known.map(|name| name.to_string()));
                    let advice = near.map(|name| format!("; did you mean `{name}`?"));
                    attached.warnings.push(format!(
                        "`{written}` stays text: there is no MCP server `{server}`{}",
                        advice.unwrap_or_default()
                    ));
                }
                MentionTarget::Resource { server, uri } => {
                    // Subscribed before it is read, so that no change is missed.
                    let updates = self.host.resource_updates(&server);
                    match self.read_resource(&server, &uri, options).await {
                        Ok(text) => {
                            texts.push(format!(
                                "{written}:\n{}",
                                format_attachment(&server, &uri, text.clone())
                            ));
                            if let Some(updates) = updates {
                                self.watch_resource(server, uri, updates, hash_text(&text));
                            }
                        }
                        Err(reason) => attached
                            .warnings
                            .push(format!("`{written}` stays text: {reason}")),
                    }
                }
            }
        }
        attached.text = (!texts.is_empty()).then(|| texts.join("\n\n"));
        attached
    }

    /// The new content of mentioned resources that have changed since the conversation saw them.
    pub async fn changed_since_last_turn(&mut self, options: &CallOptions) -> Option<String> {
        let mut notes = Vec::new();
        for index in 0..self.watched.len() {
            if !self.has_changed(index) {
                continue;
            }
            let (server, uri) = (
                self.watched[index].server.clone(),
                self.watched[index].uri.clone(),
            );
            let note = match self.read_resource(&server, &uri, options).await {
                Ok(text) => {
                    let now = hash_text(&text);
                    if std::mem::replace(&mut self.watched[index].seen_hash, now) == now {
                        continue;
                    }
                    format!(
                        "@{server}:{uri} has changed. It now is:\n{}",
                        format_attachment(&server, &uri, text)
                    )
                }
                Err(reason) => {
                    format!("@{server}:{uri} has changed and cannot be read now: {reason}")
                }
            };
            notes.push(note);
        }
        (!notes.is_empty()).then(|| notes.join("\n\n"))
    }

    async fn read_resource(
        &self,
        server: &ServerName,
        uri: &str,
        options: &CallOptions,
    ) -> Result<String, String> {
        let read = self.host.read_resource(server, uri, options).await;
        let read = read.map_err(|error| self.host.describe_error(server, &error))?;
        Ok(self.host.media().render_resource(read.contents).await)
    }

    fn watch_resource(
        &mut self,
        server: ServerName,
        uri: String,
        updates: broadcast::Receiver<String>,
        seen: u64,
    ) {
        // Before an existing watch is dropped, so that the server does not get a second subscription.
        let watch = self.host.watch_resource(&server, &uri);
        self.watched
            .retain(|known| known.server != server || known.uri != uri);
        if self.watched.len() >= MAX_WATCHED {
            self.watched.remove(0);
        }
        self.watched.push(WatchedResource {
            server,
            uri,
            updates,
            seen_hash: seen,
            _watch: watch,
        });
    }

    fn has_changed(&mut self, index: usize) -> bool {
        let host = &self.host;
        let watched = &mut self.watched[index];
        let mut has_changed = false;
        loop {
            match watched.updates.try_recv() {
                Ok(uri) => has_changed |= uri == watched.uri,
                Err(TryRecvError::Empty) => return has_changed,
                // Updates were lost: assume a change.
                Err(TryRecvError::Lagged(_)) => has_changed = true,
                // The server was restarted and has lost the subscription.
                Err(TryRecvError::Closed) => {
                    let Some(updates) = host.resource_updates(&watched.server) else {
                        return false;
                    };
                    *watched = WatchedResource {
                        server: watched.server.clone(),
                        uri: watched.uri.clone(),
                        updates,
                        seen_hash: watched.seen_hash,
                        _watch: host.watch_resource(&watched.server, &watched.uri),
                    };
                    has_changed = true;
                }
            }
        }
    }
}

/// A resource's text for the model: truncated and marked as untrusted data.
pub(crate) fn format_attachment(server: &ServerName, uri: &str, mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_RESOURCE_CHARS) {
        let length = text.chars().count();
        text.truncate(end);
        let _ = write!(text, "\n[cut: {MAX_RESOURCE_CHARS} of {length} characters]");
    }
    let source: String = format!("{server}:{uri}")
        .chars()
        .filter(|character| !character.is_control() && !"\"<>".contains(*character))
        .collect();
    wrap_untrusted(&source, text)
}

fn hash_text(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_resource_is_cut_and_says_so() {
        let text = format_attachment(
            &ServerName::new("s"),
            "x://y",
            "ä".repeat(MAX_RESOURCE_CHARS + 5),
        );
        assert_eq!(text.matches('ä').count(), MAX_RESOURCE_CHARS);
        assert!(text.contains("[cut: 100000 of 100005 characters]"));
        let whole = format_attachment(
            &ServerName::new("s"),
            "x://y",
            "ä".repeat(MAX_RESOURCE_CHARS),
        );
        assert!(!whole.contains("[cut"));
    }

    #[test]
    fn an_address_cannot_break_out_of_the_mark() {
        let text = format_attachment(&ServerName::new("s"), "x://\"><b>\n", "t".repeat(40));
        assert!(
            text.starts_with("<untrusted_tool_result source=\"s:x://b\">"),
            "{text}"
        );
    }

    #[test]
    fn attachments_follow_the_message() {
        let attached = Attachments {
            text: Some("more".into()),
            warnings: Vec::new(),
        };
        assert_eq!(
            attached.clone().append_to("hi".into()),
            Content::Text("hi\n\nmore".into())
        );
        let parts = attached.append_to(Content::Parts(vec![Part::from_text("hi")]));
        assert_eq!(parts.text(), "hi\nmore");
    }
}
