//! The Hub as one object: its state, the agents of its tenants, and its listeners.

use std::{
    fmt,
    net::Ipv4Addr,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use hermes_config::{Home, sync::Mutex};
use hermes_mcp::serve::{Principal as McpPrincipal, http::OpenSessions};
use http::HeaderValue;
use tokio::sync::{Semaphore, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Problem, TenantId, TokenId,
    api_types::{AuditPhase, Time},
    auth::{Authenticator, Cidr, Principal, Scopes, rate_limit::RateLimiter},
    http::middleware::{WrongToken, refusals::RefusalLog},
    metrics::Metrics,
    operations::dispatch::Caller,
    service::{
        documents::{DocumentDefaults, EffectiveDocuments},
        shares::{ActiveSearches, OpenShares},
        tenants::ProvisioningHomes,
    },
    settings::Settings,
    storage::{
        audit::{NewAuditEntry, ReadAuditWriter},
        encryption::{EncryptedSecret, EncryptionContext, SecretKey},
        files::{FileLimits, QuotaLimits},
        state::{ChangeCount, FileOperation, State, TenantRecord},
    },
    tenants::{agents::Agents, runs::Runs, runtime::Runtime, scheduler::Scheduler},
};

mod always_on;
mod crash_recovery;
mod deferred;
pub(crate) mod home_check;
mod home_quota;
mod housekeeping;
mod open;
mod previous_end;
mod propagate;
pub(crate) mod provisioning;
mod tenant_cache;

use crate::hub::tenant_cache::TenantCache;
pub(crate) use crate::{
    http::connections::tls::ClientAddress,
    hub::{propagate::ChangeEffects, tenant_cache::CachedTenant},
};
pub use crate::{
    http::serve::ServeError,
    hub::open::{HubOpenError, OpenedHub},
};

const MAX_ARCHIVES: usize = 8;

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
    state: Arc<dyn State>,
    key: SecretKey,
    agents: Arc<Agents>,
    runs: Arc<Runs>,
    scheduler: Arc<Scheduler>,
    settings: Arc<ArcSwap<Settings>>,
    node: String,
    authenticator: Authenticator,
    read_audit: Mutex<Option<ReadAuditWriter>>,
    metrics: Arc<Metrics>,
    request_limiter: RateLimiter<TokenId>,
    wrong_token_limiter: RateLimiter<WrongToken>,
    refusals: RefusalLog,
    trusted_proxies: Vec<Cidr>,
    challenge: HeaderValue,
    anonymous: Caller,
    effective_documents: Arc<ArcSwap<EffectiveDocuments>>,
    tenant_cache: TenantCache,
    /// Incremented when the offered tools change.
    tools_version: watch::Sender<u64>,
    mcp_sessions: OnceLock<OpenSessions>,
    provisioning: ProvisioningHomes,
    shares: OpenShares,
    searches: ActiveSearches,
    /// Limits concurrent archives: each occupies a thread until its receiver has read it.
    archives: Arc<Semaphore>,
    /// Changes in progress, and other work that must finish before the Hub stops.
    tasks: TaskTracker,
    shutdown: CancellationToken,
    is_draining: AtomicBool,
    started_at: Time,
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
    State(#[from] crate::storage::state::StateError),
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
        let trusted_proxies = settings
            .trust_proxy
            .iter()
            .map(|range| {
                range.parse().map_err(|error| StartError::Setting {
                    key: "trust_proxy",
                    reason: format!("{error}"),
                })
            })
            .collect::<Result<_, _>>()?;
        let metadata = format!(
            "{}/.well-known/oauth-protected-resource/mcp",
            settings.public_url
        );
        let challenge = HeaderValue::from_str(&format!("Bearer resource_metadata=\"{metadata}\""))
            .map_err(|error| StartError::Setting {
                key: "public_url",
                reason: error.to_string(),
            })?;
        state.release_interrupted_keys().await?;
        let cut_off = state.unfinished_file_operations().await?;
        for entry in &cut_off {
            let intent = FileOperation { seq: entry.seq };
            state
                .settle_file_operation(intent, AuditPhase::Interrupted)
                .await?;
        }
        let effective_documents =
            EffectiveDocuments::load(&*state, DocumentDefaults::from_settings(&settings)).await?;
        let effective_documents = Arc::new(ArcSwap::from_pointee(effective_documents));
        let settings = Arc::new(ArcSwap::from_pointee(settings));
        let records = crate::tenants::lookup::StoredTenants {
            state: Arc::clone(&state),
            key: key.clone(),
            settings: Arc::clone(&settings),
            effective_documents: Arc::clone(&effective_documents),
        };
        let agents = Agents::new(Arc::clone(&state), runtime, Arc::new(records), node.clone());
        let previous_end = previous_end::take(&*state, &node).await?;
        let runs = Runs::start(Arc::clone(&state), Arc::clone(&agents), previous_end).await?;
        let clock = Scheduler::start(Arc::clone(&state), Arc::clone(&agents), Arc::clone(&runs));
        let hub = Self(Arc::new(HubCore {
            authenticator: Authenticator::new(Arc::clone(&state)),
            read_audit: Mutex::new(Some(ReadAuditWriter::new(Arc::clone(&state)))),
            metrics: Arc::clone(agents.metrics()),
            request_limiter: RateLimiter::default(),
            wrong_token_limiter: RateLimiter::default(),
            refusals: RefusalLog::default(),
            trusted_proxies,
            challenge,
            anonymous: anonymous_caller(),
            effective_documents,
            tenant_cache: TenantCache::default(),
            tools_version: watch::Sender::new(0),
            mcp_sessions: OnceLock::new(),
            provisioning: ProvisioningHomes::default(),
            shares: OpenShares::default(),
            searches: ActiveSearches::default(),
            archives: Arc::new(Semaphore::new(MAX_ARCHIVES)),
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
            is_draining: AtomicBool::new(false),
            started_at: Time::now(),
            settings,
            state,
            key,
            agents,
            runs,
            scheduler: clock,
            node,
        }));
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            node = hub.node(),
            listen = %hub.settings().listen,
            "Hub starting"
        );
        hub.0
            .tasks
            .spawn(housekeeping::run_housekeeping(hub.clone()));
        hub.0
            .tasks
            .spawn(crate::hub::home_quota::run_measurements(hub.clone()));
        hub.0
            .tasks
            .spawn(crate::hub::crash_recovery::clear_interrupted_changes(
                hub.clone(),
                cut_off,
            ));
        crate::service::tenants::provision_unfinished(&hub).await?;
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
        self.0.shares.close_all();
        if tools_before != tools_after {
            self.0.tools_version.send_modify(|version| *version += 1);
        }
    }

    /// Refuses new requests, waits for those in progress, and stores everything.
    pub async fn close(&self) {
        tracing::info!("Hub stopping");
        self.start_draining();
        // First: a stop that takes too long is often ended by a kill, and is a stop all the same.
        previous_end::note_stop(self.state(), self.node()).await;
        self.0.tasks.close();
        let patience = std::time::Duration::from_secs(self.settings().drain_seconds);
        self.0.scheduler.close().await;
        self.0.runs.close(patience).await;
        self.0.agents.close().await;
        if tokio::time::timeout(patience, self.0.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("shutdown grace period ended with work in progress");
        }
        if let Err(error) = self.0.authenticator.store_last_used().await {
            tracing::warn!(%error, "failed to store when tokens were last used");
        }
        self.log_suppressed_refusals();
        let reads = self.0.read_audit.lock().take();
        if let Some(reads) = reads {
            reads.close().await;
        }
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
        &self.0.agents
    }

    pub fn runs(&self) -> &Arc<Runs> {
        &self.0.runs
    }

    /// The scheduler of their cron jobs.
    pub fn scheduler(&self) -> &Arc<Scheduler> {
        &self.0.scheduler
    }

    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub fn node(&self) -> &str {
        &self.0.node
    }

    /// Encrypts and decrypts secrets.
    pub fn key(&self) -> &SecretKey {
        &self.0.key
    }

    pub(crate) fn started_at(&self) -> Time {
        self.0.started_at
    }

    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.0.authenticator
    }

    pub(crate) fn request_limiter(&self) -> &RateLimiter<TokenId> {
        &self.0.request_limiter
    }

    pub(crate) fn wrong_token_limiter(&self) -> &RateLimiter<WrongToken> {
        &self.0.wrong_token_limiter
    }

    pub(crate) fn refusals(&self) -> &RefusalLog {
        &self.0.refusals
    }

    pub(crate) fn trusted_proxies(&self) -> &[Cidr] {
        &self.0.trusted_proxies
    }

    pub(crate) fn challenge(&self) -> HeaderValue {
        self.0.challenge.clone()
    }

    pub(crate) fn anonymous(&self) -> Caller {
        self.0.anonymous.clone()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.is_draining.load(Ordering::Relaxed)
    }

    /// Cancelled when the Hub shuts down.
    pub(crate) fn shutdown(&self) -> &CancellationToken {
        &self.0.shutdown
    }

    /// Tracks work that must finish before the Hub stops.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    pub(crate) fn tools_version(&self) -> watch::Receiver<u64> {
        self.0.tools_version.subscribe()
    }

    /// The effective policy, configuration and specialization.
    pub(crate) fn effective_documents(&self) -> Arc<EffectiveDocuments> {
        self.0.effective_documents.load_full()
    }

    /// Replaces the effective documents, unless the given ones are older: callers may arrive out of order.
    pub(crate) fn set_effective_documents(&self, effective_documents: EffectiveDocuments) {
        let effective_documents = Arc::new(effective_documents);
        self.0.effective_documents.rcu(|current| {
            let newest = if effective_documents.is_older_than(current) {
                current
            } else {
                &effective_documents
            };
            Arc::clone(newest)
        });
    }

    /// A tenant, deleted ones too.
    pub(crate) async fn tenant(&self, id: &TenantId) -> Result<Option<Arc<CachedTenant>>, Problem> {
        // Before the look: what changes meanwhile makes it a look at the past.
        let changes = self.state().changes_of(id);
        let known = changes.and_then(|changes| self.0.tenant_cache.get(id, changes));
        if known.is_some() {
            return Ok(known);
        }
        let found = self.state().tenant(id).await?;
        let found = found.map(|record| Arc::new(CachedTenant::new(record)));
        if let (Some(tenant), Some(changes)) = (&found, changes) {
            self.0.tenant_cache.insert(tenant, changes);
        }
        Ok(found)
    }

    /// Keeps a tenant as a change has left it, so that it need not be looked up again. The count is the one before that
    /// change.
    pub(crate) fn keep_changed(
        &self,
        record: TenantRecord,
        before: Option<ChangeCount>,
    ) -> Arc<CachedTenant> {
        let after = self.state().changes_of(&record.id);
        let tenant = Arc::new(CachedTenant::new(record));
        if let (Some(before), Some(after)) = (before, after)
            && after.is_one_change_after(before)
        {
            self.0.tenant_cache.insert(&tenant, after);
        }
        tenant
    }

    /// Where a tenant's files lie.
    pub fn home(&self, tenant: &TenantRecord) -> Home {
        crate::tenants::lookup::tenant_home(&self.0.settings.load(), tenant)
    }

    pub(crate) fn tenant_directory(&self, id: &TenantId) -> PathBuf {
        self.settings().data_dir.join("tenants").join(id.as_str())
    }

    /// Writes the audit entry of a request that changed nothing.
    pub(crate) fn record_read(&self, entry: NewAuditEntry) {
        let reads = self.0.read_audit.lock();
        if let Some(reads) = &*reads {
            reads.push(entry);
        } else {
            tracing::warn!("audit entry dropped: the writer is closed");
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

    pub(crate) fn start_draining(&self) {
        self.0.is_draining.store(true, Ordering::Relaxed);
        self.0.shutdown.cancel();
    }

    pub(crate) fn shares(&self) -> &OpenShares {
        &self.0.shares
    }

    pub(crate) fn searches(&self) -> &ActiveSearches {
        &self.0.searches
    }

    pub(crate) fn archives(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.archives)
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
        let _ = self.0.mcp_sessions.set(sessions);
    }

    /// Ends the MCP sessions of a token.
    pub(crate) async fn end_mcp_sessions(&self, token: &TokenId) {
        if let Some(sessions) = self.0.mcp_sessions.get() {
            sessions
                .end_sessions_of(&McpPrincipal::new(token.as_str()))
                .await;
        }
    }

    pub(crate) async fn count_mcp_sessions(&self) -> usize {
        match self.0.mcp_sessions.get() {
            Some(sessions) => sessions.count().await,
            None => 0,
        }
    }
}

/// The caller on routes that need no token.
fn anonymous_caller() -> Caller {
    let principal = Principal {
        token: TokenId::anonymous(),
        name: "nobody".into(),
        scopes: Scopes::default(),
        tenants: Some([].into()),
        expires_at: None,
        cidrs: [].into(),
    };
    Caller {
        principal: Arc::new(principal),
        key: None,
        address: Ipv4Addr::LOCALHOST.into(),
    }
}
