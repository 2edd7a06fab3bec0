//! The leases of this node: for which tenants it works. Agents, runs and the scheduler ask here before they work for a
//! tenant. A Hub that is the only node holds every lease and asks nobody.
//!
//! A lease is taken when there is work for a tenant that no node has ([`Leases::take_work`]), or when a request needs
//! the tenant's home ([`Leases::hold`]). Before anything works for the tenant its home is restored. Whoever owns this
//! renews leases, and acts on [what was gained and lost](Leases::take_news).

mod handover;
mod heartbeat;
mod held;
mod placement;
#[cfg(test)]
mod protocol_tests;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use hermes_config::sync::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::handover::{HomeUse, TenantHandover};
use self::{
    held::{HeldLeases, NodeTime},
    placement::WaitingTenants,
};
use crate::{
    Problem, ProblemCode, TenantId,
    settings::Settings,
    storage::state::{GrantedLease, LeaseHolder, State, StateError},
};

/// How many tenants are looked at in one round of placement.
const MAX_WAITING: u32 = 1_000;

/// A node that has not been seen for that many leases is not expected to take any.
const GONE_AFTER_LEASES: u32 = 1;

/// The usual time until a lease that nobody needs is given up.
const IDLE_RELEASE: Duration = Duration::from_mins(1);

/// Brings a tenant's home to the node that takes its lease, and stores what has changed in it.
#[async_trait]
pub trait HomeCheckpoints: Send + Sync + 'static {
    /// Makes the home what it was at its last checkpoint. Called with the lease held, before anything works there.
    async fn restore(&self, tenant: &TenantId) -> Result<(), Problem>;

    /// Stores the home. Called with the lease held, before an effect on the home is acknowledged.
    async fn save(&self, tenant: &TenantId) -> Result<(), Problem>;

    /// This node no longer works there.
    async fn end_lease(&self, _tenant: &TenantId, _end: LeaseEnd) {}
}

/// How a node's work for a tenant ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEnd {
    /// All of its home is stored.
    HandedOver,
    /// What its home has on this node may never have been stored.
    Lost,
}

/// What the database has to know of a home before a checkpoint of it counts.
pub type SaveStep = Box<dyn Fn(TenantId) -> BoxFuture<'static, Result<(), Problem>> + Send + Sync>;

/// Homes in a directory that all nodes share, or of the only node.
#[derive(Debug)]
pub struct SharedHomes;

#[async_trait]
impl HomeCheckpoints for SharedHomes {
    async fn restore(&self, _: &TenantId) -> Result<(), Problem> {
        Ok(())
    }

    async fn save(&self, _: &TenantId) -> Result<(), Problem> {
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
pub struct LeaseOptions {
    pub lasting: Duration,
    /// How many tenants this node takes by itself.
    pub capacity: usize,
    /// A lease that nobody has needed for this long is given up.
    pub idle_release: Duration,
}

impl LeaseOptions {
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        Self {
            lasting: Duration::from_secs(settings.lease_seconds),
            capacity: settings.node_capacity,
            idle_release: IDLE_RELEASE,
        }
    }
}

/// Whether this node works for a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseOwner {
    Mine,
    /// Another node does, if it is known which.
    Elsewhere(Option<LeaseHolder>),
}

/// What has changed since the last look.
#[derive(Debug, Default)]
pub struct LeaseChanges {
    /// The node works for these now; their homes are restored.
    pub gained: Vec<TenantId>,
    /// The node must not work for these any more. Say [`Leases::finish_stop`] when nothing does.
    pub lost: Vec<TenantId>,
}

#[derive(Debug, Default)]
struct LeaseStates {
    /// Tenants whose homes are restored.
    ready: HashSet<TenantId>,
    /// Tenants whose lease is being taken; the value becomes true at the end.
    taking: HashMap<TenantId, watch::Receiver<bool>>,
    /// Tenants whose lease was lost while something still works for them, and how long that may take to end.
    stopping: HashMap<TenantId, Duration>,
    used: HashMap<TenantId, Instant>,
    /// How many requests work on a home.
    uses: HashMap<TenantId, usize>,
    /// Tenants that are being handed over; the value becomes true at the end.
    handovers: HashMap<TenantId, watch::Receiver<bool>>,
    news: LeaseChanges,
}

