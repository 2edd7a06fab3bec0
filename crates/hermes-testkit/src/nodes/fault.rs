//! What befalls nodes while the load runs, in an order that a seed decides.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{
    NODE_TIMEOUT, NodeCluster, NodeRequest,
    agent_locks::AgentLocks,
    check::check_everything,
    ledger::FaultReport,
    load::{RunningLoad, SharedLoad},
};
use crate::{ChaosProxy, NetworkFault, script::lock, wait_until};

/// What may befall a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeFault {
    /// `kill -9`; another one works for its tenants before it comes back.
    Kill,
    /// `kill -9`, and it comes back at once.
    KillAndStart,
    /// It stands still until its leases have expired, with all of its processes.
    Pause,
    /// Connections to the database are closed until its leases have expired.
    CutDatabase,
    /// Nothing comes through to the database and nothing is closed, until its leases have expired.
    HoldDatabase,
    /// A short interruption of the database, over before leases end.
    BlinkDatabase,
    /// The database does what it is told, and its answers are lost, and so are its connections after a while.
    MuteDatabase,
    /// Each message between it and the database is late, for a while.
    SlowDatabase,
    /// Connections to objects are closed for a while.
    CutObjects,
    /// Nothing comes through to objects for a while.
    HoldObjects,
    /// Objects are stored, and the answers are lost, and so are the connections after a while.
    MuteObjects,
    /// Each message between it and objects is late, for a while.
    SlowObjects,
    /// It is stopped as it should be, and started again.
    Restart,
}

impl NodeFault {
    pub const ALL: [Self; 13] = [
        Self::Kill,
        Self::Pause,
        Self::CutDatabase,
        Self::CutObjects,
        Self::MuteDatabase,
        Self::HoldDatabase,
        Self::SlowObjects,
        Self::KillAndStart,
        Self::HoldObjects,
        Self::BlinkDatabase,
        Self::MuteObjects,
        Self::SlowDatabase,
        Self::Restart,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::KillAndStart => "kill and start",
            Self::Pause => "pause",
            Self::CutDatabase => "cut from the database",
            Self::HoldDatabase => "no answer of the database",
            Self::BlinkDatabase => "short cut from the database",
            Self::MuteDatabase => "lost answers of the database",
            Self::SlowDatabase => "slow database",
            Self::CutObjects => "cut from objects",
            Self::HoldObjects => "no answer of objects",
            Self::MuteObjects => "lost answers of objects",
            Self::SlowObjects => "slow objects",
            Self::Restart => "restart",
        }
    }
}

/// Which faults, in which order.
#[derive(Debug, Clone)]
pub struct FaultPlan {
    pub seed: u64,
    pub faults: Vec<NodeFault>,
}

impl FaultPlan {
    /// So many faults of all kinds, in random order.
    pub fn random(seed: u64, count: usize) -> Self {
        let mut numbers = RandomNumbers(seed);
        let faults = (0..count).map(|_| NodeFault::ALL[numbers.below(NodeFault::ALL.len())]);
        Self {
            seed,
            faults: faults.collect(),
        }
    }
}

/// The same numbers for the same seed.
#[derive(Debug)]
struct RandomNumbers(u64);

impl RandomNumbers {
    /// As in splitmix64.
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mixed = mixed ^ (mixed >> 31);
        usize::try_from(mixed % limit.max(1) as u64).unwrap_or_default()
    }
}

const SLEEPER: &str = "clock";

/// How late each message is on a slow connection. A change takes several.
const LATE_BY: Duration = Duration::from_millis(100);

