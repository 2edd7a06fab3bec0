//! Stores updates before they are acknowledged, and passes new ones on in memory.

use std::sync::Arc;

use futures::future::BoxFuture;
use hermes_store::runtime::{InboxKey, InboxRow, NewUpdate, RuntimeStore};
use serde_json::Value;
use tokio::sync::mpsc;

use super::bot_claim::BotRegistry;
use crate::platform::{Account, IntakeError, RawUpdate, UpdateIntake};

/// An update that is stored and not done.
#[derive(Debug, Clone)]
pub(in crate::inbound) struct StoredUpdate {
    pub(in crate::inbound) key: InboxKey,
    pub(in crate::inbound) payload: Value,
    /// How often it was begun before.
    pub(in crate::inbound) attempts: i64,
    /// An earlier process stored it, and may have answered it.
    pub(in crate::inbound) is_left_over: bool,
}

impl From<InboxRow> for StoredUpdate {
    fn from(row: InboxRow) -> Self {
        Self {
            key: row.key(),
            payload: row.payload,
            attempts: row.attempts,
            is_left_over: true,
        }
    }
}

/// The intake of one account.
pub(in crate::inbound) struct StoredIntake {
    store: RuntimeStore,
    account: Account,
    bots: Arc<dyn BotRegistry>,
    /// Bounded: a platform is not asked for more while these wait.
    updates: mpsc::Sender<StoredUpdate>,
}

impl StoredIntake {
    pub(in crate::inbound) fn new(
        store: RuntimeStore,
        account: Account,
        bots: Arc<dyn BotRegistry>,
        updates: mpsc::Sender<StoredUpdate>,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            account,
            bots,
            updates,
        })
    }
}

impl UpdateIntake for StoredIntake {
    fn store(
        &self,
        updates: Vec<RawUpdate>,
        cursor: Option<Value>,
    ) -> BoxFuture<'_, Result<(), IntakeError>> {
        Box::pin(async move {
            let (platform, name) = (self.account.platform.name(), self.account.name.as_str());
            let mut updates: Vec<NewUpdate> = updates
                .into_iter()
                .map(|update| NewUpdate {
                    event_id: update.event_id,
                    payload: update.payload,
                })
                .collect();
            let has_updates = !updates.is_empty();
            let new = self
                .store
                .store_updates(platform, name, &updates, cursor.as_ref())
                .await
                .map_err(|error| IntakeError(error.to_string()))?;
            for event_id in new {
                let Some(at) = updates
                    .iter()
                    .position(|update| update.event_id == event_id)
                else {
                    continue;
                };
                let update = updates.remove(at);
                let update = StoredUpdate {
                    key: InboxKey {
                        platform: platform.to_owned(),
                        account: name.to_owned(),
                        event_id: update.event_id,
                    },
                    payload: update.payload,
                    attempts: 0,
                    is_left_over: false,
                };
                // Closed only when the gateway stops: the next start finds the update in the store.
                let _ = self.updates.send(update).await;
            }
            // Without this, the platform tells them again, and they are known.
            if has_updates {
                let kept = self.bots.keep_home().await;
                kept.map_err(|error| IntakeError(error.to_string()))?;
            }
            Ok(())
        })
    }

    fn cursor(&self) -> BoxFuture<'_, Result<Option<Value>, IntakeError>> {
        Box::pin(async move {
            let (platform, name) = (self.account.platform.name(), self.account.name.as_str());
            self.store
                .platform_cursor(platform, name)
                .await
                .map_err(|error| IntakeError(error.to_string()))
        })
    }
}
