//! A proxy between a client and a real server that delays, cuts, holds back or replaces what passes, on demand.

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixStream},
    sync::watch,
    task::JoinSet,
};

use crate::{
    script::lock,
    server_thread::{BoundPort, ServerThread},
};

const BUFFER_BYTES: usize = 16 << 10;

/// The server behind the proxy.
#[derive(Debug, Clone)]
pub enum Upstream {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl From<SocketAddr> for Upstream {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

/// What the proxy does with connections, those that are open already included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum NetworkFault {
    /// Everything passes.
    #[default]
    None,
    /// Each piece waits this long, in both directions.
    Delay(Duration),
    /// Connections are closed, and new ones are closed at once.
    Cut,
    /// Connections stay open, and nothing passes in either direction.
    BlackHole,
    /// The server gets everything, and its replies do not arrive.
    HalfOpen,
    /// Replies end after so many bytes of a connection, which is closed then.
    Truncate(usize),
}

/// A reply of the proxy itself, to whoever connects next.
struct ProxyReply {
    times: usize,
    reply: Vec<u8>,
}

struct ProxyState {
    upstream: Upstream,
    fault: watch::Sender<NetworkFault>,
    /// Counts [`ChaosProxy::cut_connections`].
    cuts: watch::Sender<u64>,
    /// Counts [`ChaosProxy::swallow_connections`].
    swallowed: watch::Sender<u64>,
    replies: Mutex<ProxyReply>,
    connections: Mutex<usize>,
    /// Counts the pieces of requests that the server has got.
    passed_requests: Mutex<usize>,
}

/// A proxy on a loopback port; it stops when dropped.
pub struct ChaosProxy {
    state: Arc<ProxyState>,
    thread: ServerThread,
}

impl ChaosProxy {
    /// Starts a proxy that lets everything pass.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(upstream: impl Into<Upstream>) -> Self {
        let state = Arc::new(ProxyState {
            upstream: upstream.into(),
            fault: watch::Sender::new(NetworkFault::None),
            cuts: watch::Sender::new(0),
            swallowed: watch::Sender::new(0),
            replies: Mutex::new(ProxyReply {
                times: 0,
                reply: Vec::new(),
            }),
            connections: Mutex::new(0),
            passed_requests: Mutex::new(0),
        });
        let served = Arc::clone(&state);
        let started =
            BoundPort::bind(0).and_then(|port| port.serve(|socket| serve(socket, served)));
        match started {
            Ok(thread) => Self { state, thread },
            Err(error) => panic!("cannot start a proxy: {error}"),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.thread.address()
    }

    /// Changes what happens from now on.
    pub fn set(&self, fault: NetworkFault) {
        self.state.fault.send_replace(fault);
    }

