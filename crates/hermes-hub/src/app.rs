//! The Hub as one object: its state, the agents of its tenants, and its listeners.

use std::{
    fmt,
    net::Ipv4Addr,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use hermes_config::Home;
use hermes_mcp::serve::{self, http::OpenSessions};
use http::HeaderValue;
use tokio::sync::{Semaphore, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Problem, TenantId, TokenId,
    agents::Agents,
    audit::{NewEntry, ReadEntries},
    auth::{Authenticator, Cidr, Principal, Scopes},
    clock::Clock,
    dispatch::Visitor,
    files::{Allowance, FileLimits},
    metrics::Metrics,
    rate::Buckets,
    refusals::Refusals,
    rest::door::WrongToken,
    runs::Runs,
    runtime::Runtime,
    seal::{Place, Sealed, SecretKey},
    service::{
        documents::{Baseline, Standing},
        shares::{Searches, Shares},
        tenants::Making,
    },
    settings::Settings,
    shapes::{AuditPhase, Time},
    state::{ChangeCount, Intent, State, TenantRecord},
};

mod afterwards;
mod connections;
mod gauges;
pub(crate) mod homes;
mod housekeeping;
mod known_tenants;
mod leftovers;
mod listeners;
mod news;
mod open_connections;
mod opening;
mod previous_end;
mod serving;
mod storage;
mod tenancy;
mod tls;
mod watched;

pub(crate) use known_tenants::KnownTenant;
use known_tenants::KnownTenants;
pub(crate) use news::Consequences;
pub use opening::{OpenError, Opened};
pub use serving::ServeError;
pub(crate) use tls::ClientAddress;

const MOST_ARCHIVES: usize = 8;

/// What a Hub is constructed from.
pub struct Parts {
    pub state: Arc<dyn State>,
    /// Decrypts its secrets.
    pub key: SecretKey,
    pub runtime: Arc<dyn Runtime>,
    pub settings: Settings,
    pub node: String,
}

/// A Hub. Clones are handles to the same one.
#[derive(Clone)]
pub struct Hub(Arc<Inner>);

struct Inner {
    state: Arc<dyn State>,
    key: SecretKey,
    agents: Arc<Agents>,
    runs: Arc<Runs>,
    clock: Arc<Clock>,
    settings: Arc<ArcSwap<Settings>>,
    node: String,
    authenticator: Authenticator,
    reads: Mutex<Option<ReadEntries>>,
    metrics: Arc<Metrics>,
    requests: Buckets<TokenId>,
    wrong_tokens: Buckets<WrongToken>,
    refusals: Refusals,
    trusted_proxies: Vec<Cidr>,
    challenge: HeaderValue,
    nobody: Visitor,
    standing: Arc<ArcSwap<Standing>>,
    known_tenants: KnownTenants,
    /// Incremented when the offered tools change.
    tool_set: watch::Sender<u64>,
    mcp_sessions: OnceLock<OpenSessions>,
    homes_in_making: Making,
    shares: Shares,
    searches: Searches,
    /// Limits concurrent archives: each occupies a thread until its receiver has read it.
    archives: Arc<Semaphore>,
    /// Changes in progress, and other work that must finish before the Hub stops.
    work: TaskTracker,
    stop: CancellationToken,
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
    Setting {
        key: &'static str,
        reason: String,
    },
    #[error(transparent)]
    State(#[from] crate::state::StateError),
}

impl Hub {
    /// Starts a Hub and resumes what an earlier process left unfinished.
    pub async fn start(parts: Parts) -> Result<Self, StartError> {
        let Parts {
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
        let cut_off = state.unfinished_files().await?;
        for entry in &cut_off {
            let intent = Intent { seq: entry.seq };
            state.settle_files(intent, AuditPhase::Interrupted).await?;
        }
        let standing = Standing::load(&*state, Baseline::of(&settings)).await?;
        let standing = Arc::new(ArcSwap::from_pointee(standing));
        let settings = Arc::new(ArcSwap::from_pointee(settings));
        let records = tenancy::Records {
            state: Arc::clone(&state),
            key: key.clone(),
            settings: Arc::clone(&settings),
            standing: Arc::clone(&standing),
        };
        let agents = Agents::new(Arc::clone(&state), runtime, Arc::new(records), node.clone());
        let previous_end = previous_end::take(&*state, &node).await?;
        let runs = Runs::start(Arc::clone(&state), Arc::clone(&agents), previous_end).await?;
        let clock = Clock::start(Arc::clone(&state), Arc::clone(&agents), Arc::clone(&runs));
        let hub = Self(Arc::new(Inner {
            authenticator: Authenticator::new(Arc::clone(&state)),
            reads: Mutex::new(Some(ReadEntries::new(Arc::clone(&state)))),
            metrics: Arc::clone(agents.metrics()),
            requests: Buckets::default(),
            wrong_tokens: Buckets::default(),
            refusals: Refusals::default(),
            trusted_proxies,
            challenge,
            nobody: nobody(),
            standing,
            known_tenants: KnownTenants::default(),
            tool_set: watch::Sender::new(0),
            mcp_sessions: OnceLock::new(),
            homes_in_making: Making::default(),
            shares: Shares::default(),
            searches: Searches::default(),
            archives: Arc::new(Semaphore::new(MOST_ARCHIVES)),
            work: TaskTracker::new(),
            stop: CancellationToken::new(),
            is_draining: AtomicBool::new(false),
            started_at: Time::now(),
            settings,
            state,
            key,
            agents,
            runs,
            clock,
            node,
        }));
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            node = hub.node(),
            listen = %hub.settings().listen,
            "Hub starting"
        );
        hub.0.work.spawn(housekeeping::run(hub.clone()));
        hub.0.work.spawn(storage::run(hub.clone()));
        hub.0.work.spawn(leftovers::clear(hub.clone(), cut_off));
        crate::service::tenants::provision_unfinished(&hub).await?;
        hub.start_listeners();
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
        self.0.shares.forget_all();
        if tools_before != tools_after {
            self.0.tool_set.send_modify(|version| *version += 1);
        }
    }

    /// Refuses new requests, waits for those in progress, and stores everything.
    pub async fn close(&self) {
        tracing::info!("Hub stopping");
        self.begin_drain();
        // First: a stop that takes too long is often ended by a kill, and is a stop all the same.
        previous_end::note_stop(self.state(), self.node()).await;
        self.0.work.close();
        let patience = std::time::Duration::from_secs(self.settings().drain_seconds);
        self.0.clock.close().await;
        self.0.runs.close(patience).await;
        self.0.agents.close().await;
        if tokio::time::timeout(patience, self.0.work.wait())
            .await
            .is_err()
        {
            tracing::warn!("shutdown grace period ended with work in progress");
        }
        if let Err(error) = self.0.authenticator.write_down_use().await {
            tracing::warn!(%error, "failed to store when tokens were last used");
        }
        self.write_down_left_out();
        let reads = self
            .0
            .reads
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
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
    pub fn clock(&self) -> &Arc<Clock> {
        &self.0.clock
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

    pub(crate) fn requests(&self) -> &Buckets<TokenId> {
        &self.0.requests
    }

    pub(crate) fn wrong_tokens(&self) -> &Buckets<WrongToken> {
        &self.0.wrong_tokens
    }

    pub(crate) fn refusals(&self) -> &Refusals {
        &self.0.refusals
    }

    pub(crate) fn trusted_proxies(&self) -> &[Cidr] {
        &self.0.trusted_proxies
    }

    pub(crate) fn challenge(&self) -> HeaderValue {
        self.0.challenge.clone()
    }

    pub(crate) fn nobody(&self) -> Visitor {
        self.0.nobody.clone()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.is_draining.load(Ordering::Relaxed)
    }

    /// Cancelled when the Hub shuts down.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// Tracks work that must finish before the Hub stops.
    pub(crate) fn work(&self) -> &TaskTracker {
        &self.0.work
    }

    pub(crate) fn tool_set(&self) -> watch::Receiver<u64> {
        self.0.tool_set.subscribe()
    }

    /// The effective policy, configuration and specialization.
    pub(crate) fn standing(&self) -> Arc<Standing> {
        self.0.standing.load_full()
    }

    /// Replaces the effective documents, unless the given ones are older: callers may arrive out of order.
    pub(crate) fn set_standing(&self, standing: Standing) {
        let standing = Arc::new(standing);
        self.0.standing.rcu(|current| {
            let newest = if standing.is_older_than(current) {
                current
            } else {
                &standing
            };
            Arc::clone(newest)
        });
    }

    /// A tenant, deleted ones too.
    pub(crate) async fn tenant(&self, id: &TenantId) -> Result<Option<Arc<KnownTenant>>, Problem> {
        // Before the look: what changes meanwhile makes it a look at the past.
        let changes = self.state().changes_of(id);
        let known = changes.and_then(|changes| self.0.known_tenants.recall(id, changes));
        if known.is_some() {
            return Ok(known);
        }
        let found = self.state().tenant(id).await?;
        let found = found.map(|record| Arc::new(KnownTenant::new(record)));
        if let (Some(tenant), Some(changes)) = (&found, changes) {
            self.0.known_tenants.keep(tenant, changes);
        }
        Ok(found)
    }

    /// Keeps a tenant as a change has left it, so that it need not be looked up again. The count is the one before that
    /// change.
    pub(crate) fn keep_changed(
        &self,
        record: TenantRecord,
        before: Option<ChangeCount>,
    ) -> Arc<KnownTenant> {
        let after = self.state().changes_of(&record.id);
        let tenant = Arc::new(KnownTenant::new(record));
        if let (Some(before), Some(after)) = (before, after)
            && after.is_one_change_after(before)
        {
            self.0.known_tenants.keep(&tenant, after);
        }
        tenant
    }

    /// Where a tenant's files lie.
    pub fn home(&self, tenant: &TenantRecord) -> Home {
        tenancy::home_of(&self.0.settings.load(), tenant)
    }

    pub(crate) fn tenant_directory(&self, id: &TenantId) -> PathBuf {
        self.settings().data_dir.join("tenants").join(id.as_str())
    }

    /// Writes the audit entry of a request that changed nothing.
    pub(crate) fn log_read(&self, entry: NewEntry) {
        let reads = self.0.reads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reads) = &*reads {
            reads.push(entry);
        } else {
            tracing::warn!("audit entry dropped: the writer is closed");
        }
    }

    pub(crate) fn seal_reply(&self, key: &str, reply: &[u8]) -> Result<Vec<u8>, Problem> {
        let text = String::from_utf8_lossy(reply);
        let sealed = self
            .0
            .key
            .seal(&Place::reply(key), &text)
            .map_err(|error| Problem::internal(&error))?;
        Ok(sealed.bytes().to_vec())
    }

    pub(crate) fn open_reply(&self, key: &str, sealed: &[u8]) -> Result<Vec<u8>, Problem> {
        let sealed = Sealed::from_bytes(sealed.to_vec());
        let opened = self
            .0
            .key
            .open(&Place::reply(key), &sealed)
            .map_err(|error| Problem::internal(&error))?;
        Ok(opened.expose().as_bytes().to_vec())
    }

    pub(crate) fn begin_drain(&self) {
        self.0.is_draining.store(true, Ordering::Relaxed);
        self.0.stop.cancel();
    }

    pub(crate) fn shares(&self) -> &Shares {
        &self.0.shares
    }

    pub(crate) fn searches(&self) -> &Searches {
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
            allowance: Allowance::default(),
        }
    }

    pub(crate) fn set_mcp_sessions(&self, sessions: OpenSessions) {
        let _ = self.0.mcp_sessions.set(sessions);
    }

    /// Ends the MCP sessions of a token.
    pub(crate) async fn end_sessions(&self, token: &TokenId) {
        if let Some(sessions) = self.0.mcp_sessions.get() {
            sessions.end(&serve::Principal::new(token.as_str())).await;
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
fn nobody() -> Visitor {
    let principal = Principal {
        token: TokenId::nobody(),
        name: "nobody".into(),
        scopes: Scopes::default(),
        tenants: Some([].into()),
        expires_at: None,
        cidrs: [].into(),
    };
    Visitor {
        principal: Arc::new(principal),
        key: None,
        address: Ipv4Addr::LOCALHOST.into(),
    }
}
