//! Limits open connections, in total and per peer. At the limit, the connection that has been idle for longest is
//! closed.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use hermes_config::sync::{Mutex, MutexGuard};
use rustix::process::{Resource, getrlimit};
use tokio_util::sync::CancellationToken;

/// Most client connections, whatever the file limit is.
const MAX_PUBLIC: usize = 16_384;
const MAX_PRIVATE: usize = 1_024;
const MAX_METRICS: usize = 64;
/// How long request headers may take, from the start of the connection or from their first byte.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a connection may be idle: longer than clients keep unused connections, so that it is not closed just when
/// they use it.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);

#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    pub(crate) header_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) total: usize,
    pub(crate) per_peer: usize,
}

impl ConnectionLimits {
    fn with_counts(all: usize, each: usize) -> Self {
        Self {
            header_timeout: HEADER_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            total: all.max(1),
            per_peer: each.max(1),
        }
    }

    /// For clients: half of the file limit, so that the Hub keeps the other half.
    pub(crate) fn public() -> Self {
        let all = (max_open_files() / 2).min(MAX_PUBLIC);
        Self::with_counts(all, all / 2)
    }

    /// For tenants' agents.
    pub(crate) fn private() -> Self {
        let all = (max_open_files() / 8).min(MAX_PRIVATE);
        Self::with_counts(all, all / 4)
    }

    /// For scrapers of metrics.
    pub(crate) fn metrics() -> Self {
        Self::with_counts(MAX_METRICS, MAX_METRICS)
    }
}

/// The process's limit of open files.
fn max_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    Address(IpAddr),
    /// A trusted proxy, which forwards requests of many clients.
    Proxy,
    /// A process of another user of this machine.
    User(u32),
    /// A process of the same user.
    Process(i32),
}

