//! What people write to the bots of a home, from the platform to the answer.
//!
//! An update is stored by its account's intake, decoded and admitted in the order it came, and handed to the worker of
//! its conversation, which runs turns one after another. What is not done when the process ends is found in the inbox by
//! the next one.

mod accounts;
mod approvals;
mod commands;
mod dispatch;
mod routing;
mod session_worker;
mod turn;

pub use self::accounts::bot_claim;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use hermes_config::{BusyInputMode, Settings, sync::Mutex};
use hermes_store::{SessionKey, StoreError, mirror::SessionsJson, runtime::InboxKey};
use tokio::sync::{Semaphore, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    accounts::LiveAccounts,
    accounts::bot_claim::{BotRegistry, MachineBots},
    approvals::approval_cards::ApprovalCards,
    dispatch::LiveWorker,
    dispatch::group_albums::GroupAlbums,
    routing::RoutingTable,
    routing::chat::Chat,
    session_worker::background::BackgroundTurns,
};
use crate::{
    access::PairingStore,
    channel_directory::ChannelDirectoryWriter,
    gateway::Gateway,
    outbound::{ClientRegistry, Outbox, QueuedReply},
    platform::{InboundEvent, InboundKind},
};

/// How long updates that are done are remembered, so that a second delivery is recognised.
const INBOX_RETENTION: Duration = Duration::from_hours(24 * 7);
const PRUNE_INTERVAL: Duration = Duration::from_hours(1);
/// Voice messages that become text at the same time: a program on this machine needs a core for each.
const PARALLEL_TRANSCRIPTIONS: usize = 2;
/// How long tasks may take to end when the gateway stops.
const STOP_GRACE: Duration = Duration::from_secs(8);

/// The platforms of a home. Clones share them.
#[derive(Clone)]
pub struct LiveGateway {
    core: Arc<InboundCore>,
    accounts: Arc<LiveAccounts>,
}

/// What accounts and conversations share.
struct InboundCore {
    gateway: Gateway,
    outbox: Outbox,
    clients: ClientRegistry,
    /// Who keeps count of bots that are in use.
    bots: Arc<dyn BotRegistry>,
    routing: RoutingTable,
    cards: ApprovalCards,
    directory: ChannelDirectoryWriter,
    pairing: PairingStore,
    workers: Mutex<HashMap<SessionKey, LiveWorker>>,
    background: BackgroundTurns,
    albums: GroupAlbums,
    /// Bounds the voice messages that become text at the same time.
    transcriptions: Semaphore,
    /// Updates that this process works on.
    taken: Mutex<HashSet<InboxKey>>,
    /// Accounts, workers of conversations, and messages that show approvals.
    tasks: TaskTracker,
    /// Stops accounts and workers.
    stop: CancellationToken,
    /// Stops what sends, after everything that may still say something.
    stop_sending: CancellationToken,
}

impl LiveGateway {
    /// Starts the accounts of a gateway. What an earlier process left is taken up.
    pub async fn start(gateway: &Gateway) -> Result<Self, StoreError> {
        Self::start_with(gateway, Arc::new(MachineBots)).await
    }

    /// The same, where somebody else keeps count of the bots that are in use.
    pub async fn start_with(
        gateway: &Gateway,
        bots: Arc<dyn BotRegistry>,
    ) -> Result<Self, StoreError> {
        let agent = gateway.agent();
        // Subscribed before they are read, so that no change is missed.
        let changes = gateway.settings_changes();
        let settings = agent.settings();
        let copy = if settings.gateway.write_sessions_json {
            SessionsJson::Written
        } else {
            SessionsJson::Off
        };
        let clients = ClientRegistry::default();
        let outbox = Outbox::new(
            gateway.home(),
            &settings,
            gateway.store().clone(),
            clients.clone(),
        );
        let core = Arc::new(InboundCore {
            routing: RoutingTable::load(gateway.home(), agent.store(), copy).await?,
            directory: ChannelDirectoryWriter::new(gateway.home()),
            pairing: PairingStore::new(gateway.home()),
            gateway: gateway.clone(),
            outbox,
            clients,
            bots,
            cards: ApprovalCards::default(),
            workers: Mutex::default(),
            background: BackgroundTurns::default(),
            albums: GroupAlbums::default(),
            transcriptions: Semaphore::new(PARALLEL_TRANSCRIPTIONS),
            taken: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            stop_sending: CancellationToken::new(),
        });
        core.follow_migrations();
        gateway.delivery().set_outbox(core.outbox.clone());
        core.record_sent_answers();
        let live = Self {
            accounts: Arc::default(),
            core: core.clone(),
        };
        live.spawn_background_tasks();
        live.accounts.apply(&core, &settings).await;
        live.spawn_settings_follower(changes);
        Ok(live)
    }

