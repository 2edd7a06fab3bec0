//! What was said while there was no connection, where a platform does not deliver it by itself.
//!
//! Chats that were active lately are asked for messages after the last one that was taken before anything could be missed.
//! The inbox knows the messages that did arrive, so nothing is taken twice. What could not be fetched is tried again.

use std::{convert::Infallible, pin::pin, time::Duration};

use futures::future::{Either, select};
use hermes_config::sync::Mutex;
use hermes_store::epoch_seconds;
use tokio::time::{Instant, sleep_until, timeout};

use super::gap_marks::{GapMarks, GapSigns};
use crate::{
    inbound::{INBOX_RETENTION, InboundCore},
    platform::{
        Account, ChatMark, ConnectionState, PlatformClient, PlatformHealth, PostError, RawUpdate,
        ReconnectBackoff, UpdateIntake,
    },
};

/// Chats that were used within this time are asked. Longer than any wrong clock that is set right.
const RECENT_SECONDS: f64 = 7.0 * 24.0 * 3600.0;
/// What is older is not fetched: the inbox forgets what was taken, and it would be answered a second time.
const OLDEST_FETCHED: Duration = INBOX_RETENTION.saturating_sub(Duration::from_hours(24));
/// The most chats that are asked after one outage, and the most that were found beside them.
const MAX_CHATS: usize = 50;
const MAX_FURTHER_CHATS: usize = 50;
/// How long one chat may take: some pages.
const FETCH_TIMEOUT: Duration = Duration::from_mins(1);
/// The pause before what failed is tried again. It is doubled up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// What one round of fetching left.
#[derive(Default)]
struct FetchRound {
    /// Chats that may be asked again.
    failed: Vec<ChatMark>,
    /// The longest time that the platform wants to be left alone.
    wait: Duration,
}

impl FetchRound {
    /// Whether it failed in a way that passes.
    fn note(&mut self, error: &PostError) -> bool {
        if let PostError::RateLimited { wait } = error {
            self.wait = self.wait.max(*wait);
        }
        error.is_temporary()
    }
}

impl InboundCore {
    /// Fetches what was missed, at the start and after every outage.
    pub(in crate::inbound) async fn fetch_gaps(
        &self,
        account: &Account,
        client: &dyn PlatformClient,
        intake: &dyn UpdateIntake,
        health: &PlatformHealth,
    ) -> Infallible {
        let recent_marks = || {
            let since = epoch_seconds() - RECENT_SECONDS;
            self.routing
                .recent_chats(&account.label(), since, MAX_CHATS)
        };
        let fetch = GapFetch {
            account,
            client,
            intake,
            health,
            recent_marks: &recent_marks,
            marks: Mutex::default(),
        };
        fetch.run().await
    }
}

/// Fetches what one account missed.
struct GapFetch<'a> {
    account: &'a Account,
    client: &'a dyn PlatformClient,
    intake: &'a dyn UpdateIntake,
    health: &'a PlatformHealth,
    /// How far chats are that were active lately.
    recent_marks: &'a (dyn Fn() -> Vec<ChatMark> + Send + Sync),
    marks: Mutex<GapMarks>,
}