/// Runs the faults of a plan under load, and checks everything at the end.
///
/// # Panics
///
/// If the load does not begin.
pub fn run_faults(
    cluster: &mut NodeCluster,
    plan: &FaultPlan,
    tell: &mut dyn FnMut(&str),
) -> FaultReport {
    let group = NodeRequest::new("POST", "/v1/groups", Some(json!({"id": "team"})));
    cluster.addresses.must_send(&group);
    let tenants: Vec<String> = (1..=3).map(|number| format!("t{number}")).collect();
    for tenant in tenants.iter().map(String::as_str).chain([SLEEPER]) {
        cluster.create_tenant(tenant);
    }
    let shared = SharedLoad::new(cluster.addresses.clone());
    let watched = cluster.nodes.iter();
    let watched = watched.map(|node| (node.id().to_owned(), node.data().join("run")));
    let locks = AgentLocks::watch(watched.collect());
    let load = RunningLoad::start(&shared, &tenants, SLEEPER);
    let mut driver = FaultDriver {
        cluster,
        shared: Arc::clone(&shared),
        locks,
        numbers: RandomNumbers(plan.seed ^ 0x5eed),
        report: FaultReport {
            seed: plan.seed,
            ..FaultReport::default()
        },
    };
    // Faults are in the middle of things.
    let is_busy = wait_until(NODE_TIMEOUT, || lock(&shared.ledger).runs.len() >= 4);
    assert!(is_busy, "the load does not begin");
    for (number, fault) in plan.faults.iter().enumerate() {
        let mut node = driver.numbers.below(driver.cluster.nodes.len());
        if *fault == NodeFault::Kill {
            node = driver.find_holder(node);
        }
        let name = driver.cluster.nodes[node].id();
        tell(&format!("fault {}: {} of {name}", number + 1, fault.name()));
        driver.befall(*fault, node);
        *driver.report.faults.entry(fault.name()).or_default() += 1;
        std::thread::sleep(Duration::from_millis(driver.numbers.below(700) as u64));
    }
    load.stop();
    let FaultDriver {
        cluster,
        locks,
        mut report,
        ..
    } = driver;
    tell("checking");
    report.problems.extend(locks.finish());
    check_everything(cluster, &shared, &tenants, SLEEPER, &mut report);
    report
}

struct FaultDriver<'a> {
    cluster: &'a mut NodeCluster,
    shared: Arc<SharedLoad>,
    locks: AgentLocks,
    numbers: RandomNumbers,
    report: FaultReport,
}

