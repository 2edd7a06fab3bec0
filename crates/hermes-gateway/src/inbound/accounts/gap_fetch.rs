//! What was said while there was no connection, where a platform does not deliver it by itself.
//!
//! Chats that were active lately are asked for messages after the last one that was taken before the connection was lost:
//! what comes over the next connection must not hide what was said before it. The inbox knows the messages that did
//! arrive, so nothing is taken twice. What could not be fetched is tried again.

use std::{collections::HashMap, convert::Infallible, time::Duration};

use futures::future::{Either, select};
use hermes_config::sync::Mutex;
use hermes_store::epoch_seconds;
use tokio::time::{Instant, sleep_until, timeout};

use crate::{
    inbound::InboundCore,
    platform::{
        Account, ChatMark, ConnectionState, PlatformClient, PlatformHealth, PostError,
        ReconnectBackoff, UpdateIntake,
    },
};

/// Chats that were used within this time are asked. Longer than any wrong clock that is set right.
const RECENT_SECONDS: f64 = 7.0 * 24.0 * 3600.0;
/// The most chats that are asked after one outage, and the most that were found beside them.
const MAX_CHATS: usize = 50;
const MAX_FURTHER_CHATS: usize = 50;
/// How long one chat may take: some pages.
const FETCH_TIMEOUT: Duration = Duration::from_mins(1);
/// The pause before what failed is tried again. It is doubled up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// From where on chats are to be asked, since the connection was lost.
#[derive(Default)]
struct GapMarks(HashMap<(String, Option<String>), ChatMark>);

impl GapMarks {
    /// What is not known yet: an earlier mark has seen less.
    fn add(&mut self, marks: Vec<ChatMark>) {
        for mark in marks {
            let key = (mark.chat.id.clone(), mark.chat.thread_id.clone());
            self.0.entry(key).or_insert(mark);
        }
    }

    /// Marks that are older than all others.
    fn put_back(&mut self, marks: Vec<ChatMark>) {
        for mark in marks {
            let key = (mark.chat.id.clone(), mark.chat.thread_id.clone());
            self.0.insert(key, mark);
        }
    }

    fn take(&mut self) -> Vec<ChatMark> {
        self.0.drain().map(|(_, mark)| mark).collect()
    }
}

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
        let marks = Mutex::new(GapMarks::default());
        let noting = std::pin::pin!(self.note_losses(account, health, &marks));
        let fetching =
            std::pin::pin!(self.fetch_after_gaps(account, client, intake, health, &marks));
        match select(noting, fetching).await {
            Either::Left((never, _)) | Either::Right((never, _)) => never,
        }
    }

    /// Notes how far chats were when the connection was lost, and when the process began.
    async fn note_losses(
        &self,
        account: &Account,
        health: &PlatformHealth,
        marks: &Mutex<GapMarks>,
    ) -> Infallible {
        let mut states = health.watch_state();
        loop {
            let is_connected = *states.borrow_and_update() == ConnectionState::Connected;
            if !is_connected {
                marks.lock().add(self.recent_marks(account));
            }
            if states.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    fn recent_marks(&self, account: &Account) -> Vec<ChatMark> {
        let since = epoch_seconds() - RECENT_SECONDS;
        self.routing
            .recent_chats(&account.label(), since, MAX_CHATS)
    }

    async fn fetch_after_gaps(
        &self,
        account: &Account,
        client: &dyn PlatformClient,
        intake: &dyn UpdateIntake,
        health: &PlatformHealth,
        marks: &Mutex<GapMarks>,
    ) -> Infallible {
        let mut connections = health.watch_connections();
        let mut backoff = ReconnectBackoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut retry_at: Option<Instant> = None;
        let mut fetched = 0;
        loop {
            // Counted, so that an outage during a fetch is not overlooked.
            let next_connection = async {
                let counted = connections.wait_for(|count| *count > fetched).await;
                counted.map(|count| *count).ok()
            };
            let is_retry = tokio::select! {
                count = next_connection => match count {
                    Some(count) => {
                        fetched = count;
                        backoff.reset();
                        false
                    }
                    None => return std::future::pending().await,
                },
                () = sleep_until(retry_at.unwrap_or_else(Instant::now)), if retry_at.is_some() => true,
            };
            let mut due = marks.lock().take();
            if due.is_empty() && !is_retry {
                due = self.recent_marks(account);
            }
            let round = self.fetch_missed(account, client, intake, due).await;
            retry_at = (!round.failed.is_empty())
                .then(|| Instant::now() + round.wait.max(backoff.next_pause()));
            marks.lock().put_back(round.failed);
        }
    }

    /// Fetches what was said after these messages, and in chats beside theirs.
    async fn fetch_missed(
        &self,
        account: &Account,
        client: &dyn PlatformClient,
        intake: &dyn UpdateIntake,
        due: Vec<ChatMark>,
    ) -> FetchRound {
        let mut round = FetchRound::default();
        let further = match timeout(FETCH_TIMEOUT, client.find_missed_chats(&due)).await {
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
            if self
                .fetch_missed_of(account, client, intake, &mark, &mut round)
                .await
            {
                round.failed.push(mark);
            }
        }
        round
    }

    /// Fetches what was said in one chat. Returns whether it is to be asked again.
    async fn fetch_missed_of(
        &self,
        account: &Account,
        client: &dyn PlatformClient,
        intake: &dyn UpdateIntake,
        mark: &ChatMark,
        round: &mut FetchRound,
    ) -> bool {
        let fetching = client.fetch_missed(&mark.chat, &mark.after);
        let updates = match timeout(FETCH_TIMEOUT, fetching).await {
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
        if updates.is_empty() {
            return false;
        }
        let stored = intake.store(updates, None).await;
        if let Err(error) = &stored {
            tracing::error!(platform = %account, %error, "failed to store missed messages");
        }
        stored.is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::{ChatAddress, ChatKind};

    fn mark(chat: &str, after: &str) -> ChatMark {
        ChatMark {
            chat: ChatAddress::new(chat, ChatKind::Dm),
            after: after.to_owned(),
        }
    }

    #[test]
    fn a_second_loss_does_not_hide_what_the_first_one_left_to_fetch() {
        let mut marks = GapMarks::default();
        marks.add(vec![mark("1", "10")]);
        marks.add(vec![mark("1", "20"), mark("2", "21")]);
        let mut taken = marks.take();
        taken.sort_by(|one, two| one.chat.id.cmp(&two.chat.id));
        assert_eq!(taken, [mark("1", "10"), mark("2", "21")]);
        // Lost again while they were fetched, and one failed.
        marks.add(vec![mark("1", "30"), mark("2", "31")]);
        marks.put_back(vec![mark("2", "21")]);
        let mut taken = marks.take();
        taken.sort_by(|one, two| one.chat.id.cmp(&two.chat.id));
        assert_eq!(taken, [mark("1", "30"), mark("2", "21")]);
    }
}