    fn spawn_background_tasks(&self) {
        let core = &self.core;
        core.tasks.spawn({
            let core = core.clone();
            async move { core.outbox.run(core.stop_sending.clone()).await }
        });
        core.tasks.spawn({
            let core = core.clone();
            async move {
                let stop = &core.stop_sending;
                while (stop.run_until_cancelled(core.outbox.wait_for_sent()).await).is_some() {
                    // So that another machine does not say it once more.
                    if let Err(error) = core.bots.keep_home().await {
                        tracing::warn!(%error, "failed to keep the home after messages were sent");
                    }
                }
            }
        });
        core.tasks.spawn({
            let core = core.clone();
            async move { core.routing.write_changes(&core.stop_sending).await }
        });
        core.tasks.spawn({
            let core = core.clone();
            async move {
                let clients = core.clients.clone();
                core.directory.run(move || clients.all(), &core.stop).await;
            }
        });
        core.tasks.spawn({
            let core = core.clone();
            async move {
                let mut ticks = tokio::time::interval(PRUNE_INTERVAL);
                while core.stop.run_until_cancelled(ticks.tick()).await.is_some() {
                    let pruned = core.gateway.store().prune_inbox(INBOX_RETENTION).await;
                    if let Err(error) = pruned {
                        tracing::warn!(%error, "failed to prune the inbox");
                    }
                    core.routing.prune();
                }
            }
        });
    }

    /// Starts and stops accounts when other settings are applied.
    fn spawn_settings_follower(&self, mut changes: watch::Receiver<u64>) {
        let live = self.clone();
        self.core.tasks.spawn(async move {
            let stop = live.core.stop.clone();
            while let Some(Ok(())) = stop.run_until_cancelled(changes.changed()).await {
                let settings = live.core.gateway.agent().settings();
                live.apply_settings(&settings).await;
            }
        });
    }

    async fn apply_settings(&self, settings: &Settings) {
        self.core.outbox.apply_settings(settings);
        self.accounts.apply(&self.core, settings).await;
    }

    /// What sends messages.
    pub fn outbox(&self) -> &Outbox {
        &self.core.outbox
    }

    /// Receives no more. Turns that go on may still answer.
    pub async fn stop_receiving(&self) {
        self.accounts.stop_all().await;
    }

    /// Ends everything, after the runs have ended. What is not sent yet is sent by the next process.
    pub async fn close(&self) {
        let core = &self.core;
        core.stop.cancel();
        self.accounts.stop_all().await;
        core.tasks.close();
        core.stop_sending.cancel();
        if tokio::time::timeout(STOP_GRACE, core.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("platforms did not stop in time");
        }
    }
}

impl InboundCore {
    fn busy_mode(&self) -> BusyInputMode {
        self.gateway.agent().settings().gateway.busy_input_mode
    }

    /// Queues a short answer to an event.
    async fn reply(&self, chat: &Chat, event: &InboundEvent, text: &str, dedupe_key: &str) {
        let reply_to = match &event.kind {
            InboundKind::Message(message) => Some(message.id.as_str()),
            _ => None,
        };
        self.queue_text(chat, text, reply_to, dedupe_key).await;
    }

    async fn queue_text(&self, chat: &Chat, text: &str, reply_to: Option<&str>, dedupe_key: &str) {
        self.note_spoken(chat);
        let reply = self.new_reply(chat, text, reply_to, dedupe_key);
        if let Err(error) = self.outbox.queue_reply(reply).await {
            tracing::error!(session_key = %chat.key, %error, "failed to queue a reply");
        }
    }

    fn new_reply(
        &self,
        chat: &Chat,
        text: &str,
        reply_to: Option<&str>,
        dedupe_key: &str,
    ) -> QueuedReply {
        use hermes_config::ReplyToMode;
        let mode = chat.account.settings.reply_to_mode;
        QueuedReply {
            // In a direct chat everybody sees what is answered.
            reply_to: reply_to
                .filter(|_| mode != ReplyToMode::Off && !chat.address.is_direct())
                .map(str::to_owned),
            replies_with_every_chunk: mode == ReplyToMode::All,
            ..QueuedReply::new(
                chat.account.account.clone(),
                chat.address.clone(),
                text,
                dedupe_key,
            )
        }
    }

    /// The model that was chosen for a chat, and its provider.
    fn chosen_model(&self, key: &SessionKey) -> (Option<String>, Option<String>) {
        let chosen = self
            .routing
            .entry(key)
            .and_then(|entry| entry.details.model_override.clone());
        chosen.map_or((None, None), |chosen| (chosen.model, chosen.provider))
    }
}

/// Names what is said because of an update, so that it is said once.
fn dedupe_key(what: &str, key: &InboxKey) -> String {
    format!("{what}:{}@{}:{}", key.platform, key.account, key.event_id)
}
