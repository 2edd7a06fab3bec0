//! The limits of the private socket: what one user's processes open keeps no other user's agent out, and who asks for
//! nothing is not waited for.

use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use axum::routing::get;
use hermes_testkit::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use super::*;

const QUICK: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const SLOW: &[u8] = b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n";
const TIMEOUT: std::time::Duration = std::time::Duration::from_mins(1);

/// Serves a socket, with the limits of the private one, while something is tried. So many connections are of one user,
/// those after them of another. The attempt is told how many requests are in progress.
async fn tried<T>(of_first: usize, attempt: impl AsyncFnOnce(&Path, &AtomicUsize) -> T) -> T {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("private.sock");
    let listener = LocalListener(UnixListener::bind(&path).unwrap());
    let stop = CancellationToken::new();
    let busy = Arc::new(AtomicUsize::new(0));
    let slow = {
        let (stop, busy) = (stop.clone(), Arc::clone(&busy));
        async move || {
            busy.fetch_add(1, Ordering::Relaxed);
            stop.cancelled().await;
            "done"
        }
    };
    let router = Router::new()
        .route("/", get(async || "here"))
        .route("/slow", get(slow));
    let reception = AcceptOptions {
        limits: ConnectionLimits::private(),
        metrics: Arc::default(),
    };
    let accepted = AtomicUsize::new(0);
    let who = move |_: &LocalProcess| {
        let is_first = accepted.fetch_add(1, Ordering::Relaxed) < of_first;
        (Peer::User(if is_first { 1001 } else { 1002 }), None)
    };
    let stopped = stop.clone().cancelled_owned();
    let mut serving = JoinSet::new();
    serving.spawn(serve_connections(listener, router, reception, who, stopped));
    let result = attempt(path.as_path(), busy.as_ref()).await;
    stop.cancel();
    serving.join_next().await.unwrap().unwrap();
    result
}

async fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).await.unwrap();
    // The server accepts meanwhile.
    tokio::task::yield_now().await;
    stream
}

/// Sends a request that is answered at once.
async fn assert_served(mut stream: UnixStream) {
    stream.write_all(QUICK).await.unwrap();
    let mut text = String::new();
    let mut piece = [0; 512];
    while !text.ends_with("here") {
        let read = tokio::time::timeout(TIMEOUT, stream.read(&mut piece));
        let count = read.await.expect("no answer in time").unwrap();
        assert!(count > 0, "it was closed after `{text}`");
        text.push_str(std::str::from_utf8(&piece[..count]).unwrap());
    }
}

#[tokio::test]
async fn requests_of_one_user_leave_the_socket_open_to_another() {
    let limits = ConnectionLimits::private();
    // More than all users may have together.
    let flood = limits.total + 1;
    tried(flood, async |path, busy| {
        let mut first = Vec::new();
        for number in 0..flood {
            let mut stream = connect(path).await;
            // One that was not let in is closed already.
            let _ = stream.write_all(SLOW).await;
            first.push(stream);
            let expected = (number + 1).min(limits.per_peer);
            let are_busy = || busy.load(Ordering::Relaxed) >= expected;
            assert!(eventually(TIMEOUT, are_busy).await, "{number}");
        }
        assert_served(connect(path).await).await;
        assert_eq!(busy.load(Ordering::Relaxed), limits.per_peer);
    })
    .await;
}

#[tokio::test]
async fn idle_connections_of_one_user_make_way_for_newer_ones() {
    let limits = ConnectionLimits::private();
    let begun = std::time::Instant::now();
    let surplus = 8;
    let flood = limits.per_peer + surplus;
    tried(flood, async |path, _| {
        let mut idle = Vec::new();
        for _ in 0..flood {
            idle.push(connect(path).await);
        }
        // They are accepted in order, so all of them have been.
        assert_served(connect(path).await).await;
        for stream in &mut idle[..surplus] {
            let mut byte = [0];
            let closed = tokio::time::timeout(TIMEOUT, stream.read(&mut byte)).await;
            assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");
        }
        let next = idle[surplus].try_read(&mut [0]);
        let kind = next.map_err(|error| error.kind());
        assert_eq!(kind, Err(std::io::ErrorKind::WouldBlock));
        // Not because they were silent for too long.
        assert!(begun.elapsed() < limits.header_timeout);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_asks_for_nothing_is_closed_when_its_time_is_over() {
    let limits = ConnectionLimits::private();
    let begun = tokio::time::Instant::now();
    let taken = tried(1, async |path, _| {
        let mut silent = connect(path).await;
        let closed = silent.read(&mut [0]).await;
        assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
        begun.elapsed()
    })
    .await;
    let is_in_time = (limits.header_timeout..limits.idle_timeout).contains(&taken);
    assert!(is_in_time, "{taken:?}");
}
