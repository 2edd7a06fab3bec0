//! The lease protocol as a state machine in virtual time: two nodes, one database, messages that are delayed or lost,
//! nodes that stop for any time or start anew, and transactions that stay open. The nodes' side is the real
//! [`HeldLeases`]; the database's side follows the statements of the PostgreSQL store.

use std::time::Duration;

use super::held::HeldLeases;
use crate::{
    TenantId,
    storage::state::{GrantedLease, LeaseEpoch},
};

const LASTING: u64 = 15_000;
const NODES: usize = 2;
/// Of a message whose sender does not wait for the answer any more.
const GIVEN_UP: u64 = u64::MAX;

/// Pseudorandom numbers, the same for a seed.
struct Choices(u64);

impl Choices {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }
}

/// Which guard of the protocol is left out, to see that the explorer notices it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// Writes are not fenced.
    Fence,
    /// A lease is taken while a write under it is open.
    RowLock,
    /// A node counts a lease from the answer on.
    LeaseFromAnswer,
}

#[derive(Debug, Default)]
struct LeaseRow {
    node: Option<usize>,
    epoch: u64,
    expires_at: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Claim,
    Renew(u64),
    Release(u64),
}

#[expect(
    clippy::option_option,
    reason = "not seen, refused and granted are three things"
)]
#[derive(Debug)]
struct Message {
    node: usize,
    /// The start of the node that sent it: a process that has ended gets no answer.
    life: u64,
    request: Request,
    asked_at: u64,
    /// The epoch that was granted or renewed, once the database has seen it.
    answer: Option<Option<u64>>,
}

/// A write that has passed the fence and is not committed.
struct OpenWrite {
    node: usize,
    life: u64,
    epoch: u64,
}

struct Node {
    held: HeldLeases,
    life: u64,
    /// What its clock shows at the beginning: clocks of nodes are wrong.
    offset: u64,
}

struct World {
    broken: Broken,
    now: u64,
    tenant: TenantId,
    row: LeaseRow,
    nodes: Vec<Node>,
    messages: Vec<Message>,
    open: Vec<OpenWrite>,
    /// The epochs of accepted writes, in the order of their commits.
    accepted: Vec<u64>,
}

impl World {
    fn new(broken: Broken, choices: &mut Choices) -> Self {
        let nodes = (0..NODES).map(|_| Node {
            held: HeldLeases::new(Duration::from_millis(LASTING)),
            life: 0,
            offset: choices.below(1_000_000_000),
        });
        Self {
            broken,
            now: 0,
            tenant: TenantId::parse("acme").unwrap(),
            row: LeaseRow::default(),
            nodes: nodes.collect(),
            messages: Vec::new(),
            open: Vec::new(),
            accepted: Vec::new(),
        }
    }

    fn clock(&self, node: usize) -> Duration {
        Duration::from_millis(self.nodes[node].offset + self.now)
    }

    fn send(&mut self, node: usize, request: Request) {
        if request == Request::Claim {
            // A node waits for the answer to one claim. It has given up earlier ones, which may still be handled.
            let earlier = self.messages.iter_mut();
            for message in earlier.filter(|one| one.node == node && one.request == request) {
                message.life = GIVEN_UP;
            }
        }
        self.messages.push(Message {
            node,
            life: self.nodes[node].life,
            request,
            asked_at: self.nodes[node].offset + self.now,
            answer: None,
        });
    }

    /// The database handles a request.
    fn handle(&mut self, at: usize) {
        let message = &self.messages[at];
        let row = &mut self.row;
        let is_expired = row.expires_at <= self.now;
        let answer = match message.request {
            Request::Claim => {
                let is_free = row.node.is_none() || row.node == Some(message.node) || is_expired;
                // `FOR UPDATE SKIP LOCKED` passes over a row that a write holds.
                let is_locked = !self.open.is_empty() && self.broken != Broken::RowLock;
                (is_free && !is_locked).then(|| {
                    row.node = Some(message.node);
                    row.epoch += 1;
                    row.expires_at = self.now + LASTING;
                    row.epoch
                })
            }
            Request::Renew(epoch) => {
                let is_mine = row.node == Some(message.node) && row.epoch == epoch;
                (is_mine && !is_expired).then(|| {
                    row.expires_at = self.now + LASTING;
                    epoch
                })
            }
            Request::Release(epoch) => {
                if row.node == Some(message.node) && row.epoch == epoch {
                    row.node = None;
                }
                None
            }
        };
        self.messages[at].answer = Some(answer);
    }

    /// A node gets its answer.
    fn receive(&mut self, at: usize) {
        let message = self.messages.swap_remove(at);
        let Some(Some(epoch)) = message.answer else {
            return;
        };
        if self.nodes[message.node].life != message.life {
            return;
        }
        let asked_at = match self.broken {
            Broken::LeaseFromAnswer => self.clock(message.node),
            _ => Duration::from_millis(message.asked_at),
        };
        let lease = self.lease(epoch);
        let held = &mut self.nodes[message.node].held;
        match message.request {
            // An answer to an earlier claim is older than what is held.
            Request::Claim if held.epoch(&self.tenant) < Some(lease.epoch) => {
                held.insert(&lease, asked_at);
            }
            Request::Renew(_) => held.extend(&lease, asked_at),
            Request::Claim | Request::Release(_) => {}
        }
    }

    fn lease(&self, epoch: u64) -> GrantedLease {
        GrantedLease {
            tenant: self.tenant.clone(),
            epoch: LeaseEpoch(epoch),
        }
    }

