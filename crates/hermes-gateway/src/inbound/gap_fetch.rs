//! What was said while there was no connection, where a platform does not deliver it by itself.
//!
//! Chats that were active lately are asked for messages after the last one that was answered. The inbox knows those that
//! did arrive, so nothing is taken twice.

use std::{convert::Infallible, time::Duration};

use hermes_store::epoch_seconds;
use tokio::sync::watch;

use super::InboundCore;
use crate::platform::{Account, PlatformClient, UpdateIntake};

/// Chats that were used within this time are asked. Longer than any wrong clock that is set right.
const RECENT_SECONDS: f64 = 7.0 * 24.0 * 3600.0;
/// The most chats that are asked after one outage.
const MAX_CHATS: usize = 50;
/// How long one chat may take.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

impl InboundCore {
    /// Fetches what was missed, at the start and after every outage.
    pub(super) async fn fetch_gaps(
        &self,
        account: &Account,
        client: &dyn PlatformClient,
        intake: &dyn UpdateIntake,
        mut connections: watch::Receiver<u64>,
    ) -> Infallible {
        let mut fetched = 0;
        loop {
            // Counted, so that an outage during a fetch is not overlooked.
            let counted = connections.wait_for(|count| *count > fetched).await;
            let Ok(count) = counted.map(|count| *count) else {
                return std::future::pending().await;
            };
            fetched = count;
            self.fetch_missed(account, client, intake, count).await;
        }
    }

    async fn fetch_missed(
        &self,
        account: &Account,
        client: &dyn PlatformClient,
        intake: &dyn UpdateIntake,
        gap: u64,
    ) {
        let since = epoch_seconds() - RECENT_SECONDS;
        let chats = self
            .routing
            .recent_chats(&account.label(), since, MAX_CHATS);
        for (chat, message_id) in chats {
            let fetching = client.fetch_missed(&chat, &message_id, gap);
            let updates = match tokio::time::timeout(FETCH_TIMEOUT, fetching).await {
                Ok(Ok(updates)) => updates,
                Ok(Err(error)) => {
                    tracing::info!(platform = %account, chat = chat.id, %error, "failed to fetch missed messages");
                    continue;
                }
                Err(_) => {
                    tracing::info!(platform = %account, chat = chat.id, "fetching missed messages timed out");
                    continue;
                }
            };
            if updates.is_empty() {
                continue;
            }
            if let Err(error) = intake.store(updates, None).await {
                tracing::error!(platform = %account, %error, "failed to store missed messages");
            }
        }
    }
}
