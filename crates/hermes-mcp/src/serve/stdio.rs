//! Serving on a pair of streams, as a local server does.
//!
//! The protocol library answers each request in a task of its own and would hold every answer that a client does not
//! take, so this stops reading while answers pile up; and it would wait for handlers after the client has gone.

use std::time::Duration;

use rmcp::{
    RoleServer, ServerHandler, ServiceExt,
    service::{RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage},
    transport::{Transport, async_rw::AsyncRwTransport, io::stdio_pipes},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

use super::ServeError;

/// Answers that may wait for a client to read them before no more requests are taken.
const MOST_UNREAD: usize = 32;
/// How often to look whether a client that reads nothing has gone.
const LOOK: Duration = Duration::from_millis(500);
/// How long answers may take that are under way at the end.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Serves on stdin and stdout until stdin closes or `stop` is cancelled; the end cancels `stop`, too. Nothing else may
/// be written to stdout meanwhile.
pub async fn serve<S: ServerHandler>(
    handler: S,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let (input, output) = stdio_pipes();
    serve_on(handler, input, output, stdin_hung_up, stop).await
}

/// As [`serve`], on other streams. `has_gone` tells whether the client is away although it has not been read to the
/// end.
pub async fn serve_on<S, R, W>(
    handler: S,
    input: R,
    output: W,
    has_gone: fn() -> bool,
    stop: CancellationToken,
) -> Result<(), ServeError>
where
    S: ServerHandler,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let transport = Throttled {
        inner: AsyncRwTransport::new_server(input, output),
        unread: watch::Sender::new(0),
        has_gone,
        stop: stop.clone(),
    };
    let running = match handler.serve_with_ct(transport, stop.clone()).await {
        Ok(running) => running,
        // Closed before the first message: the client only looked whether we start.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            return Ok(());
        }
        Err(error) => return Err(ServeError::Opening(Box::new(error))),
    };
    let overdue = async {
        stop.cancelled().await;
        tokio::time::sleep(LAST_ANSWERS).await;
    };
    tokio::select! {
        ended = running.waiting() => { ended?; }
        () = overdue => tracing::debug!("some answers were not taken in time"),
    }
    stop.cancel();
    Ok(())
}

/// A transport that takes no more requests while too many answers are unread.
struct Throttled<T> {
    inner: T,
    unread: watch::Sender<usize>,
    has_gone: fn() -> bool,
    stop: CancellationToken,
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Throttled<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let unread = Unread::one_more(self.unread.clone());
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
        let mut unread = self.unread.subscribe();
        while *unread.borrow_and_update() >= MOST_UNREAD {
            // While nothing is read, the end of the input is not seen.
            if tokio::time::timeout(LOOK, unread.changed()).await.is_err() && (self.has_gone)() {
                self.stop.cancel();
                return None;
            }
        }
        let message = self.inner.receive().await;
        if message.is_none() {
            // Whatever still waits for something, nobody wants to know any more.
            self.stop.cancel();
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

/// An answer that the client has not taken yet.
struct Unread(watch::Sender<usize>);

impl Unread {
    fn one_more(count: watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
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
