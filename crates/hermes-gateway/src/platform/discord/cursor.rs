//! Where the gateway's events have been stored up to, how many sessions were begun today, and what else
//! beginning one takes.

use reqwest::Client;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use twilight_gateway::queue::Queue;

/// Discord allows 1000 sessions a day and invalidates the token after that.
pub(super) const MAX_IDENTIFIES: u32 = 900;

/// What is stored with the updates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct DiscordCursor {
    pub(super) session: Option<ResumableSession>,
    /// The day of the count, in days since 1970.
    identify_day: i64,
    identifies: u32,
}

/// A session that can be resumed after the last event that was stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ResumableSession {
    pub(super) id: String,
    pub(super) resume_url: String,
    pub(super) sequence: u64,
}

impl DiscordCursor {
    /// Reads what was stored. A position that cannot be read begins a new session.
    pub(super) fn from_value(value: Option<Value>) -> Self {
        let read = value.map(serde_json::from_value);
        match read {
            Some(Ok(cursor)) => cursor,
            Some(Err(error)) => {
                tracing::warn!(%error, "stored Discord session cannot be read; starting a new one");
                Self::default()
            }
            None => Self::default(),
        }
    }

    pub(super) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Counts a session that is begun. `false` if there were too many on this day.
    pub(super) fn count_identify(&mut self, day: i64) -> bool {
        if self.identify_day != day {
            self.identify_day = day;
            self.identifies = 0;
        }
        if self.identifies >= MAX_IDENTIFIES {
            return false;
        }
        self.identifies += 1;
        true
    }
}

/// Lets a session begin at once: it was counted before the connection was made, and there is one connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct ImmediateQueue;

impl Queue for ImmediateQueue {
    fn enqueue(&self, _shard: u32) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        // Only a receiver that is gone would fail it.
        let _ = sender.send(());
        receiver
    }
}

/// Checks that the system has certificates. Twilight loads them for every connection and panics where there are none.
///
/// A client for `https` has loaded them already; one for a plain address on this machine has not.
pub(super) fn check_certificates(socket_url: &str) -> Result<(), String> {
    if socket_url.starts_with("wss:") {
        return Ok(());
    }
    match Client::builder().no_proxy().build() {
        Ok(_) => Ok(()),
        Err(error) => Err(format!(
            "the certificates of this system cannot be loaded: {}",
            crate::send::root_cause(&error)
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sessions_are_counted_by_day() {
        let mut cursor = DiscordCursor::default();
        for _ in 0..MAX_IDENTIFIES {
            assert!(cursor.count_identify(5));
        }
        assert!(!cursor.count_identify(5));
        let mut stored = DiscordCursor::from_value(Some(cursor.to_value()));
        assert!(!stored.count_identify(5));
        assert!(stored.count_identify(6));
    }

    #[test]
    fn an_unreadable_position_begins_anew() {
        let read = DiscordCursor::from_value(Some(json!({"session": 5})));
        assert_eq!(read, DiscordCursor::default());
        let read = DiscordCursor::from_value(Some(json!({"something": "else"})));
        assert_eq!(read, DiscordCursor::default());
    }
}
