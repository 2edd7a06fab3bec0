//! The MCP host of one home: every configured server behind one object.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use hermes_config::{Home, ReferencePolicy, ServerName, Settings, ToolNaming, TransportSettings};
use tokio::sync::{broadcast, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    connection::Surroundings,
    content::MediaStore,
    era::Era,
    inquiry::{Inquiries, NobodyToAsk, RoutedInquiries},
    link::{Link, Status},
    names::Naming,
    owner::Owner,
    package_runner,
    pins::PinQueue,
    process::{GuardProgram, Processes},
    registry::{Contribution, Registry},
    sandbox::Support,
    status::ServerStatus,
};

mod calls;
mod member;
mod on_offer;
mod reload;
mod request;
mod resources;

pub use calls::BatchCall;
use member::Member;
pub use reload::ReloadReport;
pub use request::{RequestReport, ServerRequest};
pub use resources::ResourceWatch;

/// How long all servers together may take to stop.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(15);

/// How long a failed attempt may take to publish its failure: first it ends its process, which may resist for a while.
const FAILING: Duration = Duration::from_secs(5);

/// What a host needs to know besides the configuration.
pub struct HostOptions {
    /// The home whose servers are hosted.
    pub home: Home,
    /// The program that guards the processes of local servers.
    pub guard: GuardProgram,
    /// Who answers the questions of servers.
    pub inquiries: Arc<dyn Inquiries>,
    /// Names of built-in tools: an MCP tool never takes one.
    pub reserved_names: HashSet<String>,
    /// Which references the configuration may use.
    pub references: ReferencePolicy,
    /// What the kernel has to confine servers with; `None` asks it when that is first needed.
    pub support: Option<Support>,
    /// Whether tools of an earlier run are offered while their server connects.
    pub remembered_tools: RememberedTools,
    /// How long a package runner gets that still fetches its server, where that is more than `connect_timeout`.
    pub fetch_limit: Option<Duration>,
}

/// Whether the tools that a server had when it was last connected are offered while it connects; a call waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RememberedTools {
    /// They are.
    Offered,
    /// Only a lazy server's are.
    #[default]
    Hidden,
}

impl HostOptions {
    /// For a home of the user's own, with nobody to ask.
    pub fn new(home: Home, guard: GuardProgram) -> Self {
        Self {
            home,
            guard,
            inquiries: Arc::new(NobodyToAsk),
            reserved_names: HashSet::new(),
            references: ReferencePolicy::owner(),
            support: None,
            remembered_tools: RememberedTools::default(),
            fetch_limit: None,
        }
    }
}

/// The servers of one home, connected.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    surroundings: Arc<Surroundings>,
    /// Who answers servers, and which calls have answers of their own.
    inquiries: Arc<RoutedInquiries>,
    /// In the order of the configuration; replaced as a whole by a reload.
    members: ArcSwap<Vec<Member>>,
    naming: ArcSwap<Naming>,
    reserved_names: HashSet<String>,
    registry: ArcSwap<Registry>,
    /// Whether anything was published since the registry was built.
    is_stale: Arc<AtomicBool>,
    building: Mutex<()>,
    generation: Arc<watch::Sender<u64>>,
    reloading: tokio::sync::Mutex<()>,
    media: MediaStore,
    tasks: TaskTracker,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Connection tasks end by themselves; their processes go with them.
        self.surroundings.stop.cancel();
    }
}

impl Host {
    /// Begins to connect all enabled servers at once and returns without waiting for any.
    pub async fn start(options: HostOptions, settings: &Settings) -> Self {
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
        let inquiries = RoutedInquiries::new(options.inquiries);
        let surroundings = Arc::new(Surroundings {
            processes: Processes::new(&options.home, options.guard, options.support, tasks.clone()),
            variables: ArcSwap::from_pointee(settings.variables.clone()),
            references: options.references,
            inquiries: inquiries.clone(),
            pins: Arc::new(PinQueue::new(&options.home)),
            changed,
            remembered_tools: options.remembered_tools,
            fetch_limit: options.fetch_limit,
            stop: CancellationToken::new(),
            home: options.home,
        });
        let host = Self {
            inner: Arc::new(Inner {
                members: ArcSwap::from_pointee(Vec::new()),
                naming: ArcSwap::from_pointee(naming(settings)),
                reserved_names: options.reserved_names,
                registry: ArcSwap::from_pointee(Registry::default()),
                is_stale,
                building: Mutex::new(()),
                generation,
                reloading: tokio::sync::Mutex::new(()),
                media: MediaStore::new(surroundings.home.cache_dir()),
                tasks,
                inquiries,
                surroundings,
            }),
        };
        host.reload(settings).await;
        host
    }