impl GapFetch<'_> {
    async fn run(&self) -> Infallible {
        let noting = pin!(self.note_signs());
        let fetching = pin!(self.fetch_after_gaps());
        match select(noting, fetching).await {
            Either::Left((never, _)) | Either::Right((never, _)) => never,
        }
    }

    /// Notes how far chats were when something may have been missed, and when the process began.
    async fn note_signs(&self) -> Infallible {
        let mut states = self.health.watch_state();
        let mut connections = self.health.watch_connections();
        let mut ends = self.health.watch_announced_ends();
        loop {
            states.mark_unchanged();
            connections.mark_unchanged();
            ends.mark_unchanged();
            self.note();
            let changed = tokio::select! {
                changed = states.changed() => changed,
                changed = connections.changed() => changed,
                changed = ends.changed() => changed,
            };
            if changed.is_err() {
                return std::future::pending().await;
            }
        }
    }

    fn note(&self) {
        let signs = GapSigns::read(self.health);
        self.marks.lock().note(signs, self.recent_marks);
    }

    async fn fetch_after_gaps(&self) -> Infallible {
        let mut connections = self.health.watch_connections();
        let mut backoff = ReconnectBackoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut retry_at: Option<Instant> = None;
        let mut fetched = 0;
        loop {
            // Counted, so that an outage during a fetch is not overlooked.
            let next_connection = async {
                let counted = connections.wait_for(|count| *count > fetched).await;
                counted.map(|count| *count).ok()
            };
            tokio::select! {
                count = next_connection => match count {
                    Some(count) => {
                        fetched = count;
                        backoff.reset();
                    }
                    None => return std::future::pending().await,
                },
                () = sleep_until(retry_at.unwrap_or_else(Instant::now)), if retry_at.is_some() => {}
            }
            retry_at = None;
            self.note();
            // During an outage the marks are kept for the next connection: more may be missed until then.
            if self.health.state() != ConnectionState::Connected {
                continue;
            }
            let due = self.marks.lock().take();
            let round = self.fetch_missed(due).await;
            if !round.failed.is_empty() {
                retry_at = Some(Instant::now() + round.wait.max(backoff.next_pause()));
            }
            self.marks.lock().put_back(round.failed);
        }
    }

    /// Fetches what was said after these messages, and in chats beside theirs.
    async fn fetch_missed(&self, due: Vec<ChatMark>) -> FetchRound {
        let account = self.account;
        let mut round = FetchRound::default();
        let looking = self.client.find_missed_chats(&due);
        let further = match timeout(FETCH_TIMEOUT, looking).await {
            Ok(Ok(further)) => further,
            Ok(Err(error)) => {
                tracing::info!(platform = %account, %error, "failed to look for chats with missed messages");
                if round.note(&error) {
                    // Everything is looked at again; the inbox knows what came with this round.
                    round.failed.clone_from(&due);
                }
                Vec::new()
            }
            Err(_) => {
                tracing::info!(platform = %account, "looking for chats with missed messages timed out");
                round.failed.clone_from(&due);
                Vec::new()
            }
        };
        if further.len() > MAX_FURTHER_CHATS {
            tracing::warn!(platform = %account, found = further.len(), asked = MAX_FURTHER_CHATS, "messages may have been missed in more chats than are asked");
        }
        for mark in due
            .into_iter()
            .chain(further.into_iter().take(MAX_FURTHER_CHATS))
        {
            if self.fetch_missed_of(&mark, &mut round).await {
                round.failed.push(mark);
            }
        }
        round
    }

    /// Fetches what was said in one chat. Returns whether it is to be asked again.
    async fn fetch_missed_of(&self, mark: &ChatMark, round: &mut FetchRound) -> bool {
        let account = self.account;
        let fetching = self.client.fetch_missed(&mark.chat, &mark.after);
        let mut updates = match timeout(FETCH_TIMEOUT, fetching).await {
            Ok(Ok(updates)) => updates,
            Ok(Err(error)) => {
                tracing::info!(platform = %account, chat = mark.chat.id, %error, "failed to fetch missed messages");
                return round.note(&error);
            }
            Err(_) => {
                tracing::info!(platform = %account, chat = mark.chat.id, "fetching missed messages timed out");
                return true;
            }
        };
        updates.retain(|update| !self.is_forgotten(update));
        if updates.is_empty() {
            return false;
        }
        let stored = self.intake.store(updates, None).await;
        if let Err(error) = &stored {
            tracing::error!(platform = %account, %error, "failed to store missed messages");
        }
        stored.is_err()
    }

    /// Whether the inbox may not know any more that this message was taken.
    fn is_forgotten(&self, update: &RawUpdate) -> bool {
        let event = self.client.decode(&update.payload);
        let sent_at = event.and_then(|event| event.sent_at);
        let oldest = self.client.platform_time() - OLDEST_FETCHED.as_secs_f64();
        sent_at.is_some_and(|at| at < oldest)
    }
}

#[cfg(test)]
mod tests;
