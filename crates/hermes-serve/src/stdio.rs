//! Serving on a pair of streams, as a local server does.
//!
//! The protocol library answers each request in a task of its own, however many there are, and would hold every answer
//! that a client does not take. So this stops reading while requests or answers pile up. And it would wait for handlers
//! after the client has gone.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use rmcp::{
    RoleServer, ServerHandler, ServiceExt,
    model::{GetExtensions, JsonRpcMessage},
    service::{DynService, RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage},
    transport::{Transport, async_rw::AsyncRwTransport, io::stdio_pipes},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

use super::ServeError;

/// Answers that may wait for a client to read them before no more requests are taken.
const MAX_UNREAD_RESPONSES: usize = 32;
/// Requests that may be worked on before no more are taken. Counted by themselves, as not every one gets an answer: of
/// two that use the same id at the same time, one goes without. Enough for as many calls as may wait for something.
const MAX_OPEN_REQUESTS: usize = 1200;
/// How often to look whether a client that reads nothing has gone.
const HANGUP_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How long responses in flight may take at shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// Serves on stdin and stdout until stdin closes or `stop` is cancelled; the end cancels `stop`, too. Nothing else may
/// be written to stdout meanwhile.
pub fn serve<S: ServerHandler>(
    handler: S,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<(), ServeError>> {
    let (input, output) = stdio_pipes();
    serve_on(handler, input, output, stdin_hung_up, stop)
}

/// As [`serve`], on other streams. `has_gone` tells whether the client is away although it has not been read to the
/// end.
pub fn serve_on<S, R, W>(
    handler: S,
    input: R,
    output: W,
    has_gone: fn() -> bool,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<(), ServeError>>
where
    S: ServerHandler,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (input, output) = (Box::new(input), Box::new(output));
    Box::pin(serve_boxed(
        handler.into_dyn(),
        input,
        output,
        has_gone,
        stop,
    ))
}

/// One type for all handlers and streams: the library's service is large, and so it is compiled once.
async fn serve_boxed(
    handler: Box<dyn DynService<RoleServer>>,
    input: Box<dyn AsyncRead + Send + Unpin>,
    output: Box<dyn AsyncWrite + Send + Unpin>,
    has_gone: fn() -> bool,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let transport = ThrottledTransport {
        inner: AsyncRwTransport::new_server(input, output),
        load: watch::Sender::default(),
        has_gone,
        stop: stop.clone(),
    };
    let running = match handler.serve_with_ct(transport, stop.clone()).await {
        Ok(running) => running,
        // Closed before the first message: the client only looked whether we start.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            return Ok(());
        }
        Err(error) => return Err(ServeError::Initialize(Box::new(error))),
    };
    let overdue = async {
        stop.cancelled().await;
        tokio::time::sleep(SHUTDOWN_GRACE).await;
    };
    tokio::select! {
        ended = running.waiting() => { ended?; }
        () = overdue => tracing::debug!("shutdown timed out before all responses were sent"),
    }
    stop.cancel();
    Ok(())
}

/// A transport that takes no more requests while there is too much to do.
struct ThrottledTransport<T> {
    inner: T,
    load: watch::Sender<TransportLoad>,
    has_gone: fn() -> bool,
    stop: CancellationToken,
}

/// What is under way.
#[derive(Debug, Default)]
struct TransportLoad {
    open: usize,
    /// Answers that the client has not taken.
    unread: usize,
}

impl TransportLoad {
    fn is_full(&self) -> bool {
        self.open >= MAX_OPEN_REQUESTS || self.unread >= MAX_UNREAD_RESPONSES
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for ThrottledTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let unread = LoadGuard::increment(&self.load, |load| &mut load.unread);
        let sent = self.inner.send(item);
        async move {
            let outcome = sent.await;
            drop(unread);
            outcome
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        // Answers first: what is ready is sent before more is asked for.
        tokio::task::yield_now().await;
        let mut load = self.load.subscribe();
        while load.borrow_and_update().is_full() {
            // While nothing is read, the end of the input is not seen.
            if tokio::time::timeout(HANGUP_POLL_INTERVAL, load.changed())
                .await
                .is_err()
                && (self.has_gone)()
            {
                self.stop.cancel();
                return None;
            }
        }
        let mut message = self.inner.receive().await;
        match &mut message {
            Some(JsonRpcMessage::Request(taken)) => {
                // Goes where the request goes, and ends with it.
                let open = LoadGuard::increment(&self.load, |load| &mut load.open);
                taken.request.extensions_mut().insert(Arc::new(open));
            }
            Some(_) => {}
            // The client has gone: what still waits for something is cancelled.
            None => self.stop.cancel(),
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

/// One of those that are counted, until it is dropped.
struct LoadGuard {
    load: watch::Sender<TransportLoad>,
    count: fn(&mut TransportLoad) -> &mut usize,
}

impl LoadGuard {
    fn increment(
        load: &watch::Sender<TransportLoad>,
        count: fn(&mut TransportLoad) -> &mut usize,
    ) -> Self {
        load.send_modify(|load| *count(load) += 1);
        Self {
            load: load.clone(),
            count,
        }
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.load.send_modify(|load| *(self.count)(load) -= 1);
    }
}

/// Whether the other end of stdin is closed, although there may be something left to read.
#[cfg(unix)]
fn stdin_hung_up() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdin = std::io::stdin();
    let mut descriptors = [PollFd::new(&stdin, PollFlags::empty())];
    poll(&mut descriptors, Some(&Timespec::default())).is_ok()
        && descriptors[0].revents().contains(PollFlags::HUP)
}

#[cfg(not(unix))]
fn stdin_hung_up() -> bool {
    false
}