impl FaultDriver<'_> {
    fn befall(&mut self, fault: NodeFault, node: usize) {
        match fault {
            NodeFault::Kill => self.kill(node),
            NodeFault::KillAndStart => {
                self.cluster.nodes[node].kill();
                self.start(node);
            }
            NodeFault::Restart => {
                self.cluster.nodes[node].stop();
                self.start(node);
            }
            NodeFault::Pause => {
                let name = self.cluster.nodes[node].id().to_owned();
                self.locks.excuse(&name, NODE_TIMEOUT);
                self.cluster.nodes[node].pause();
                self.wait_for_expiry(node);
                // What did not run is not ended at once when it runs again.
                self.locks.excuse(&name, Duration::from_secs(10));
                self.cluster.nodes[node].resume();
            }
            NodeFault::CutDatabase => {
                self.cut_database(node, NetworkFault::Cut);
            }
            NodeFault::HoldDatabase => {
                self.cut_database(node, NetworkFault::BlackHole);
            }
            NodeFault::BlinkDatabase => {
                let proxy = &self.cluster.nodes[node].database;
                proxy.set(NetworkFault::Cut);
                std::thread::sleep(Duration::from_millis(300));
                proxy.set(NetworkFault::None);
            }
            NodeFault::MuteDatabase => self.disturb_database(node, NetworkFault::HalfOpen),
            NodeFault::SlowDatabase => self.disturb_database(node, NetworkFault::Delay(LATE_BY)),
            NodeFault::CutObjects => self.disturb_objects(node, NetworkFault::Cut),
            NodeFault::HoldObjects => self.disturb_objects(node, NetworkFault::BlackHole),
            NodeFault::MuteObjects => self.disturb_objects(node, NetworkFault::HalfOpen),
            NodeFault::SlowObjects => self.disturb_objects(node, NetworkFault::Delay(LATE_BY)),
        }
        self.cluster.wait_until_ready(node);
    }

    /// A node that works for tenants, if possible this one.
    fn find_holder(&self, node: usize) -> usize {
        let count = self.cluster.nodes.len();
        let mut nodes = (node..node + count).map(|node| node % count);
        nodes
            .find(|node| !self.cluster.tenants_of(*node).is_empty())
            .unwrap_or(node)
    }

    fn start(&mut self, node: usize) {
        self.cluster.nodes[node].start_process();
        self.cluster.publish_ports();
    }

    /// Waits until a node holds nothing by the database's clock.
    fn wait_for_expiry(&self, node: usize) {
        let is_over = wait_until(NODE_TIMEOUT, || self.cluster.tenants_of(node).is_empty());
        assert!(is_over, "leases of a node that is cut off do not end");
    }

    fn cut_database(&mut self, node: usize, fault: NetworkFault) {
        self.cluster.nodes[node].database.set(fault);
        self.wait_for_expiry(node);
        // Long enough for others to take its tenants, or not.
        std::thread::sleep(Duration::from_millis(self.numbers.below(1_000) as u64));
        self.cluster.nodes[node].database.set(NetworkFault::None);
    }

    fn disturb_database(&mut self, node: usize, fault: NetworkFault) {
        let time = self.draw_disturbance();
        disturb(&self.cluster.nodes[node].database, fault, time);
    }

    fn disturb_objects(&mut self, node: usize, fault: NetworkFault) {
        let time = self.draw_disturbance();
        disturb(&self.cluster.nodes[node].objects, fault, time);
    }

    /// Shorter than a lease.
    fn draw_disturbance(&mut self) -> Duration {
        Duration::from_millis(500 + self.numbers.below(2_500) as u64)
    }

    /// Kills a node, and waits until all of its tenants are worked for elsewhere.
    fn kill(&mut self, node: usize) {
        let tenants = self.cluster.tenants_of(node);
        self.cluster.nodes[node].kill();
        let killed_at = Instant::now();
        let nodes = self.cluster.nodes.len();
        let others: Vec<usize> = (0..nodes).filter(|other| *other != node).collect();
        let failovers: Vec<_> = tenants
            .into_iter()
            .enumerate()
            .map(|(place, tenant)| {
                let shared = Arc::clone(&self.shared);
                let other = others[place % others.len()];
                std::thread::spawn(move || measure_failover(&shared, &tenant, other, killed_at))
            })
            .collect();
        for failover in failovers {
            let Ok((change, run)) = failover.join() else {
                self.report.problems.push("no fail-over".into());
                continue;
            };
            self.report.change_failovers.push(change);
            self.report.run_failovers.extend(run);
        }
        self.start(node);
    }
}

/// Has a fault on a connection for a while.
fn disturb(proxy: &ChaosProxy, fault: NetworkFault, time: Duration) {
    let loses_answers = fault == NetworkFault::HalfOpen;
    proxy.set(fault);
    std::thread::sleep(time);
    if loses_answers {
        // Otherwise the proxy delivers them late, as TCP does.
        proxy.cut_connections();
    }
    proxy.set(NetworkFault::None);
}

/// How long until a home is changed and a run has ended, on another node.
fn measure_failover(
    shared: &SharedLoad,
    tenant: &str,
    node: usize,
    killed_at: Instant,
) -> (Duration, Option<Duration>) {
    let path = format!("/v1/tenants/{tenant}/files/content");
    let body = json!({"path": "after-failover.txt", "content": "x"});
    let request = NodeRequest::new("PUT", path, Some(body));
    let changed = wait_until(NODE_TIMEOUT, || {
        let answered = shared.addresses.send(node, &request);
        answered.is_ok_and(|reply| reply.is_success())
    });
    assert!(changed, "{tenant} is worked for by nobody");
    let change = killed_at.elapsed();
    let run = shared
        .start_run(tenant, false)
        .and_then(|run| shared.follow_run(&run));
    let is_completed = run.is_some_and(|run| run["status"] == "completed");
    (change, is_completed.then(|| killed_at.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_everything() {
        let plan = FaultPlan::random(7, 60);
        assert_eq!(plan.faults, FaultPlan::random(7, 60).faults);
        assert_ne!(plan.faults, FaultPlan::random(8, 60).faults);
        for kind in NodeFault::ALL {
            assert!(plan.faults.contains(&kind), "{kind:?}");
        }
    }
}
