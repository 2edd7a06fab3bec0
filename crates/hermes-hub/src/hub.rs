//! The Hub as one object: its state, the agents of its tenants, and its listeners.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use arc_swap::ArcSwap;
use hermes_serve::{Principal as McpPrincipal, http::OpenSessions};
use tokio::sync::{Notify, watch};

mod always_on;
mod bot_watch;
mod checkpointed_homes;
mod crash_recovery;
mod home_changes;
mod home_quota;
mod housekeeping;
mod leases;
mod lifecycle;
mod login_watch;
mod node_identity;
mod notices;
mod propagate;
pub(crate) mod provisioning;
mod shares;
mod spilled_replies;
mod tenants;

pub(crate) use crate::hub::{
    home_changes::HomeChange,
    propagate::ChangeEffects,
    shares::FileAccess,
    spilled_replies::{ReplyContent, read_content, store_content},
    tenants::CachedTenant,
};
use crate::{
    Problem, TokenId,
    api_types::{AuditPhase, Time},
    auth::{AccessControl, Authenticator, InvalidSetting},
    hub::{
        checkpointed_homes::CheckpointedHomes, lifecycle::Lifecycle, notices::SeenTenants,
        shares::ObjectShares, tenants::KnownTenants,
    },
    metrics::Metrics,
    settings::{ObjectSettings, Settings},
    storage::{
        audit::{NewAuditEntry, ReadAuditWriter},
        checkpoints::Checkpoints,
        encryption::{EncryptedSecret, EncryptionContext, SecretKey},
        files::{FileLimits, QuotaLimits},
        objects::Objects,
        state::{State, StateError},
    },
    tenants::{
        agents::Agents,
        documents::{DocumentDefaults, EffectiveDocuments},
        leases::{HomeCheckpoints, LeaseOptions, Leases, SharedHomes},
        lookup::StoredTenants,
        runs::Runs,
        runtime::Runtime,
        scheduler::Scheduler,
    },
    webhooks::{TargetScope, WebhookSender},
};
pub use lifecycle::{HubOpenError, OpenedHub};

/// What a Hub is constructed from.
pub struct HubParts {
    pub state: Arc<dyn State>,
    /// Decrypts its secrets.
    pub key: SecretKey,
    pub runtime: Arc<dyn Runtime>,
    pub settings: Settings,
    pub node: String,
}

/// A Hub. Clones are handles to the same one.
#[derive(Clone)]
pub struct Hub(Arc<HubCore>);

struct HubCore {
    node: String,
    settings: Arc<ArcSwap<Settings>>,
    state: Arc<dyn State>,
    key: SecretKey,
    read_audit: ReadAuditWriter,
    access: AccessControl,
    tenants: KnownTenants,
    workers: TenantWorkers,
    files: FileAccess,
    /// Of homes, if nodes hand them over.
    checkpoints: Option<Arc<Checkpoints>>,
    mcp: McpClients,
    commands_changed: Notify,
    seen_tenants: SeenTenants,
    lifecycle: Lifecycle,
}

/// What works for tenants in the background.
struct TenantWorkers {
    agents: Arc<Agents>,
    runs: Arc<Runs>,
    scheduler: Arc<Scheduler>,
    webhooks: Arc<WebhookSender>,
}

/// Clients of `/mcp`.
struct McpClients {
    /// Incremented when the offered tools change.
    tools_version: watch::Sender<u64>,
    sessions: OnceLock<OpenSessions>,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("node", &self.0.node)
            .finish_non_exhaustive()
    }
}

