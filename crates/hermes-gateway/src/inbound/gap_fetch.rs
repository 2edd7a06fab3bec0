//! What was said while there was no connection, where a platform does not deliver it by itself.
//!
//! Chats that were active lately are asked for messages after the last one that was answered. The inbox knows those that
//! did arrive, so nothing is taken twice.

use std::{convert::Infallible, time::Duration};

use hermes_store::epoch_seconds;
use tokio::sync::watch;

use super::InboundCore;
use crate::platform::{Account, ConnectionState, PlatformClient, UpdateIntake};

/// Chats that were used within this time are asked.
const RECENT_SECONDS: f64 = 24.0 * 3600.0;
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
        mut states: watch::Receiver<ConnectionState>,
    ) -> Infallible {
        let is_connected = |state: &ConnectionState| *state == ConnectionState::Connected;
        loop {
            if states.wait_for(is_connected).await.is_err() {
                return std::future::pending().await;
            }
            self.fetch_missed(account, client, intake).await;
            if states.wait_for(|state| !is_connected(state)).await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    async fn fetch_missed(
        &self,
        account: &Account,
        client: &dyn PlatformClient,
        intake: &dyn UpdateIntake,
    ) {
        let since = epoch_seconds() - RECENT_SECONDS;
        let chats = self
            .routing
            .recent_chats(&account.label(), since, MAX_CHATS);
        for (chat, message_id) in chats {
            let fetching = client.fetch_missed(&chat, &message_id);
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
