//! Connections of clients. A complete request has no time limit; clients that never finish sending one are closed, and
//! no peer can use up all connections.

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the Hub's listener failed: {0}")]
    Socket(#[from] std::io::Error),
    #[error("`{path}` cannot be used for TLS: {reason}")]
    Certificate { path: String, reason: String },
    #[error("another process works under the id of this node; give each node its own `node.id`")]
    NodeReplaced,
}

pub(crate) mod open_connections;
#[cfg(test)]
mod private_socket_tests;
pub(crate) mod tls;
pub(crate) mod tracked_io;

use std::{
    future::Future,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
};

use axum::{Router, extract::ConnectInfo, response::Response, serve::Listener};
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::Service};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{UnixListener, UnixStream},
    task::JoinSet,
};

use crate::{
    http::connections::{
        open_connections::{ConnectionLimits, ConnectionPhase, OpenConnections, Peer, SharedPhase},
        tls::ClientAddress,
        tracked_io::{TrackedBody, TrackedSocket},
    },
    metrics::Metrics,
};

pub(crate) struct AcceptOptions {
    pub(crate) limits: ConnectionLimits,
    pub(crate) metrics: Arc<Metrics>,
}

/// Serves connections until `stop`, then waits for requests in progress.
pub(crate) async fn serve_connections<L>(
    mut listener: L,
    router: Router,
    reception: AcceptOptions,
    who: impl Fn(&L::Addr) -> (Peer, Option<ClientAddress>),
    stop: impl Future<Output = ()>,
) where
    L: Listener,
{
    let AcceptOptions { limits, metrics } = reception;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.idle_timeout);
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let open = Arc::new(OpenConnections::default());
    let mut stop = pin!(stop);
    loop {
        let (io, address) = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = &mut stop => break,
        };
        let (peer, address) = who(&address);
        let Some(admitted) = open.admit(peer, &limits) else {
            metrics.increment("connections_refused_total", "", 1);
            continue;
        };
        let answers = ConnectionService {
            router: TowerToHyperService::new(router.clone()),
            address,
            phase: admitted.phase.clone(),
        };
        let socket = TrackedSocket::new(io, admitted.phase.clone(), limits.header_timeout);
        let connection = http.serve_connection(TokioIo::new(socket), answers);
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            tokio::select! {
                () = admitted.evicted.cancelled() => {}
                ended = connection => if let Err(error) = ended {
                    tracing::trace!(%error, "connection closed");
                }
            }
        });
    }
    drop(listener);
    graceful.shutdown().await;
}

/// The router for the requests of one connection.
struct ConnectionService {
    router: TowerToHyperService<Router>,
    address: Option<ClientAddress>,
    phase: SharedPhase,
}

type RouterFuture = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

impl Service<Request<Incoming>> for ConnectionService {
    type Response = http::Response<TrackedBody>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        self.phase.set(ConnectionPhase::Request);
        if let Some(address) = self.address {
            request.extensions_mut().insert(ConnectInfo(address));
        }
        let phase = self.phase.clone();
        let answering: RouterFuture = self.router.call(request);
        Box::pin(async move {
            let answer: Response = answering.await?;
            Ok(answer.map(|body| TrackedBody::new(body, phase)))
        })
    }
}

/// A process at the other end of a Unix socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalProcess {
    uid: u32,
    pid: Option<i32>,
}

impl LocalProcess {
    /// Processes of one user count as one peer, except those of the Hub's own user.
    pub(crate) fn peer(self) -> Peer {
        let is_own = self.uid == rustix::process::geteuid().as_raw();
        match self.pid {
            Some(pid) if is_own => Peer::Process(pid),
            _ => Peer::User(self.uid),
        }
    }
}

/// Accepts connections on a Unix socket.
pub(crate) struct LocalListener(pub(crate) UnixListener);

impl Listener for LocalListener {
    type Io = UnixStream;
    type Addr = LocalProcess;