/// Why a Hub does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting that can be checked only at the start.
    #[error("setting `{key}`: {reason}")]
    Setting { key: &'static str, reason: String },
    #[error(transparent)]
    State(#[from] StateError),
}

/// Object storage, where the database is one that nodes share.
fn open_objects(
    state: &dyn State,
    settings: &ObjectSettings,
) -> Result<Option<Objects>, StartError> {
    if state.share_index().is_none() {
        return Ok(None);
    }
    let opened = Objects::open(settings).map_err(|error| StartError::Setting {
        key: "objects.url",
        reason: error.to_string(),
    })?;
    Ok(Some(opened))
}

fn open_checkpoints(
    state: &dyn State,
    objects: Option<Objects>,
    key: &SecretKey,
) -> Option<Arc<Checkpoints>> {
    let checkpoints = Checkpoints::new(objects?, state.checkpoint_rows()?, key.clone());
    Some(Arc::new(checkpoints))
}

/// What keeps homes across nodes.
fn home_checkpoints(
    checkpoints: Option<&Arc<Checkpoints>>,
    state: &Arc<dyn State>,
    settings: &Arc<ArcSwap<Settings>>,
    documents: &Arc<ArcSwap<EffectiveDocuments>>,
    node: &str,
) -> Arc<dyn HomeCheckpoints> {
    match checkpoints {
        Some(checkpoints) => Arc::new(CheckpointedHomes {
            checkpoints: Arc::clone(checkpoints),
            state: Arc::clone(state),
            settings: Arc::clone(settings),
            documents: Arc::clone(documents),
            node: node.to_owned(),
        }),
        None => Arc::new(SharedHomes),
    }
}

fn start_scheduler(
    state: &Arc<dyn State>,
    agents: &Arc<Agents>,
    runs: &Arc<Runs>,
) -> Arc<Scheduler> {
    let clock = Arc::clone(agents.leases());
    let scheduler = Scheduler::start_with_clock(
        Arc::clone(state),
        Arc::clone(agents),
        Arc::clone(runs),
        Arc::new(move || clock.shared_time()),
    );
    if agents.leases().is_shared() {
        store_jobs_with_homes(agents.leases(), &scheduler);
    }
    scheduler
}

/// Another node learns from the database alone when a tenant has a due job. So due times are stored before a home is.
fn store_jobs_with_homes(leases: &Leases, scheduler: &Arc<Scheduler>) {
    let scheduler = Arc::downgrade(scheduler);
    leases.set_save_step(Box::new(move |tenant| {
        let scheduler = scheduler.upgrade();
        Box::pin(async move {
            match scheduler {
                Some(scheduler) => scheduler.store_changed_jobs(&tenant).await,
                None => Ok(()),
            }
        })
    }));
}

fn start_webhooks(
    state: &Arc<dyn State>,
    key: &SecretKey,
    settings: &Settings,
) -> Result<Arc<WebhookSender>, StartError> {
    let scope = TargetScope::from_setting(settings.allow_private_webhooks);
    let started = WebhookSender::start(Arc::clone(state), key.clone(), scope, Arc::new(Time::now));
    started.map_err(|error| StartError::Setting {
        key: "webhooks",
        reason: error.to_string(),
    })
}

impl Hub {
    /// Starts a Hub and resumes what an earlier process left unfinished.
    pub async fn start(parts: HubParts) -> Result<Self, StartError> {
        let HubParts {
            state,
            key,
            runtime,
            settings,
            node,
        } = parts;
        let access = AccessControl::new(Arc::clone(&state), &settings)
            .map_err(|InvalidSetting { key, reason }| StartError::Setting { key, reason })?;
        // Before anything is judged by its age.
        if let Some(time) = state.database_time().await? {
            Time::follow_database(time);
        }
        let lease = Duration::from_secs(settings.lease_seconds);
        node_identity::claim_node_id(&*state, &node, &settings.data_dir, lease).await?;
        state.release_interrupted_keys().await?;
        let interrupted = state.unfinished_file_operations().await?;
        for unfinished in interrupted.iter().filter(|one| !one.is_settled) {
            state
                .settle_file_operation(unfinished.operation.clone(), AuditPhase::Interrupted)
                .await?;
        }
        let effective_documents =
            EffectiveDocuments::load(&*state, DocumentDefaults::from_settings(&settings)).await?;
        let effective_documents = Arc::new(ArcSwap::from_pointee(effective_documents));
        let settings = Arc::new(ArcSwap::from_pointee(settings));
        let records = StoredTenants {
            state: Arc::clone(&state),
            key: key.clone(),
            settings: Arc::clone(&settings),
            effective_documents: Arc::clone(&effective_documents),
        };
        let options = LeaseOptions::from_settings(&settings.load());
        let objects = open_objects(&*state, &settings.load().objects)?;
        let data_dir = settings.load().data_dir.clone();
        let shares = ObjectShares::open(&*state, objects.as_ref(), &data_dir).await?;
        let checkpoints = open_checkpoints(&*state, objects, &key);
        let homes = home_checkpoints(
            checkpoints.as_ref(),
            &state,
            &settings,
            &effective_documents,
            &node,
        );
        let leases = Leases::new(Arc::clone(&state), homes, node.clone(), options);
        let agents = Agents::with_leases(
            Arc::clone(&state),
            runtime,
            Arc::new(records),
            node.clone(),
            leases,
        );
        let previous_end = lifecycle::record_start(&*state, &node).await?;
        let runs = Runs::start(Arc::clone(&state), Arc::clone(&agents), previous_end).await?;
        let scheduler = start_scheduler(&state, &agents, &runs);
        let webhooks = start_webhooks(&state, &key, &settings.load())?;
        let hub = Self(Arc::new(HubCore {
            read_audit: ReadAuditWriter::new(Arc::clone(&state)),
            access,
            tenants: KnownTenants::new(effective_documents),
            workers: TenantWorkers {
                agents,
                runs,
                scheduler,
                webhooks,
            },
            files: FileAccess::new(shares),
            checkpoints,
            mcp: McpClients {
                tools_version: watch::Sender::new(0),
                sessions: OnceLock::new(),
            },
            commands_changed: Notify::new(),
            seen_tenants: SeenTenants::default(),
            lifecycle: Lifecycle::start(),
            node,
            settings,
            state,
            key,
        }));
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            node = hub.node(),
            listen = %hub.settings().listen,
            "Hub starting"
        );
        let tasks = hub.tasks();
        tasks.spawn(housekeeping::run_housekeeping(hub.clone()));
        tasks.spawn(home_quota::run_measurements(hub.clone()));
        tasks.spawn(login_watch::watch_logins(hub.clone()));
        tasks.spawn(crash_recovery::clear_interrupted_changes(
            hub.clone(),
            interrupted,
        ));
        hub.start_leases().await?;
        hub.start_notices();
        provisioning::provision_unfinished(&hub).await?;
        hub.spawn_always_on_agents();
        Ok(hub)
    }

    /// Applies changed settings: limits, sync, offered tools, audit, deleted tenants. Others take effect at the next
    /// start.
    pub fn reload(&self, settings: &Settings) {
        let mut next = Settings::clone(&self.settings());
        let tools_before = (next.mcp.tools, next.mcp.read_only);
        next.limits = settings.limits;
        next.sync.clone_from(&settings.sync);
        next.mcp.tools = settings.mcp.tools;
        next.mcp.read_only = settings.mcp.read_only;
        next.audit = settings.audit;
        next.tenants = settings.tenants;
        let tools_after = (next.mcp.tools, next.mcp.read_only);
        self.0.settings.store(Arc::new(next));
        self.set_share_limits();
        if tools_before != tools_after {
            self.0
                .mcp
                .tools_version
                .send_modify(|version| *version += 1);
        }
    }

    /// Refuses new requests, waits for those in progress, and stores everything.
    pub async fn close(&self) {
        tracing::info!("Hub stopping");
        self.start_draining();
        // First: a stop that takes too long is often ended by a kill, and is still a stop.
        if !self.0.lifecycle.replaced.is_cancelled() {
            lifecycle::record_stop(self.state(), self.node()).await;
        }
        self.tasks().close();
        let drain_timeout = std::time::Duration::from_secs(self.settings().drain_seconds);
        self.0.workers.scheduler.close().await;
        self.drain_leases().await;
        self.0.workers.runs.close(drain_timeout).await;
        self.0.workers.agents.close().await;
        self.0.workers.webhooks.close().await;
        if tokio::time::timeout(drain_timeout, self.tasks().wait())
            .await
            .is_err()
        {
            tracing::warn!("shutdown grace period ended with work in progress");
        }
        self.leases().close().await;
        if let Err(error) = self.0.access.authenticator.store_last_used().await {
            tracing::warn!(%error, "failed to store when tokens were last used");
        }
        self.log_suppressed_refusals();
        self.0.read_audit.close().await;
        tracing::info!("Hub stopped");
    }

    pub fn settings(&self) -> Arc<Settings> {
        self.0.settings.load_full()
    }

    pub fn state(&self) -> &dyn State {
        &*self.0.state
    }

    pub fn shared_state(&self) -> Arc<dyn State> {
        Arc::clone(&self.0.state)
    }

    pub fn agents(&self) -> &Arc<Agents> {
        &self.0.workers.agents
    }

    pub fn runs(&self) -> &Arc<Runs> {
        &self.0.workers.runs
    }

    /// The scheduler of their cron jobs.
    pub fn scheduler(&self) -> &Arc<Scheduler> {
        &self.0.workers.scheduler
    }

    pub fn metrics(&self) -> &Metrics {
        self.0.workers.agents.metrics()
    }

    pub fn node(&self) -> &str {
        &self.0.node
    }

    /// Notified when other nodes have sent commands or replies.
    pub(crate) fn commands_changed(&self) -> &Notify {
        &self.0.commands_changed
    }

    /// The tenants of this node as it last acted on them, where nodes share a database.
    fn seen_tenants(&self) -> &SeenTenants {
        &self.0.seen_tenants
    }

    /// The checkpoints of homes, if nodes hand them over.
    pub(crate) fn checkpoints(&self) -> Option<&Checkpoints> {
        self.0.checkpoints.as_deref()
    }

    /// Encrypts and decrypts secrets.
    pub fn key(&self) -> &SecretKey {
        &self.0.key
    }

    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.0.access.authenticator
    }

    pub(crate) fn access(&self) -> &AccessControl {
        &self.0.access
    }

    pub(crate) fn files(&self) -> &FileAccess {
        &self.0.files
    }

    pub(crate) fn tools_version(&self) -> watch::Receiver<u64> {
        self.0.mcp.tools_version.subscribe()
    }

    /// Writes the audit entry of a request that changed nothing.
    pub(crate) fn record_read(&self, entry: NewAuditEntry) {
        self.0.read_audit.push(entry);
    }

    /// Logs how many refusals were suppressed. Called every minute and at shutdown.
    pub(crate) fn log_suppressed_refusals(&self) {
        for (sender, count) in self.0.access.refusals.take_suppressed() {
            tracing::warn!(count, from = %sender, "refused requests omitted from the audit log");
            let entry = NewAuditEntry::by_hub("refusals_left_out").denied(429);
            self.record_read(entry.with_target(format!("{count} from {sender}")));
        }
    }

    pub(crate) fn encrypt_reply(&self, key: &str, reply: &[u8]) -> Result<Vec<u8>, Problem> {
        let text = String::from_utf8_lossy(reply);
        let sealed = self
            .0
            .key
            .encrypt(&EncryptionContext::reply(key), &text)
            .map_err(|error| Problem::internal(&error))?;
        Ok(sealed.as_bytes().to_vec())
    }

    pub(crate) fn decrypt_reply(&self, key: &str, sealed: &[u8]) -> Result<Vec<u8>, Problem> {
        let sealed = EncryptedSecret::from_bytes(sealed.to_vec());
        let opened = self
            .0
            .key
            .decrypt(&EncryptionContext::reply(key), &sealed)
            .map_err(|error| Problem::internal(&error))?;
        Ok(opened.expose().as_bytes().to_vec())
    }

    /// Limits of file operations.
    pub(crate) fn file_limits(&self) -> FileLimits {
        let limits = self.settings().limits;
        FileLimits {
            read_bytes: usize::try_from(limits.read_bytes).unwrap_or(usize::MAX),
            write_bytes: usize::try_from(limits.write_bytes).unwrap_or(usize::MAX),
            list_entries: limits.list_entries,
            quota: QuotaLimits::default(),
        }
    }

    pub(crate) fn set_mcp_sessions(&self, sessions: OpenSessions) {
        let _ = self.0.mcp.sessions.set(sessions);
    }

    /// Ends the MCP sessions of a token.
    pub(crate) async fn end_mcp_sessions(&self, token: &TokenId) {
        if let Some(sessions) = self.0.mcp.sessions.get() {
            sessions
                .end_sessions_of(&McpPrincipal::new(token.as_str()))
                .await;
        }
    }

    pub(crate) async fn count_mcp_sessions(&self) -> usize {
        match self.0.mcp.sessions.get() {
            Some(sessions) => sessions.count().await,
            None => 0,
        }
    }
}
