//! The status of a thread in which the bot is at work, where Slack shows one.
//!
//! An agent session that is `processing` shows the button which stops the answer. Slack does not end that state by
//! itself: it ends here, with the answer, or when nobody has repeated it for a while.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use hermes_config::sync::Mutex;
use serde_json::json;

use super::SlackCore;
use crate::platform::{ChatAddress, PostError};

const SESSION_METHOD: &str = "agents.sessions.setStatus";
const THREAD_METHOD: &str = "assistant.threads.setStatus";

/// How often the gateway repeats the sign.
pub(super) const TYPING_INTERVAL: Duration = Duration::from_secs(10);
/// A state that nobody has repeated for so long ends.
const STALE_AFTER: Duration = Duration::from_secs(25);
/// How often stale states are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Threads that show that the bot is at work: channel and first message, and when that was said last.
#[derive(Default)]
pub(super) struct SlackWorkingThreads(Mutex<HashMap<(String, String), Instant>>);

impl SlackWorkingThreads {
    /// Notes that a thread is at work; whether it is new.
    fn insert(&self, channel: &str, thread: &str) -> bool {
        let key = (channel.to_owned(), thread.to_owned());
        self.0.lock().insert(key, Instant::now()).is_none()
    }

    /// Takes a thread out; whether it was there.
    pub(super) fn remove(&self, channel: &str, thread: &str) -> bool {
        let key = (channel.to_owned(), thread.to_owned());
        self.0.lock().remove(&key).is_some()
    }

    pub(super) fn contains(&self, channel: &str, thread: &str) -> bool {
        let key = (channel.to_owned(), thread.to_owned());
        self.0.lock().contains_key(&key)
    }

    fn take_stale(&self, now: Instant) -> Vec<(String, String)> {
        let mut threads = self.0.lock();
        let is_stale = |at: &Instant| now.duration_since(*at) >= STALE_AFTER;
        threads
            .extract_if(|_, at| is_stale(at))
            .map(|(thread, _)| thread)
            .collect()
    }
}

impl SlackCore {
    pub(super) async fn show_working(&self, chat: &ChatAddress) -> Result<(), PostError> {
        let Some(thread) = &chat.thread_id else {
            // Slack has no such sign outside of threads.
            return Ok(());
        };
        // Without sockets nobody would hear that it was stopped, or end the state.
        if self.app_token.is_some() && self.api.supports(SESSION_METHOD) {
            if !self.working.insert(&chat.id, thread) {
                return Ok(());
            }
            let body = json!({"channel_id": chat.id, "thread_ts": thread, "status": "processing"});
            match self.api.call(SESSION_METHOD, &body).await {
                Ok(_) => return Ok(()),
                Err(failure) => {
                    self.working.remove(&chat.id, thread);
                    if PostError::from(failure.clone()).is_temporary() {
                        return Err(failure.into());
                    }
                    self.api.remember_unsupported(SESSION_METHOD, &failure);
                }
            }
        }
        if self.api.supports(THREAD_METHOD) {
            let body =
                json!({"channel_id": chat.id, "thread_ts": thread, "status": "is thinking…"});
            if let Err(failure) = self.api.call(THREAD_METHOD, &body).await {
                if PostError::from(failure.clone()).is_temporary() {
                    return Err(failure.into());
                }
                self.api.remember_unsupported(THREAD_METHOD, &failure);
            }
        }
        Ok(())
    }

    /// The answer is there.
    pub(super) async fn end_working(&self, channel: &str, thread: Option<&str>) {
        if let Some(thread) = thread
            && self.working.remove(channel, thread)
        {
            self.set_active(channel, thread).await;
        }
    }

    async fn set_active(&self, channel: &str, thread: &str) {
        let body = json!({"channel_id": channel, "thread_ts": thread, "status": "active"});
        if let Err(failure) = self.api.call(SESSION_METHOD, &body).await {
            tracing::debug!(%failure, "Slack session status was not reset");
        }
    }

    /// Ends states that nobody repeats any more, until it is dropped.
    pub(super) async fn expire_statuses(&self) {
        loop {
            tokio::time::sleep(SWEEP_INTERVAL).await;
            for (channel, thread) in self.working.take_stale(Instant::now()) {
                self.set_active(&channel, &thread).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_is_not_repeated_ends() {
        let threads = SlackWorkingThreads::default();
        assert!(threads.insert("C1", "1.0"));
        assert!(!threads.insert("C1", "1.0"));
        let now = Instant::now();
        assert_eq!(threads.take_stale(now), []);
        let later = now + STALE_AFTER;
        assert_eq!(threads.take_stale(later), [("C1".into(), "1.0".into())]);
        assert_eq!(threads.take_stale(later), []);
        assert!(!threads.remove("C1", "1.0"));
    }
}