    async fn accept(&mut self) -> (UnixStream, LocalProcess) {
        loop {
            let (stream, _) = Listener::accept(&mut self.0).await;
            // A peer that has already disconnected has no credentials.
            if let Ok(credentials) = stream.peer_cred() {
                let (uid, pid) = (credentials.uid(), credentials.pid());
                return (stream, LocalProcess { uid, pid });
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<LocalProcess> {
        let uid = rustix::process::geteuid().as_raw();
        Ok(LocalProcess { uid, pid: None })
    }
}

/// The peer of a network connection.
pub(crate) fn network_peer(
    is_proxy: impl Fn(std::net::IpAddr) -> bool,
) -> impl Fn(&SocketAddr) -> (Peer, Option<ClientAddress>) {
    move |address| {
        let ip = address.ip().to_canonical();
        let peer = if is_proxy(ip) {
            Peer::Proxy
        } else {
            Peer::from_address(ip)
        };
        (peer, Some(ClientAddress(*address)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };
    use tokio_util::sync::CancellationToken;

    use super::*;

    const QUICK: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const LIMITS: ConnectionLimits = ConnectionLimits {
        header_timeout: Duration::from_secs(1),
        idle_timeout: Duration::from_mins(1),
        total: 100,
        per_peer: 100,
    };

    /// Serves with these limits while something is tried.
    async fn tried<T>(
        limits: ConnectionLimits,
        attempt: impl AsyncFnOnce(SocketAddr, CancellationToken) -> T,
    ) -> T {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let slow = {
            let stop = stop.clone();
            async move || {
                stop.cancelled().await;
                "done"
            }
        };
        let router = Router::new()
            .route("/", get(async || "here"))
            .route("/slow", get(slow));
        let reception = AcceptOptions {
            limits,
            metrics: Arc::default(),
        };
        let stopped = stop.clone().cancelled_owned();
        let who = network_peer(|_| false);
        let mut serving = JoinSet::new();
        serving.spawn(serve_connections(listener, router, reception, who, stopped));
        let result = attempt(address, stop.clone()).await;
        stop.cancel();
        let ended = tokio::time::timeout(Duration::from_mins(1), serving.join_next()).await;
        ended.expect("it does not end").unwrap().unwrap();
        result
    }

    async fn connect(address: SocketAddr) -> TcpStream {
        TcpStream::connect(address).await.unwrap()
    }

    async fn answer(stream: &mut TcpStream, end: &str) {
        let mut text = String::new();
        let mut piece = [0; 512];
        while !text.ends_with(end) {
            let count = stream.read(&mut piece).await.unwrap();
            assert!(count > 0, "it was closed after `{text}`");
            text.push_str(std::str::from_utf8(&piece[..count]).unwrap());
        }
    }

    #[tokio::test]
    async fn a_head_that_never_ends_is_not_waited_for() {
        let is_closed = tried(LIMITS, async |address, _| {
            let mut stream = connect(address).await;
            stream.write_all(QUICK).await.unwrap();
            answer(&mut stream, "here").await;
            stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
            let drip = async {
                let mut byte = [0];
                loop {
                    let rest = Duration::from_millis(50);
                    let read = tokio::time::timeout(rest, stream.read(&mut byte)).await;
                    if read.is_ok() || stream.write_all(b"X-A: b\r\n").await.is_err() {
                        return;
                    }
                }
            };
            tokio::time::timeout(Duration::from_secs(30), drip)
                .await
                .is_ok()
        });
        assert!(is_closed.await);
    }

    #[tokio::test]
    async fn a_connection_without_a_request_ends_and_one_between_two_requests_stays() {
        tried(LIMITS, async |address, _| {
            let mut kept = connect(address).await;
            kept.write_all(QUICK).await.unwrap();
            answer(&mut kept, "here").await;
            let begun = Instant::now();
            let mut silent = connect(address).await;
            let closed = tokio::time::timeout(Duration::from_secs(30), silent.read(&mut [0])).await;
            assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");
            assert!(begun.elapsed() >= LIMITS.header_timeout);
            kept.write_all(QUICK).await.unwrap();
            answer(&mut kept, "here").await;
        })
        .await;
    }

    #[tokio::test]
    async fn those_who_ask_for_nothing_keep_nobody_out() {
        let limits = ConnectionLimits {
            header_timeout: Duration::from_mins(5),
            total: 8,
            per_peer: 4,
            ..LIMITS
        };
        tried(limits, async |address, _| {
            let mut silent = Vec::new();
            for _ in 0..20 {
                silent.push(connect(address).await);
            }
            let mut stream = connect(address).await;
            stream.write_all(QUICK).await.unwrap();
            answer(&mut stream, "here").await;
            for stream in &mut silent[..16] {
                let mut byte = [0];
                let read = stream.read(&mut byte);
                let closed = tokio::time::timeout(Duration::from_secs(30), read).await;
                assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");
            }
        })
        .await;
    }

    #[tokio::test]
    async fn a_request_may_take_longer_than_its_head_and_is_ended_before_the_end() {
        tried(LIMITS, async |address, stop| {
            let mut stream = connect(address).await;
            let request = b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n";
            stream.write_all(request).await.unwrap();
            // A connection that says nothing is closed when the time for a head is over.
            let mut silent = connect(address).await;
            let closed = tokio::time::timeout(Duration::from_secs(30), silent.read(&mut [0])).await;
            assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");
            stop.cancel();
            answer(&mut stream, "done").await;
        })
        .await;
    }
}