    /// A node begins a write. It may have been stopped just before, so it does not look at its own clock.
    fn begin_write(&mut self, node: usize) {
        let Some(LeaseEpoch(epoch)) = self.nodes[node].held.epoch(&self.tenant) else {
            return;
        };
        let row = &self.row;
        let passes = row.node == Some(node) && row.epoch == epoch && row.expires_at > self.now;
        if passes || self.broken == Broken::Fence {
            let life = self.nodes[node].life;
            self.open.push(OpenWrite { node, life, epoch });
        }
    }

    fn end_write(&mut self, at: usize, commits: bool) {
        let write = self.open.swap_remove(at);
        if commits && self.nodes[write.node].life == write.life {
            self.accepted.push(write.epoch);
        }
    }

    fn step(&mut self, choices: &mut Choices) {
        let node = choices.index(NODES);
        let held = self.nodes[node].held.epoch(&self.tenant);
        match choices.below(16) {
            0 | 1 => self.now += choices.below(400),
            2 => self.now += choices.below(2 * LASTING),
            3 | 4 if held.is_none() => self.send(node, Request::Claim),
            5 => {
                let due = self.nodes[node].held.due_for_renewal(self.clock(node));
                if let Some(lease) = due.first() {
                    self.send(node, Request::Renew(lease.epoch.0));
                }
            }
            6..=8 if !self.messages.is_empty() => {
                let at = choices.index(self.messages.len());
                if self.messages[at].answer.is_none() {
                    self.handle(at);
                } else {
                    self.receive(at);
                }
            }
            9 if !self.messages.is_empty() => {
                // A request or an answer is lost.
                let at = choices.index(self.messages.len());
                self.messages.swap_remove(at);
            }
            10 | 11 => self.begin_write(node),
            12 | 13 if !self.open.is_empty() => {
                let at = choices.index(self.open.len());
                self.end_write(at, choices.below(4) > 0);
            }
            14 => {
                let now = self.clock(node);
                self.nodes[node].held.take_expiring(now);
            }
            15 => match choices.below(4) {
                0 => self.restart(node),
                1 => {
                    if let Some(lease) = self.nodes[node].held.take(&self.tenant) {
                        self.send(node, Request::Release(lease.epoch.0));
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// `kill -9` and a new process: its transactions are rolled back and it remembers nothing.
    fn restart(&mut self, node: usize) {
        let life = self.nodes[node].life + 1;
        self.open.retain(|write| write.node != node);
        self.nodes[node] = Node {
            held: HeldLeases::new(Duration::from_millis(LASTING)),
            life,
            offset: self.nodes[node].offset,
        };
    }

    /// What must hold after every step.
    fn check(&self) -> Result<(), String> {
        if !self.accepted.is_sorted() {
            return Err(format!("writes of an old epoch: {:?}", self.accepted));
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let may_work = node.held.may_work(&self.tenant, self.clock(at));
            let row = &self.row;
            // Its epoch may be an old one of its own, if a claim was delayed: then its writes are refused.
            let is_right = row.node == Some(at) && row.expires_at > self.now;
            if may_work && !is_right {
                return Err(format!("node {at} works without a lease: {row:?}"));
            }
        }
        Ok(())
    }

    /// A tenant is never stuck: when all is quiet, its lease can be taken.
    fn check_free_at_the_end(&mut self) -> Result<(), String> {
        self.open.clear();
        self.messages.clear();
        self.now += LASTING;
        self.send(0, Request::Claim);
        self.handle(0);
        match self.messages[0].answer {
            Some(Some(_)) => Ok(()),
            _ => Err(format!("nobody gets the lease: {:?}", self.row)),
        }
    }
}

/// Explores random sequences of steps. Returns the first that breaks a promise.
fn explore(broken: Broken, sequences: u64, steps: u32) -> Result<(), String> {
    for seed in 1..=sequences {
        let mut choices = Choices(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut world = World::new(broken, &mut choices);
        let ended = (0..steps).try_for_each(|_| {
            world.step(&mut choices);
            world.check()
        });
        ended
            .and_then(|()| world.check_free_at_the_end())
            .map_err(|what| format!("seed {seed}: {what}"))?;
    }
    Ok(())
}

#[test]
fn no_write_of_an_epoch_is_accepted_after_the_first_of_the_next() {
    explore(Broken::Nothing, 3_000, 300).unwrap();
}

#[test]
fn the_explorer_notices_each_guard_that_is_left_out() {
    for broken in [Broken::Fence, Broken::RowLock, Broken::LeaseFromAnswer] {
        let found = explore(broken, 3_000, 300);
        assert!(found.is_err(), "{broken:?} makes no difference");
    }
}

#[test]
fn a_node_stops_before_its_lease_ends_and_renews_after_a_third() {
    let tenant = TenantId::parse("acme").unwrap();
    let lease = GrantedLease {
        tenant: tenant.clone(),
        epoch: LeaseEpoch(7),
    };
    let second = Duration::from_secs(1);
    let mut held = HeldLeases::new(15 * second);
    held.insert(&lease, 100 * second);
    assert!(held.due_for_renewal(104 * second).is_empty());
    assert_eq!(
        held.due_for_renewal(105 * second),
        std::slice::from_ref(&lease)
    );
    assert!(held.may_work(&tenant, 109 * second));
    assert!(!held.may_work(&tenant, 110 * second));
    held.extend(&lease, 105 * second);
    assert!(held.may_work(&tenant, 114 * second));
    // Its processes are killed after it has had to stop, and before another node may take it.
    let kill_time = held.kill_time(&tenant).unwrap();
    assert!((115 * second..120 * second).contains(&kill_time));
    // A node that stood still learns how little time is left.
    assert_eq!(held.take_expiring(117 * second), [(lease, 3 * second)]);
    assert_eq!(held.len(), 0);
    assert_eq!(held.kill_time(&tenant), None);
}
