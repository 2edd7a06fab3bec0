//! Names of people and channels, which events do not carry.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use hermes_config::sync::Mutex;
use serde_json::{Value, json};

use super::SlackCore;

/// How long a name is used, and how long one is not asked for again after a failure.
const KNOWN_FOR: Duration = Duration::from_hours(1);
const UNKNOWN_FOR: Duration = Duration::from_mins(10);
/// An acknowledgement is due within 3 s, so names are waited for only a moment.
const LOOKUP_LIMIT: Duration = Duration::from_secs(1);
/// More names than this are forgotten.
const MAX_NAMES: usize = 10_000;

#[derive(Default)]
pub(super) struct SlackNameCache(Mutex<HashMap<String, CachedSlackName>>);

struct CachedSlackName {
    name: Option<String>,
    until: Instant,
}

impl SlackNameCache {
    /// Whether there is nothing to ask for at present.
    fn is_settled(&self, id: &str) -> bool {
        let names = self.0.lock();
        let found = names.get(id);
        found.is_some_and(|found| found.until > Instant::now())
    }

    pub(super) fn known(&self, id: &str) -> Option<String> {
        let names = self.0.lock();
        let found = names.get(id).filter(|found| found.until > Instant::now());
        found.and_then(|found| found.name.clone())
    }

    fn insert(&self, id: &str, name: Option<String>) {
        let mut names = self.0.lock();
        if names.len() >= MAX_NAMES {
            names.clear();
        }
        let lifetime = if name.is_some() {
            KNOWN_FOR
        } else {
            UNKNOWN_FOR
        };
        let until = Instant::now() + lifetime;
        names.insert(id.to_owned(), CachedSlackName { name, until });
    }
}

impl SlackCore {
    /// Adds the names of an event's user and channel, so that they are stored with it.
    pub(super) async fn add_names(&self, update: &mut Value) {
        let event = &update["payload"]["event"];
        let (user, channel) = (event["user"].as_str(), event["channel"].as_str());
        let user = user.unwrap_or_default().to_owned();
        // The channel of two people has no name.
        let channel = channel
            .filter(|id| !id.starts_with('D'))
            .unwrap_or_default();
        let channel = channel.to_owned();
        let lookup = async {
            futures::future::join(
                self.find_name(&user, "users.info"),
                self.find_name(&channel, "conversations.info"),
            )
            .await
        };
        if let Ok((user, channel)) = tokio::time::timeout(LOOKUP_LIMIT, lookup).await {
            update["names"] = json!({"user": user, "channel": channel});
        }
    }

    async fn find_name(&self, id: &str, method: &'static str) -> Option<String> {
        if id.is_empty() {
            return None;
        }
        if self.names.is_settled(id) {
            return self.names.known(id);
        }
        let (argument, member) = match method {
            "users.info" => ("user", "user"),
            _ => ("channel", "channel"),
        };
        let found = self.api.read(method, &[(argument, id)]).await;
        let name = match &found {
            Ok(reply) => pick_name(&reply[member]),
            Err(failure) => {
                tracing::debug!(method, %failure, "Slack name lookup failed");
                None
            }
        };
        self.names.insert(id, name.clone());
        name
    }
}

/// The name that people see: the display name, the real name, or the handle.
fn pick_name(object: &Value) -> Option<String> {
    let names = [
        &object["profile"]["display_name"],
        &object["profile"]["real_name"],
        &object["real_name"],
        &object["name"],
    ];
    let mut names = names.into_iter().filter_map(Value::as_str);
    names.find(|name| !name.is_empty()).map(str::to_owned)
}
