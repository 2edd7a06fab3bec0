//! The clients of all accounts, which change when the configuration is loaded again.

use std::{collections::HashMap, sync::Arc};

use hermes_config::sync::RwLock;
use tokio::sync::watch;

use crate::platform::{Account, SharedClient};

/// The clients by account. Clones share them.
#[derive(Clone, Default)]
pub struct ClientRegistry {
    inner: Arc<RegistryInner>,
}

#[derive(Default)]
struct RegistryInner {
    clients: RwLock<HashMap<Account, SharedClient>>,
    /// Counts changes, so that whoever waits for a client notices them.
    changes: watch::Sender<u64>,
}

impl ClientRegistry {
    /// Adds a client, or puts it in the place of the account's last one.
    pub fn insert(&self, client: SharedClient) {
        let account = client.account().clone();
        self.inner.clients.write().insert(account, client);
        self.notify();
    }

    pub fn remove(&self, account: &Account) {
        self.inner.clients.write().remove(account);
        self.notify();
    }

    pub fn get(&self, account: &Account) -> Option<SharedClient> {
        self.inner.clients.read().get(account).cloned()
    }

    /// All clients, in the order of their accounts.
    pub fn all(&self) -> Vec<SharedClient> {
        let mut all: Vec<SharedClient> = self.inner.clients.read().values().cloned().collect();
        all.sort_by(|one, other| one.account().cmp(other.account()));
        all
    }

    /// Notices when a client is added, replaced or removed.
    pub fn watch_changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    fn notify(&self) {
        self.inner.changes.send_modify(|changes| *changes += 1);
    }
}