pub struct Leases {
    state: Arc<dyn State>,
    homes: Arc<dyn HomeCheckpoints>,
    node: String,
    capacity: usize,
    idle_release: Duration,
    is_shared: bool,
    origin: Instant,
    held: Mutex<HeldLeases>,
    states: Mutex<LeaseStates>,
    waiting: Mutex<WaitingTenants>,
    has_news: Notify,
    use_ended: Notify,
    before_save: OnceLock<SaveStep>,
    work_waits: Notify,
    is_draining: AtomicBool,
    /// What the database's clock is ahead of this machine's, in milliseconds.
    clock_offset: AtomicI64,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl Leases {
    pub fn new(
        state: Arc<dyn State>,
        homes: Arc<dyn HomeCheckpoints>,
        node: String,
        options: LeaseOptions,
    ) -> Arc<Self> {
        Arc::new(Self {
            is_shared: state.has_other_nodes(),
            state,
            homes,
            node,
            capacity: options.capacity,
            idle_release: options.idle_release,
            origin: Instant::now(),
            held: Mutex::new(HeldLeases::new(options.lasting)),
            states: Mutex::default(),
            waiting: Mutex::default(),
            has_news: Notify::new(),
            use_ended: Notify::new(),
            before_save: OnceLock::new(),
            work_waits: Notify::new(),
            clock_offset: AtomicI64::new(0),
            is_draining: AtomicBool::new(false),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        })
    }

    /// Of a node that has its database for itself.
    pub fn alone(state: Arc<dyn State>) -> Arc<Self> {
        let options = LeaseOptions {
            lasting: Duration::from_secs(15),
            capacity: usize::MAX,
            idle_release: IDLE_RELEASE,
        };
        Self::new(state, Arc::new(SharedHomes), String::new(), options)
    }

    /// Whether other nodes work on the same database.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether this node works for a tenant now. Does not ask the database.
    pub fn is_mine(&self, tenant: &TenantId) -> bool {
        if !self.is_shared {
            return true;
        }
        let may_work = self.held.lock().may_work(tenant, self.now());
        let states = self.states.lock();
        may_work && states.ready.contains(tenant) && !states.handovers.contains_key(tenant)
    }

    /// The tenants this node works for.
    pub fn held(&self) -> Vec<TenantId> {
        self.held.lock().tenants()
    }

    /// Takes the lease of a tenant, unless another node holds it, and returns when its home is restored.
    pub async fn hold(self: &Arc<Self>, tenant: &TenantId) -> Result<LeaseOwner, Problem> {
        if !self.is_shared {
            return Ok(LeaseOwner::Mine);
        }
        if self.is_mine(tenant) {
            self.mark_used(tenant);
            return Ok(LeaseOwner::Mine);
        }
        if !self.is_draining()
            && let Some(mut taken) = self.start_taking(tenant)
        {
            let _ = taken.wait_for(|is_over| *is_over).await;
            if self.is_mine(tenant) {
                self.mark_used(tenant);
                return Ok(LeaseOwner::Mine);
            }
        }
        let holder = self.state.lease_holder(tenant).await?;
        Ok(LeaseOwner::Elsewhere(holder))
    }

    /// The same, with a problem where another node works for the tenant.
    pub async fn require(self: &Arc<Self>, tenant: &TenantId) -> Result<(), Problem> {
        match self.hold(tenant).await? {
            LeaseOwner::Mine => Ok(()),
            LeaseOwner::Elsewhere(holder) => {
                let message = match holder {
                    Some(holder) => format!("the node `{}` works for this tenant", holder.node),
                    None => "no node works for this tenant yet".to_owned(),
                };
                Err(Problem::new(ProblemCode::Unavailable, message)
                    .with_reason("lease_elsewhere")
                    .with_retry_after(1000))
            }
        }
    }

    /// Has something done before each checkpoint of a home.
    pub fn set_save_step(&self, step: SaveStep) {
        let _ = self.before_save.set(step);
    }

    /// Stores a tenant's home before an effect on it is acknowledged.
    pub async fn save_home(&self, tenant: &TenantId) -> Result<(), Problem> {
        if let Some(step) = self.before_save.get() {
            step(tenant.clone()).await?;
        }
        self.homes.save(tenant).await
    }

    /// Keeps a lease from being given up as idle.
    pub fn mark_used(&self, tenant: &TenantId) {
        let mut states = self.states.lock();
        states.used.insert(tenant.clone(), Instant::now());
    }

    /// The taking of a lease that is under way, or that is started now. `None` while something of this node must stop
    /// first.
    fn start_taking(self: &Arc<Self>, tenant: &TenantId) -> Option<watch::Receiver<bool>> {
        let held = self.held.lock();
        let mut states = self.states.lock();
        if let Some(taking) = states.taking.get(tenant) {
            return Some(taking.clone());
        }
        if states.stopping.contains_key(tenant) || states.handovers.contains_key(tenant) {
            return None;
        }
        if states.ready.contains(tenant) && held.may_work(tenant, self.now()) {
            // Taken meanwhile. Taken once more, its epoch would fence off what works under this one.
            return Some(watch::channel(true).1);
        }
        drop(held);
        let (done, taking) = watch::channel(false);
        states.taking.insert(tenant.clone(), taking.clone());
        let (leases, tenant) = (Arc::clone(self), tenant.clone());
        // Not the caller's task: a caller that goes away must not leave a home half restored.
        self.tasks.spawn(async move {
            if let Err(problem) = leases.take_lease(&tenant).await {
                tracing::warn!(%tenant, %problem, "lease not taken");
            }
            leases.states.lock().taking.remove(&tenant);
            let _ = done.send(true);
        });
        Some(taking)
    }

    async fn take_lease(&self, tenant: &TenantId) -> Result<(), Problem> {
        let asked_at = self.now();
        let lasting = self.held.lock().lasting();
        let granted = self
            .state
            .claim_leases(std::slice::from_ref(tenant), lasting)
            .await?;
        let Some(lease) = granted.into_iter().next() else {
            return Ok(());
        };
        self.held.lock().insert(&lease, asked_at);
        if let Err(problem) = self.homes.restore(tenant).await {
            self.give_up(vec![lease]).await;
            return Err(problem);
        }
        if !self.mark_ready(&lease) {
            // Whoever took it since has another home.
            self.homes.end_lease(tenant, LeaseEnd::Lost).await;
            return Ok(());
        }
        tracing::info!(%tenant, epoch = lease.epoch.0, "lease taken");
        self.has_news.notify_one();
        Ok(())
    }

    /// The home of a tenant is restored. False if the lease was lost meanwhile: a restore may take longer than a lease.
    fn mark_ready(&self, lease: &GrantedLease) -> bool {
        let held = self.held.lock();
        let mut states = self.states.lock();
        let is_held = held.epoch(&lease.tenant) == Some(lease.epoch);
        if is_held {
            states.ready.insert(lease.tenant.clone());
            states.used.insert(lease.tenant.clone(), Instant::now());
            states.news.gained.push(lease.tenant.clone());
        }
        is_held
    }

    async fn give_up(&self, leases: Vec<GrantedLease>) {
        {
            let mut held = self.held.lock();
            for lease in &leases {
                held.remove(lease);
            }
        }
        if let Err(error) = self.state.release_leases(&leases).await {
            tracing::warn!(%error, "leases not released; they expire by themselves");
        }
        let tenants: Vec<TenantId> = leases.into_iter().map(|lease| lease.tenant).collect();
        self.state.forget_leases(&tenants);
    }

    /// Renews the leases for which it is time. Those that the database does not extend are lost.
    pub async fn renew(&self) -> Result<(), StateError> {
        let asked_at = self.now();
        let (due, lasting) = {
            let held = self.held.lock();
            (held.due_for_renewal(asked_at), held.lasting())
        };
        if due.is_empty() {
            return Ok(());
        }
        let renewed = self.state.renew_leases(&due, lasting).await?;
        let renewed: HashSet<TenantId> = renewed.into_iter().collect();
        let mut refused = Vec::new();
        {
            let mut held = self.held.lock();
            for lease in due {
                if renewed.contains(&lease.tenant) {
                    held.extend(&lease, asked_at);
                } else if held.remove(&lease) {
                    refused.push(lease);
                }
            }
        }
        // Others may have them already.
        let refused = refused.into_iter().map(|lease| (lease, Duration::ZERO));
        self.lose(refused.collect());
        Ok(())
    }

    /// Gives up leases that end soon, because they could not be renewed.
    pub fn expire(&self) {
        let expiring = self.held.lock().take_expiring(self.now()).into_iter();
        // The other half is for the end of what does not end by itself.
        let expiring = expiring.map(|(lease, left)| (lease, left / 2));
        self.lose(expiring.collect());
    }

    /// From here on this node writes nothing for these tenants. What works for them gets so long to end.
    fn lose(&self, leases: Vec<(GrantedLease, Duration)>) {
        if leases.is_empty() {
            return;
        }
        let tenants: Vec<TenantId> = leases
            .iter()
            .map(|(lease, _)| lease.tenant.clone())
            .collect();
        self.state.forget_leases(&tenants);
        {
            let mut states = self.states.lock();
            for (GrantedLease { tenant, .. }, grace) in leases {
                tracing::warn!(%tenant, "lease lost");
                states.ready.remove(&tenant);
                states.used.remove(&tenant);
                states.stopping.insert(tenant.clone(), grace);
                states.news.lost.push(tenant);
            }
        }
        self.has_news.notify_one();
    }

    /// Nothing works any more for a tenant whose lease was lost.
    pub async fn finish_stop(&self, tenant: &TenantId) {
        self.homes.end_lease(tenant, LeaseEnd::Lost).await;
        self.states.lock().stopping.remove(tenant);
    }

    /// How long a tenant may take to stop whose lease was lost.
    pub fn stop_grace(&self, tenant: &TenantId) -> Duration {
        let states = self.states.lock();
        states.stopping.get(tenant).copied().unwrap_or_default()
    }

    /// How often this node tells others that it works.
    pub fn report_interval(&self) -> Duration {
        self.held.lock().stop_margin() / 2
    }

    /// When no process of a tenant may be left, unless its lease is renewed before. `None` where this node is the only
    /// one.
    pub fn kill_time(&self, tenant: &TenantId) -> Option<Instant> {
        if !self.is_shared {
            return None;
        }
        let time = self.held.lock().kill_time(tenant)?;
        Some(self.origin + time)
    }

    pub fn take_news(&self) -> LeaseChanges {
        std::mem::take(&mut self.states.lock().news)
    }

    /// Returns when there is news.
    pub async fn wait_for_news(&self) {
        self.has_news.notified().await;
    }

    /// Takes free leases of tenants that have work, as far as this node has room and is the one to try.
    pub async fn take_work(self: &Arc<Self>) -> Result<(), StateError> {
        let room = self.room();
        if !self.is_shared || self.is_draining() || room == 0 {
            return Ok(());
        }
        let waiting = self.state.tenants_with_work(MAX_WAITING).await?;
        if waiting.is_empty() {
            return Ok(());
        }
        let nodes = self.active_nodes().await?;
        let now = self.now();
        let mut chosen = self.waiting.lock().choose(&self.node, &nodes, waiting, now);
        chosen.truncate(room);
        for tenant in chosen {
            self.start_taking(&tenant);
        }
        Ok(())
    }

    /// How many more tenants this node takes by itself. Those that it is about to take count.
    fn room(&self) -> usize {
        let held = self.held.lock();
        let states = self.states.lock();
        let is_new = |tenant: &&TenantId| held.epoch(tenant).is_none();
        let taking = states.taking.keys().filter(is_new).count();
        self.capacity.saturating_sub(held.len() + taking)
    }

    /// Nodes that work and are not drained.
    pub async fn active_nodes(&self) -> Result<Vec<String>, StateError> {
        let gone_after = self.held.lock().lasting() * GONE_AFTER_LEASES;
        let nodes = self.state.nodes().await?.into_iter();
        let active = nodes.filter(|node| !node.is_draining && node.unseen_for < gone_after);
        Ok(active.map(|node| node.id).collect())
    }

    /// The other node that is the first to work for a tenant.
    pub async fn preferred_node(&self, tenant: &TenantId) -> Result<Option<String>, StateError> {
        let mut nodes = self.active_nodes().await?;
        nodes.retain(|node| *node != self.node);
        Ok(placement::first_node(&nodes, tenant))
    }

    /// Leases that nobody has needed for a while.
    pub fn idle(&self) -> Vec<TenantId> {
        let held = self.held();
        let states = self.states.lock();
        let is_idle = |tenant: &TenantId| {
            let used = states.used.get(tenant);
            states.ready.contains(tenant)
                && used.is_none_or(|used| used.elapsed() > self.idle_release)
        };
        held.into_iter().filter(is_idle).collect()
    }

    /// Hands a tenant over. Nothing may work for it any more.
    pub async fn release(&self, tenant: &TenantId, end: LeaseEnd) {
        {
            let mut states = self.states.lock();
            states.ready.remove(tenant);
            states.used.remove(tenant);
        }
        let lease = self.held.lock().take(tenant);
        if let Some(lease) = lease {
            self.homes.end_lease(tenant, end).await;
            self.give_up(vec![lease]).await;
            tracing::info!(%tenant, "lease released");
        }
    }

    fn now(&self) -> NodeTime {
        self.origin.elapsed()
    }
}
