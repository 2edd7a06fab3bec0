//! The MCP host of one home: every configured server behind one object.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use hermes_config::{
    Home, ReferencePolicy, ServerName, Settings, ToolNaming, TransportSettings, sync::Mutex,
};
use tokio::sync::{broadcast, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

mod calls;
pub mod config_watch;
mod hosted_server;
mod reload;
mod request;
mod resources;
pub mod status;

pub use calls::BatchCall;
pub use reload::ReloadReport;
pub use request::{ApprovalCheck, HostRequest, RequestOutcome};
pub use resources::ResourceWatch;

use crate::{
    call::content::MediaStore,
    connection::{
        HostContext, RememberedTools,
        breaker::Clock,
        era::Era,
        handle::ServerHandle,
        link::{Link, LinkStatus},
    },
    host::{hosted_server::HostedServer, status::ServerStatus},
    packages::package,
    process::{GuardHandle, GuardProgram, Processes, sandbox::SandboxSupport},
    server_request::{NoHandler, ServerRequestHandler, ServerRequestRouter},
    tools::{
        names::Naming,
        pins::PinQueue,
        registry::{Registry, RegistryInput},
    },
};

/// How long all servers together may take to stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a failed attempt may take to publish its failure: first it ends its process, which may resist for a while.
const FAILURE_GRACE: Duration = Duration::from_secs(5);

/// What a host needs to know besides the configuration.
pub struct HostOptions {
    /// The home whose servers are hosted.
    pub home: Home,
    /// The program that guards the processes of local servers.
    pub guard: GuardProgram,
    /// The guard, if it was started before the settings were known.
    pub started_guard: Option<Arc<GuardHandle>>,
    /// Who answers the questions of servers.
    pub request_handler: Arc<dyn ServerRequestHandler>,
    /// Names of built-in tools: an MCP tool never takes one.
    pub reserved_names: HashSet<String>,
    /// Which references the configuration may use.
    pub reference_policy: ReferencePolicy,
    /// What the kernel has to confine servers with; `None` asks it when that is first needed.
    pub sandbox_support: Option<SandboxSupport>,
    /// Whether tools of an earlier run are offered while their server connects.
    pub remembered_tools: RememberedTools,
    /// How long a package runner gets that still fetches its server, where that is more than `connect_timeout`.
    pub fetch_limit: Option<Duration>,
    /// What the rest after repeated failures is counted by; tests set their own.
    pub clock: Clock,
}

impl HostOptions {
    /// For a home of the user's own, with nobody to ask.
    pub fn new(home: Home, guard: GuardProgram) -> Self {
        Self {
            home,
            guard,
            started_guard: None,
            request_handler: Arc::new(NoHandler),
            reserved_names: HashSet::new(),
            reference_policy: ReferencePolicy::owner(),
            sandbox_support: None,
            remembered_tools: RememberedTools::default(),
            fetch_limit: None,
            clock: Arc::new(Instant::now),
        }
    }
}

/// The servers of one home, connected.
#[derive(Clone)]
pub struct Host {
    state: Arc<HostState>,
}

struct HostState {
    context: Arc<HostContext>,
    /// Who answers servers, and which calls have answers of their own.
    request_router: Arc<ServerRequestRouter>,
    /// In the order of the configuration; replaced as a whole by a reload.
    servers: ArcSwap<Vec<HostedServer>>,
    naming: ArcSwap<Naming>,
    reserved_names: HashSet<String>,
    registry: ArcSwap<Registry>,
    /// Whether anything was published since the registry was built.
    is_stale: Arc<AtomicBool>,
    build_lock: Mutex<()>,
    generation: Arc<watch::Sender<u64>>,
    reload_lock: tokio::sync::Mutex<()>,
    media: MediaStore,
    tasks: TaskTracker,
}

impl Drop for HostState {
    fn drop(&mut self) {
        // Connection tasks end by themselves; their processes go with them.
        self.context.stop.cancel();
    }
}

impl Host {
    /// The guard of its servers' processes, which ends the commands of this process too, should it be killed.
    pub fn guard(&self) -> Arc<GuardHandle> {
        Arc::clone(self.state.context.processes.guard())
    }

    /// Begins to connect all enabled servers at once and returns without waiting for any.
    pub fn start(options: HostOptions, settings: &Settings) -> BoxFuture<'_, Self> {
        Box::pin(async move {
            let is_stale = Arc::new(AtomicBool::new(true));
            let generation = Arc::new(watch::Sender::new(0));
            let changed = {
                let (is_stale, generation) = (is_stale.clone(), generation.clone());
                Arc::new(move || {
                    is_stale.store(true, Ordering::Release);
                    generation.send_modify(|number| *number += 1);
                })
            };
            let tasks = TaskTracker::new();
            let request_router = ServerRequestRouter::new(options.request_handler);
            let guard = options
                .started_guard
                .unwrap_or_else(|| Arc::new(GuardHandle::new(options.guard)));
            let host_context = Arc::new(HostContext {
                processes: Processes::new(
                    &options.home,
                    guard,
                    options.sandbox_support,
                    tasks.clone(),
                ),
                variables: ArcSwap::from_pointee(settings.variables.clone()),
                reference_policy: options.reference_policy,
                request_handler: request_router.clone(),
                pins: Arc::new(PinQueue::new(&options.home)),
                changed,
                remembered_tools: options.remembered_tools,
                fetch_limit: options.fetch_limit,
                clock: options.clock,
                stop: CancellationToken::new(),
                home: options.home,
            });
            let host = Self {
                state: Arc::new(HostState {
                    servers: ArcSwap::from_pointee(Vec::new()),
                    naming: ArcSwap::from_pointee(naming(settings)),
                    reserved_names: options.reserved_names,
                    registry: ArcSwap::from_pointee(Registry::default()),
                    is_stale,
                    build_lock: Mutex::new(()),
                    generation,
                    reload_lock: tokio::sync::Mutex::new(()),
                    media: MediaStore::new(host_context.home.cache_dir()),
                    tasks,
                    request_router,
                    context: host_context,
                }),
            };
            host.reload(settings).await;
            host
        })
    }

    pub fn home(&self) -> &Home {
        &self.state.context.home
    }

    /// Where content that is not text is saved.
    pub fn media(&self) -> &MediaStore {
        &self.state.media
    }

    /// What the model sees now. Take one per turn and keep it.
    pub fn registry(&self) -> Arc<Registry> {
        let inner = &self.state;
        if inner.is_stale.load(Ordering::Acquire) {
            let _one_at_a_time = inner.build_lock.lock();
            if inner.is_stale.swap(false, Ordering::AcqRel) {
                let generation = *inner.generation.borrow();
                let contributions: Vec<RegistryInput> = inner
                    .servers
                    .load()
                    .iter()
                    .filter_map(HostedServer::registry_input)
                    .collect();
                let registry = Registry::build(
                    generation,
                    **inner.naming.load(),
                    &inner.reserved_names,
                    &contributions,
                );
                let old = inner.registry.swap(Arc::new(registry));
                let new = inner.registry.load();
                let known: HashSet<&String> = old.warnings().iter().collect();
                let warnings = new.warnings().iter();
                for warning in warnings.filter(|warning| !known.contains(warning)) {
                    tracing::warn!("{warning}");
                }
            }
        }
        inner.registry.load_full()
    }

    /// Changes whenever a new registry or status is to be had.
    pub fn subscribe_changes(&self) -> watch::Receiver<u64> {
        self.state.generation.subscribe()
    }

    /// Tries failed, parked and waiting servers again; leaves live ones alone.
    pub fn retry_failed(&self) {
        for handle in self.handles() {
            if matches!(
                handle.link.borrow().status,
                LinkStatus::Reconnecting | LinkStatus::Parked | LinkStatus::NeedsAuth
            ) {
                handle.wake();
            }
        }
    }

    /// Waits until each server is ready or has failed once, or the time is up. Returns those that are missing.
    pub fn wait_until_settled(&self, limit: Duration) -> BoxFuture<'_, Vec<ServerName>> {
        self.wait_until_settled_among(limit, |_| true)
    }

    /// The same of some servers alone.
    pub fn wait_until_settled_among(
        &self,
        limit: Duration,
        is_meant: impl Fn(&ServerName) -> bool,
    ) -> BoxFuture<'_, Vec<ServerName>> {
        let mut handles = self.handles();
        handles.retain(|handle| is_meant(&handle.name));
        Box::pin(async move {
            let is_open = |handle: &Arc<ServerHandle>| handle.link.borrow().is_first_attempt();
            // Every turn comes here: it says nothing once there is nothing to wait for.
            if !handles.iter().any(is_open) {
                return missing_among(&handles);
            }
            let waits = handles.iter().map(async |handle| {
                let mut link = handle.link.clone();
                let _ = link.wait_for(|link| !link.is_first_attempt()).await;
            });
            let _ = tokio::time::timeout(limit, futures::future::join_all(waits)).await;
            self.log_discovery(&handles)
        })
    }

    /// Waits until each of these servers has tools to offer, be they of an earlier run, or has failed once, or its
    /// `connect_timeout` is over, or the time is up that is given instead. Returns those that are missing.
    pub fn wait_for_tools_among(
        &self,
        limit: Option<Duration>,
        is_meant: impl Fn(&ServerName) -> bool,
    ) -> BoxFuture<'_, Vec<ServerName>> {
        let mut handles = self.handles();
        handles.retain(|handle| is_meant(&handle.name));
        Box::pin(async move {
            let waits = handles.iter().map(async |handle| {
                let mut link = handle.link.clone();
                let limit = limit.unwrap_or(handle.settings().connect_timeout + FAILURE_GRACE);
                let offers = link
                    .wait_for(|link| !link.is_first_attempt() || link.offered_catalog().is_some());
                let _ = tokio::time::timeout(limit, offers).await;
            });
            futures::future::join_all(waits).await;
            self.log_discovery(&handles)
        })
    }

    /// What a server's package runner has to do before the server can answer, in words for people.
    pub fn describe_fetch(&self, server: &ServerName) -> Option<String> {
        match &self.handle(server)?.settings().transport {
            TransportSettings::Stdio(settings) => package::describe_fetch(settings),
            TransportSettings::Http(_) | TransportSettings::Sse(_) => None,
        }
    }

    /// The servers that are being connected for the first time.
    pub fn connecting_servers(&self) -> Vec<ServerName> {
        self.servers_where(Link::is_first_attempt)
    }

    /// Those of them that have nothing to offer meanwhile.
    pub fn servers_without_tools(&self) -> Vec<ServerName> {
        self.servers_where(|link| link.is_first_attempt() && link.offered_catalog().is_none())
    }

    fn servers_where(&self, is_meant: impl Fn(&Link) -> bool) -> Vec<ServerName> {
        let mut handles = self.handles();
        handles.retain(|handle| is_meant(&handle.link.borrow()));
        handles.iter().map(|handle| handle.name.clone()).collect()
    }

    /// Logs the result of a discovery, and returns the servers that are missing.
    fn log_discovery(&self, handles: &[Arc<ServerHandle>]) -> Vec<ServerName> {
        let missing = missing_among(handles);
        let connecting = handles
            .iter()
            .filter(|handle| missing.contains(&handle.name))
            .filter(|handle| handle.link.borrow().is_first_attempt())
            .count();
        let registry = self.registry();
        tracing::info!(
            tools = registry.tools().count(),
            servers = handles.len() - missing.len(),
            connecting,
            failed = missing.len() - connecting,
            "MCP servers discovered"
        );
        missing
    }

    /// A server's link, to watch.
    pub fn link(&self, server: &ServerName) -> Option<watch::Receiver<Link>> {
        self.handle(server).map(|handle| handle.link.clone())
    }

    /// Wakes one server if it sleeps, waits or has given up.
    pub fn wake(&self, server: &ServerName) {
        if let Some(handle) = self.handle(server) {
            handle.wake();
        }
    }

    /// Checks one server: one that is ready is pinged, and reconnected if it does not answer; one that is not ready is
    /// tried now. Returns when that is known.
    pub fn check<'a>(&'a self, server: &'a ServerName) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(handle) = self.handle(server) {
                handle.check().await;
            }
        })
    }

    /// The same of every server that is ready, and of no other.
    async fn check_ready(&self) {
        let mut handles = self.handles();
        handles.retain(|handle| handle.link.borrow().status == LinkStatus::Ready);
        futures::future::join_all(handles.iter().map(|handle| handle.check())).await;
    }

    /// Every server's status, in the order of the configuration.
    pub fn status(&self) -> Vec<ServerStatus> {
        let registry = self.registry();
        let tools = registry.count_tools();
        self.state
            .servers
            .load()
            .iter()
            .map(|member| member.status(&registry, &tools, &self.state.context))
            .collect()
    }

    /// The URIs of resources that servers say have changed, where subscribed.
    pub fn resource_updates(&self, server: &ServerName) -> Option<broadcast::Receiver<String>> {
        self.handle(server)
            .map(|handle| handle.resource_updates.subscribe())
    }

    /// Tells legacy servers that the roots have changed; in the stateless era they ask when they need them.
    pub fn notify_roots_changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let sessions = self
                .handles()
                .into_iter()
                .filter_map(|handle| handle.link.borrow().session.clone());
            let notifications = sessions
                .filter(|session| {
                    session.era == Era::Legacy
                        && session.handler.config.capabilities.roots.is_some()
                })
                .map(async |session| session.peer.notify_roots_list_changed().await);
            futures::future::join_all(notifications).await;
        })
    }

    /// Stops every server and waits until their processes are gone.
    pub fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.state.context.stop.cancel();
            self.state.tasks.close();
            if tokio::time::timeout(SHUTDOWN_TIMEOUT, self.state.tasks.wait())
                .await
                .is_err()
            {
                tracing::warn!("MCP server shutdown timed out; the remaining processes are killed");
            }
        })
    }

    pub(crate) fn request_router(&self) -> &Arc<ServerRequestRouter> {
        &self.state.request_router
    }

    fn handles(&self) -> Vec<Arc<ServerHandle>> {
        self.state
            .servers
            .load()
            .iter()
            .filter_map(HostedServer::handle)
            .cloned()
            .collect()
    }

    fn handle(&self, server: &ServerName) -> Option<Arc<ServerHandle>> {
        let members = self.state.servers.load();
        members
            .iter()
            .filter_map(HostedServer::handle)
            .find(|handle| handle.name == *server)
            .cloned()
    }
}

fn naming(settings: &Settings) -> Naming {
    match settings.mcp.naming {
        ToolNaming::Single => Naming::Single,
        ToolNaming::Double => Naming::Double,
    }
}

/// The servers that offer no tools.
fn missing_among(handles: &[Arc<ServerHandle>]) -> Vec<ServerName> {
    let is_missing = |handle: &&Arc<ServerHandle>| {
        let link = handle.link.borrow();
        !link.status.offers_tools() || link.catalog.is_none()
    };
    let missing = handles.iter().filter(is_missing);
    missing.map(|handle| handle.name.clone()).collect()
}