    /// Closes the connections that are open; new ones are accepted.
    pub fn cut_connections(&self) {
        self.state.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// From now on nothing passes over the connections that are open, and nothing closes them, as if the machine behind
    /// them had vanished. New ones work.
    pub fn swallow_connections(&self) {
        self.state.swallowed.send_modify(|count| *count += 1);
    }

    /// Answers the next connections itself, with these bytes, and closes them. Open connections are closed, so that
    /// the next request needs a new one.
    pub fn answer_next(&self, times: usize, reply: impl Into<Vec<u8>>) {
        *lock(&self.state.replies) = ProxyReply {
            times,
            reply: reply.into(),
        };
        self.cut_connections();
    }

    /// How many of those answers are still to be given.
    pub fn answers_left(&self) -> usize {
        lock(&self.state.replies).times
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> usize {
        *lock(&self.state.connections)
    }

    /// How many pieces of requests the server has got so far.
    pub fn passed_requests(&self) -> usize {
        *lock(&self.state.passed_requests)
    }
}

async fn serve(socket: TcpListener, state: Arc<ProxyState>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = socket.accept().await {
        *lock(&state.connections) += 1;
        let state = Arc::clone(&state);
        connections.spawn(async move { pass_on(stream, &state).await });
        while connections.try_join_next().is_some() {}
    }
}

async fn pass_on(mut near: TcpStream, state: &ProxyState) -> io::Result<()> {
    near.set_nodelay(true)?;
    let scripted = {
        let mut replies = lock(&state.replies);
        (replies.times > 0).then(|| {
            replies.times -= 1;
            replies.reply.clone()
        })
    };
    if let Some(reply) = scripted {
        return answer(&mut near, &reply).await;
    }
    let mut cuts = state.cuts.subscribe();
    cuts.mark_unchanged();
    let mut swallowed = state.swallowed.subscribe();
    swallowed.mark_unchanged();
    let mut fault = state.fault.subscribe();
    if *fault.borrow_and_update() == NetworkFault::Cut {
        return Ok(());
    }
    let passed = async {
        match &state.upstream {
            Upstream::Tcp(address) => {
                let far = TcpStream::connect(address).await?;
                far.set_nodelay(true)?;
                pass_both_ways(near, far, state).await
            }
            Upstream::Unix(path) => {
                let far = UnixStream::connect(path).await?;
                pass_both_ways(near, far, state).await
            }
        }
    };
    tokio::pin!(passed);
    tokio::select! {
        passed = &mut passed => return passed,
        _ = swallowed.changed() => {}
        _ = cuts.changed() => return Ok(()),
        _ = fault.wait_for(|fault| *fault == NetworkFault::Cut) => return Ok(()),
    }
    // Both ends stay open, and nobody reads from them.
    tokio::select! {
        _ = cuts.changed() => {}
        _ = fault.wait_for(|fault| *fault == NetworkFault::Cut) => {}
    }
    Ok(())
}

/// Reads the head of a request and what came with it, and replies.
async fn answer(near: &mut TcpStream, reply: &[u8]) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut request = Vec::new();
    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
        let read = near.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        request.extend_from_slice(&buffer[..read]);
    }
    near.write_all(reply).await?;
    near.shutdown().await?;
    // What the client still sends is read, so that it sees the reply and no reset.
    while near.read(&mut buffer).await? > 0 {}
    Ok(())
}

async fn pass_both_ways(
    near: TcpStream,
    far: impl AsyncRead + AsyncWrite,
    state: &ProxyState,
) -> io::Result<()> {
    let (near_read, near_write) = tokio::io::split(near);
    let (far_read, far_write) = tokio::io::split(far);
    let there = pump(near_read, far_write, state, Direction::Request);
    let back = pump(far_read, near_write, state, Direction::Reply);
    // The end of the replies ends the connection; the end of the requests does not.
    tokio::pin!(there, back);
    tokio::select! {
        done = &mut back => done,
        done = &mut there => { done?; back.await }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Reply,
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    state: &ProxyState,
    direction: Direction,
) -> io::Result<()> {
    let mut fault = state.fault.subscribe();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut passed = 0;
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        let now = fault.borrow_and_update().clone();
        match now {
            NetworkFault::Delay(delay) => tokio::time::sleep(delay).await,
            NetworkFault::Cut => return Ok(()),
            NetworkFault::HalfOpen if direction == Direction::Request => {}
            NetworkFault::BlackHole | NetworkFault::HalfOpen => {
                // It arrives when the fault is over, as TCP sends again what was lost.
                let holds_back = |fault: &NetworkFault| {
                    *fault == NetworkFault::BlackHole
                        || *fault == NetworkFault::HalfOpen && direction == Direction::Reply
                };
                let is_gone = fault.wait_for(|fault| !holds_back(fault)).await.is_err();
                if is_gone || *fault.borrow() == NetworkFault::Cut {
                    return Ok(());
                }
            }
            NetworkFault::Truncate(most) if direction == Direction::Reply => {
                let left = read.min(most.saturating_sub(passed));
                to.write_all(&buffer[..left]).await?;
                passed += left;
                if passed == most {
                    return to.shutdown().await;
                }
                continue;
            }
            NetworkFault::None | NetworkFault::Truncate(_) => {}
        }
        to.write_all(&buffer[..read]).await?;
        passed += read;
        if direction == Direction::Request {
            *lock(&state.passed_requests) += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::wait_until;

    /// Sends back what it gets.
    fn echo_server() -> SocketAddr {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = socket.accept() {
                std::thread::spawn(move || {
                    let mut buffer = [0; 1024];
                    while let Ok(read) = stream.read(&mut buffer) {
                        if read == 0 || stream.write_all(&buffer[..read]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    fn connect(proxy: &ChaosProxy) -> TcpStream {
        let stream = TcpStream::connect(proxy.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        stream
    }

    fn echo(stream: &mut TcpStream, text: &[u8]) -> io::Result<Vec<u8>> {
        stream.write_all(text)?;
        let mut buffer = [0; 1024];
        let mut got = Vec::new();
        while got.len() < text.len() {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => got.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(got)
    }

    #[test]
    fn everything_passes_until_it_does_not_and_passes_again() {
        let proxy = ChaosProxy::start(echo_server());
        let mut stream = connect(&proxy);
        stream
            .set_read_timeout(Some(Duration::from_mins(1)))
            .unwrap();
        assert_eq!(echo(&mut stream, b"one").unwrap(), b"one");
        proxy.set(NetworkFault::Cut);
        let after_cut = echo(&mut stream, b"two");
        assert!(after_cut.is_err() || after_cut.unwrap().is_empty());
        proxy.set(NetworkFault::None);
        let mut stream = connect(&proxy);
        stream
            .set_read_timeout(Some(Duration::from_mins(1)))
            .unwrap();
        assert_eq!(echo(&mut stream, b"three").unwrap(), b"three");
        assert_eq!(proxy.connections(), 2);
    }

    #[test]
    fn a_black_hole_answers_nothing_and_closes_nothing() {
        let proxy = ChaosProxy::start(echo_server());
        proxy.set(NetworkFault::BlackHole);
        let mut stream = connect(&proxy);
        let error = echo(&mut stream, b"one").unwrap_err();
        assert!(matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        ));
    }

    #[test]
    fn a_request_without_a_reply_arrives_and_is_counted() {
        let proxy = ChaosProxy::start(echo_server());
        let mut stream = connect(&proxy);
        proxy.set(NetworkFault::HalfOpen);
        let error = echo(&mut stream, b"one").unwrap_err();
        assert!(matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        ));
        let has_passed = || proxy.passed_requests() == 1;
        assert!(wait_until(Duration::from_mins(1), has_passed));
    }

    #[test]
    fn a_reply_is_truncated_and_a_scripted_one_replaces_it() {
        let proxy = ChaosProxy::start(echo_server());
        proxy.set(NetworkFault::Truncate(2));
        let mut stream = connect(&proxy);
        stream
            .set_read_timeout(Some(Duration::from_mins(1)))
            .unwrap();
        assert_eq!(echo(&mut stream, b"one").unwrap(), b"on");
        proxy.set(NetworkFault::None);
        proxy.answer_next(1, "no");
        let mut stream = connect(&proxy);
        stream
            .set_read_timeout(Some(Duration::from_mins(1)))
            .unwrap();
        assert_eq!(echo(&mut stream, b"GET\r\n\r\n").unwrap(), b"no");
        assert_eq!(proxy.answers_left(), 0);
    }
}