impl Peer {
    /// A /64 counts as one peer: that is what one IPv6 subscriber gets.
    pub(crate) fn from_address(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                std::net::Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into()
            }
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ConnectionPhase {
    /// No request yet.
    New,
    /// Part of the headers of another request has arrived.
    Header,
    Idle,
    /// A request is in progress.
    Request,
}

/// The phase of one connection, shared by its socket and its bodies.
#[derive(Debug, Clone)]
pub(crate) struct SharedPhase(Arc<AtomicU8>);

impl SharedPhase {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU8::new(ConnectionPhase::New as u8)))
    }

    pub(crate) fn get(&self) -> ConnectionPhase {
        match self.0.load(Ordering::Relaxed) {
            0 => ConnectionPhase::New,
            1 => ConnectionPhase::Header,
            2 => ConnectionPhase::Idle,
            _ => ConnectionPhase::Request,
        }
    }

    pub(crate) fn set(&self, phase: ConnectionPhase) {
        self.0.store(phase as u8, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct OpenConnection {
    peer: Peer,
    phase: SharedPhase,
    evicted: CancellationToken,
}

#[derive(Debug, Default)]
struct ConnectionTable {
    next: u64,
    /// Oldest first.
    open: BTreeMap<u64, OpenConnection>,
    by_peer: HashMap<Peer, usize>,
}

#[derive(Debug, Default)]
pub(crate) struct OpenConnections(Mutex<ConnectionTable>);

/// A connection that is counted while this lives.
#[derive(Debug)]
pub(crate) struct AdmittedConnection {
    connections: Arc<OpenConnections>,
    number: u64,
    pub(crate) phase: SharedPhase,
    /// Cancelled when it is evicted.
    pub(crate) evicted: CancellationToken,
}

impl OpenConnections {
    /// Admits a connection, if there is room for it or another one can be evicted.
    pub(crate) fn admit(
        self: &Arc<Self>,
        peer: Peer,
        limits: &ConnectionLimits,
    ) -> Option<AdmittedConnection> {
        let mut registered = self.lock();
        let of_peer = registered.by_peer.get(&peer).copied().unwrap_or_default();
        if of_peer >= limits.per_peer && peer != Peer::Proxy {
            registered.evict_one(|open| open.peer == peer)?;
        } else if registered.open.len() >= limits.total {
            registered.evict_one(|_| true)?;
        }
        let number = registered.next;
        registered.next += 1;
        let (phase, ended) = (SharedPhase::new(), CancellationToken::new());
        *registered.by_peer.entry(peer).or_default() += 1;
        let open = OpenConnection {
            peer,
            phase: phase.clone(),
            evicted: ended.clone(),
        };
        registered.open.insert(number, open);
        Some(AdmittedConnection {
            connections: Arc::clone(self),
            number,
            phase,
            evicted: ended,
        })
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionTable> {
        self.0.lock()
    }
}

impl ConnectionTable {
    /// Evicts the oldest connection that has never sent a request, or else the one idle for longest.
    fn evict_one(&mut self, is_meant: impl Fn(&OpenConnection) -> bool) -> Option<()> {
        use ConnectionPhase::{Header, Idle, New};
        let among = |phases: &[ConnectionPhase]| {
            let mut open = self.open.iter();
            let candidate =
                open.find(|(_, open)| is_meant(open) && phases.contains(&open.phase.get()));
            candidate.map(|(number, _)| *number)
        };
        let number = among(&[New, Header]).or_else(|| among(&[Idle]))?;
        let open = self.remove(number)?;
        open.evicted.cancel();
        Some(())
    }

    fn remove(&mut self, number: u64) -> Option<OpenConnection> {
        let open = self.open.remove(&number)?;
        if let Some(count) = self.by_peer.get_mut(&open.peer) {
            *count -= 1;
            if *count == 0 {
                self.by_peer.remove(&open.peer);
            }
        }
        Some(open)
    }
}

impl Drop for AdmittedConnection {
    fn drop(&mut self) {
        self.connections.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn peer(number: u32) -> Peer {
        Peer::from_address(Ipv4Addr::from_bits(number).into())
    }

    fn limits(all: usize, each: usize) -> ConnectionLimits {
        ConnectionLimits::with_counts(all, each)
    }

    #[test]
    fn whoever_asks_for_nothing_makes_way_for_the_next_of_the_same_peer() {
        let open = Arc::new(OpenConnections::default());
        let limits = limits(10, 2);
        let busy = open.admit(peer(1), &limits).unwrap();
        busy.phase.set(ConnectionPhase::Request);
        let waiting = open.admit(peer(1), &limits).unwrap();
        let other = open.admit(peer(2), &limits).unwrap();
        let third = open.admit(peer(1), &limits).unwrap();
        assert!(waiting.evicted.is_cancelled());
        assert!(!busy.evicted.is_cancelled() && !other.evicted.is_cancelled());
        third.phase.set(ConnectionPhase::Request);
        assert!(open.admit(peer(1), &limits).is_none());
        drop(busy);
        assert!(open.admit(peer(1), &limits).is_some());
        drop((waiting, other, third));
        assert!(open.lock().open.is_empty() && open.lock().by_peer.is_empty());
    }

    #[test]
    fn in_all_no_more_are_let_in_than_there_is_room_for() {
        let open = Arc::new(OpenConnections::default());
        let limits = limits(3, 2);
        let idle = open.admit(peer(1), &limits).unwrap();
        idle.phase.set(ConnectionPhase::Idle);
        let new = open.admit(peer(2), &limits).unwrap();
        let busy = open.admit(peer(3), &limits).unwrap();
        busy.phase.set(ConnectionPhase::Request);
        let fourth = open.admit(peer(4), &limits).unwrap();
        fourth.phase.set(ConnectionPhase::Request);
        assert!(new.evicted.is_cancelled() && !idle.evicted.is_cancelled());
        let fifth = open.admit(peer(5), &limits).unwrap();
        fifth.phase.set(ConnectionPhase::Request);
        assert!(idle.evicted.is_cancelled());
        assert!(open.admit(peer(6), &limits).is_none());
    }

    #[test]
    fn a_proxy_stands_for_many_and_a_network_of_ipv6_for_one() {
        let open = Arc::new(OpenConnections::default());
        let limits = limits(10, 1);
        let one = open.admit(Peer::Proxy, &limits).unwrap();
        let _other = open.admit(Peer::Proxy, &limits).unwrap();
        assert!(!one.evicted.is_cancelled());
        let at = |address: &str| Peer::from_address(address.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:1"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:1.2.3.4"), at("1.2.3.4"));
    }
}
