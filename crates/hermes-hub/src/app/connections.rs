//! Connections of clients. Requests have all the time they need; those who never finish one have not.

use std::{future::Future, net::SocketAddr, pin::pin, time::Duration};

use axum::{Router, extract::ConnectInfo, serve::Listener};
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::Service};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::task::JoinSet;

use super::ClientAddress;

/// How long the head of a request may take, and a connection go without any: longer than clients keep one that they do
/// not use, so that it is not closed just when they do.
pub(super) const HEAD_PATIENCE: Duration = Duration::from_mins(2);

/// Serves connections until `stop`, then those that have a request under way.
pub(super) async fn serve<L>(
    mut listener: L,
    router: Router,
    patience: Duration,
    stop: impl Future<Output = ()>,
) where
    L: Listener<Addr = SocketAddr>,
{
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(patience);
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let (io, address) = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = &mut stop => break,
        };
        let answers = Answers {
            router: TowerToHyperService::new(router.clone()),
            address: ClientAddress(address),
        };
        let connection = http.serve_connection(TokioIo::new(io), answers);
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::trace!("a connection ended: {error}");
            }
        });
    }
    drop(listener);
    graceful.shutdown().await;
}

/// The router, for requests from one address.
struct Answers {
    router: TowerToHyperService<Router>,
    address: ClientAddress,
}

impl Service<Request<Incoming>> for Answers {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(ConnectInfo(self.address));
        self.router.call(request)
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };
    use tokio_util::sync::CancellationToken;

    use super::*;

    const QUICK: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    /// Serves with little patience while something is tried.
    async fn tried<T>(attempt: impl AsyncFnOnce(TcpStream, CancellationToken) -> T) -> T {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let slow = async || {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            "done"
        };
        let router = Router::new()
            .route("/", get(async || "here"))
            .route("/slow", get(slow));
        let stop = CancellationToken::new();
        let patience = Duration::from_millis(500);
        let served = serve(listener, router, patience, stop.clone().cancelled_owned());
        let mut serving = JoinSet::new();
        serving.spawn(served);
        let stream = TcpStream::connect(address).await.unwrap();
        let result = attempt(stream, stop.clone()).await;
        stop.cancel();
        let ended = tokio::time::timeout(Duration::from_mins(1), serving.join_next()).await;
        ended.expect("it does not end").unwrap().unwrap();
        result
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
        let is_closed = tried(async |mut stream, _| {
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
            tokio::time::timeout(Duration::from_mins(1), drip)
                .await
                .is_ok()
        });
        assert!(is_closed.await);
    }

    #[tokio::test]
    async fn a_request_may_take_longer_than_its_head_and_is_ended_before_the_end() {
        tried(async |mut stream, stop| {
            let request = b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n";
            stream.write_all(request).await.unwrap();
            tokio::time::sleep(Duration::from_millis(700)).await;
            stop.cancel();
            answer(&mut stream, "done").await;
        })
        .await;
    }
}
