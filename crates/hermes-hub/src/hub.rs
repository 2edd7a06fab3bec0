//! The Hub as one object: its state, the agents of its tenants, and its listeners.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use arc_swap::ArcSwap;
use hermes_serve::{Principal as McpPrincipal, http::OpenSessions};
use tokio::sync::watch;

mod always_on;
mod crash_recovery;
mod home_quota;
mod housekeeping;
mod lifecycle;
mod propagate;
pub(crate) mod provisioning;
mod shares;
mod tenants;

pub(crate) use crate::hub::{propagate::ChangeEffects, shares::FileAccess, tenants::CachedTenant};
use crate::{
    Problem, TokenId,
    api_types::AuditPhase,
    auth::{AccessControl, Authenticator, InvalidSetting},
    hub::{lifecycle::Lifecycle, tenants::KnownTenants},
    metrics::Metrics,
    settings::Settings,
    storage::{
        audit::{NewAuditEntry, ReadAuditWriter},
        encryption::{EncryptedSecret, EncryptionContext, SecretKey},
        files::{FileLimits, QuotaLimits},
        state::{State, StateError},
    },
    tenants::{
        agents::Agents,
        documents::{DocumentDefaults, EffectiveDocuments},
        lookup::StoredTenants,
        runs::Runs,
        runtime::Runtime,
        scheduler::Scheduler,
    },
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
    mcp: McpClients,
    lifecycle: Lifecycle,
}

/// What works for tenants in the background.
struct TenantWorkers {
    agents: Arc<Agents>,
    runs: Arc<Runs>,
    scheduler: Arc<Scheduler>,
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
        let agents = Agents::new(Arc::clone(&state), runtime, Arc::new(records), node.clone());
        let previous_end = lifecycle::record_start(&*state, &node).await?;
        let runs = Runs::start(Arc::clone(&state), Arc::clone(&agents), previous_end).await?;
        let scheduler =
            Scheduler::start(Arc::clone(&state), Arc::clone(&agents), Arc::clone(&runs));
        let hub = Self(Arc::new(HubCore {
            read_audit: ReadAuditWriter::new(Arc::clone(&state)),
            access,
            tenants: KnownTenants::new(effective_documents),
            workers: TenantWorkers {
                agents,
                runs,
                scheduler,
            },
            files: FileAccess::default(),
            mcp: McpClients {
                tools_version: watch::Sender::new(0),
                sessions: OnceLock::new(),
            },
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
        tasks.spawn(crash_recovery::clear_interrupted_changes(
            hub.clone(),
            interrupted,
        ));
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
        self.0.files.shares.close_all();
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
        lifecycle::record_stop(self.state(), self.node()).await;
        self.tasks().close();
        let drain_timeout = std::time::Duration::from_secs(self.settings().drain_seconds);
        self.0.workers.scheduler.close().await;
        self.0.workers.runs.close(drain_timeout).await;
        self.0.workers.agents.close().await;
        if tokio::time::timeout(drain_timeout, self.tasks().wait())
            .await
            .is_err()
        {
            tracing::warn!("shutdown grace period ended with work in progress");
        }
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