    pub fn home(&self) -> &Home {
        &self.inner.surroundings.home
    }

    /// Where content that is not text is saved.
    pub fn media(&self) -> &MediaStore {
        &self.inner.media
    }

    /// What the model sees now. Take one per turn and keep it.
    pub fn registry(&self) -> Arc<Registry> {
        let inner = &self.inner;
        if inner.is_stale.load(Ordering::Acquire) {
            let _one_at_a_time = inner
                .building
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if inner.is_stale.swap(false, Ordering::AcqRel) {
                let generation = *inner.generation.borrow();
                let contributions: Vec<Contribution> = inner
                    .members
                    .load()
                    .iter()
                    .filter_map(Member::contribution)
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
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.generation.subscribe()
    }

    /// Tries failed, parked and waiting servers again; leaves live ones alone.
    pub fn discover(&self) {
        for owner in self.owners() {
            if matches!(
                owner.link.borrow().status,
                Status::Reconnecting | Status::Parked | Status::NeedsAuth
            ) {
                owner.wake();
            }
        }
    }

    /// Waits until each server is ready or has failed once, or the time is up. Returns those that are missing.
    pub async fn settled(&self, limit: Duration) -> Vec<ServerName> {
        self.settled_among(limit, |_| true).await
    }

    /// The same of some servers alone.
    pub async fn settled_among(
        &self,
        limit: Duration,
        is_meant: impl Fn(&ServerName) -> bool,
    ) -> Vec<ServerName> {
        let mut owners = self.owners();
        owners.retain(|owner| is_meant(&owner.name));
        let waits = owners.iter().map(async |owner| {
            let mut link = owner.link.clone();
            let _ = link.wait_for(|link| !link.is_first_attempt()).await;
        });
        let _ = tokio::time::timeout(limit, futures::future::join_all(waits)).await;
        self.tell_discovered(&owners)
    }

    /// Waits until each of these servers has tools to offer, be they of an earlier run, or has failed once, or its
    /// `connect_timeout` is over, or the time is up that is given instead. Returns those that are missing.
    pub async fn offering_among(
        &self,
        limit: Option<Duration>,
        is_meant: impl Fn(&ServerName) -> bool,
    ) -> Vec<ServerName> {
        let mut owners = self.owners();
        owners.retain(|owner| is_meant(&owner.name));
        let waits = owners.iter().map(async |owner| {
            let mut link = owner.link.clone();
            let limit = limit.unwrap_or(owner.settings().connect_timeout + FAILING);
            let offers = link.wait_for(|link| !link.is_first_attempt() || link.offered().is_some());
            let _ = tokio::time::timeout(limit, offers).await;
        });
        futures::future::join_all(waits).await;
        self.tell_discovered(&owners)
    }

    /// What a server's package runner has to do before the server can answer, in words for people.
    pub fn describe_fetch(&self, server: &ServerName) -> Option<String> {
        match &self.owner(server)?.settings().transport {
            TransportSettings::Stdio(settings) => package_runner::describe_fetch(settings),
            TransportSettings::Http(_) | TransportSettings::Sse(_) => None,
        }
    }

    /// The servers that are being connected for the first time.
    pub fn connecting(&self) -> Vec<ServerName> {
        self.named(Link::is_first_attempt)
    }

    /// Those of them that have nothing to offer meanwhile.
    pub fn awaited(&self) -> Vec<ServerName> {
        self.named(|link| link.is_first_attempt() && link.offered().is_none())
    }

    fn named(&self, is_meant: impl Fn(&Link) -> bool) -> Vec<ServerName> {
        let mut owners = self.owners();
        owners.retain(|owner| is_meant(&owner.link.borrow()));
        owners.iter().map(|owner| owner.name.clone()).collect()
    }

    /// Logs the result of a discovery, and returns the servers that are missing.
    fn tell_discovered(&self, owners: &[Arc<Owner>]) -> Vec<ServerName> {
        let missing: Vec<ServerName> = owners
            .iter()
            .filter(|owner| {
                !owner.link.borrow().status.offers_tools() || owner.link.borrow().catalog.is_none()
            })
            .map(|owner| owner.name.clone())
            .collect();
        let connecting = owners
            .iter()
            .filter(|owner| missing.contains(&owner.name))
            .filter(|owner| owner.link.borrow().is_first_attempt())
            .count();
        let registry = self.registry();
        tracing::info!(
            tools = registry.tools().count(),
            servers = owners.len() - missing.len(),
            connecting,
            failed = missing.len() - connecting,
            "MCP servers discovered"
        );
        missing
    }

    /// A server's link, to watch.
    pub fn link(&self, server: &ServerName) -> Option<watch::Receiver<Link>> {
        self.owner(server).map(|owner| owner.link.clone())
    }

    /// Wakes one server if it sleeps, waits or has given up.
    pub fn wake(&self, server: &ServerName) {
        if let Some(owner) = self.owner(server) {
            owner.wake();
        }
    }

    /// Checks one server: one that is ready is pinged, and reconnected if it does not answer; one that is not ready is
    /// tried now. Returns when that is known.
    pub async fn check(&self, server: &ServerName) {
        if let Some(owner) = self.owner(server) {
            owner.check().await;
        }
    }

    /// The same of every server that is ready, and of no other.
    async fn check_ready(&self) {
        let mut owners = self.owners();
        owners.retain(|owner| owner.link.borrow().status == Status::Ready);
        futures::future::join_all(owners.iter().map(|owner| owner.check())).await;
    }

    /// Every server's status, in the order of the configuration.
    pub fn status(&self) -> Vec<ServerStatus> {
        let registry = self.registry();
        let tools = registry.count_tools();
        self.inner
            .members
            .load()
            .iter()
            .map(|member| member.status(&registry, &tools, &self.inner.surroundings))
            .collect()
    }

    /// The URIs of resources that servers say have changed, where subscribed.
    pub fn resource_updates(&self, server: &ServerName) -> Option<broadcast::Receiver<String>> {
        self.owner(server)
            .map(|owner| owner.resource_updates.subscribe())
    }

    /// Tells legacy servers that the roots have changed; in the stateless era they ask when they need them.
    pub async fn roots_changed(&self) {
        let sessions = self
            .owners()
            .into_iter()
            .filter_map(|owner| owner.link.borrow().session.clone());
        let told = sessions
            .filter(|session| {
                session.era == Era::Legacy && session.handler.config.capabilities.roots.is_some()
            })
            .map(async |session| session.peer.notify_roots_list_changed().await);
        futures::future::join_all(told).await;
    }

    /// Stops every server and waits until their processes are gone.
    pub async fn shutdown(&self) {
        self.inner.surroundings.stop.cancel();
        self.inner.tasks.close();
        if tokio::time::timeout(SHUTDOWN_LIMIT, self.inner.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("MCP server shutdown timed out; the remaining processes are killed");
        }
    }

    pub(crate) fn routed_inquiries(&self) -> &Arc<RoutedInquiries> {
        &self.inner.inquiries
    }

    fn owners(&self) -> Vec<Arc<Owner>> {
        self.inner
            .members
            .load()
            .iter()
            .filter_map(Member::owner)
            .cloned()
            .collect()
    }

    fn owner(&self, server: &ServerName) -> Option<Arc<Owner>> {
        let members = self.inner.members.load();
        members
            .iter()
            .filter_map(Member::owner)
            .find(|owner| owner.name == *server)
            .cloned()
    }
}

fn naming(settings: &Settings) -> Naming {
    match settings.mcp.naming {
        ToolNaming::Single => Naming::Single,
        ToolNaming::Double => Naming::Double,
    }
}
