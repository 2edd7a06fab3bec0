//! One JSON-RPC message per line over a pair of byte streams: how a local server speaks.
//!
//! Lines that are not JSON-RPC are skipped. A line may have 16 MiB: what is longer is dropped while it arrives, so
//! memory stays bounded, and the calls in flight are failed at once because one of them was just answered.

use std::{
    collections::{HashMap, VecDeque},
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use hermes_config::sync::{Mutex, MutexGuard};
use rmcp::{
    RoleClient,
    model::{
        ClientJsonRpcMessage, ClientNotification, ErrorData, JsonRpcMessage, JsonRpcNotification,
        RequestId, ServerJsonRpcMessage,
    },
    transport::Transport,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use super::decode;

/// The longest line that is accepted from a server.
pub const MAX_LINE: usize = 16 * 1024 * 1024;
/// What one read may bring. As large as the pipe, so that big answers need few system calls.
const READ_CHUNK: usize = 64 * 1024;
/// A buffer that grew for one large message is given back beyond this.
const MAX_RETAINED_CAPACITY: usize = 1024 * 1024;

/// A message longer than [`MAX_LINE`] arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the server sent a line longer than {} MiB, the maximum of a message over stdio",
    MAX_LINE / 1024 / 1024
)]
pub struct LineTooLong;

/// The client's end of a line-based connection.
pub struct LineTransport<R, W> {
    reader: LineReader<R>,
    outbox: Arc<Outbox<W>>,
    /// What each request in flight asked for, so that its answer is decoded as just that.
    in_flight: HashMap<RequestId, decode::ExpectedReply>,
    /// Failures to be handed to the calls in flight.
    failures: VecDeque<RequestId>,
}

impl<R: AsyncRead + Unpin, W> LineTransport<R, W> {
    /// Reads messages from `reader` and writes them to `writer`.
    pub fn new(reader: R, writer: W) -> Self {
        Self {
            reader: LineReader::new(reader),
            outbox: Arc::new(Outbox::new(writer)),
            in_flight: HashMap::new(),
            failures: VecDeque::new(),
        }
    }

    fn track_request(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => {
                let expected = decode::ExpectedReply::for_request(&request.request);
                self.in_flight.insert(request.id.clone(), expected);
            }
            JsonRpcMessage::Notification(JsonRpcNotification {
                notification: ClientNotification::CancelledNotification(cancelled),
                ..
            }) => {
                if let Some(id) = &cancelled.params.request_id {
                    self.in_flight.remove(id);
                }
            }
            _ => {}
        }
    }
}

impl<R, W> Transport<RoleClient> for LineTransport<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.track_request(&message);
        let outbox = self.outbox.clone();
        // Serialised and, where the pipe has room, written right here: the caller's task need not run first.
        let queued = encode(&message).and_then(|line| outbox.push(line));
        async move {
            match queued? {
                WriteState::Written => Ok(()),
                WriteState::Waiting => {
                    std::future::poll_fn(|context| outbox.poll_drain(context)).await
                }
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(id) = self.failures.pop_front() {
                let error = ErrorData::internal_error(LineTooLong.to_string(), None);
                return Some(JsonRpcMessage::error(error, Some(id)));
            }
            match self.reader.next().await {
                LineRead::Whole(line) => {
                    if let Some(message) = decode::parse_message(line, &mut self.in_flight) {
                        return Some(message);
                    }
                }
                LineRead::TooLong => {
                    tracing::warn!("{LineTooLong}; the calls in flight fail");
                    self.failures
                        .extend(self.in_flight.drain().map(|(id, _)| id));
                }
                LineRead::End => return None,
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.outbox.close();
        Ok(())
    }
}

fn encode(message: &ClientJsonRpcMessage) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

enum LineRead<'a> {
    Whole(&'a [u8]),
    TooLong,
    End,
}

/// Cuts a byte stream into lines. Cancel-safe: what was read stays in the buffer.
struct LineReader<R> {
    source: R,
    buffer: Vec<u8>,
    /// Where the unread part of the buffer begins.
    start: usize,
    /// Up to here no newline was found.
    searched: usize,
    /// In the middle of a line that was too long.
    discarding: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    fn new(source: R) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            discarding: false,
        }
    }

    async fn next(&mut self) -> LineRead<'_> {
        loop {
            if let Some(offset) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let end = self.searched + offset;
                let begin = std::mem::replace(&mut self.start, end + 1);
                self.searched = end + 1;
                if std::mem::take(&mut self.discarding) {
                    continue;
                }
                return LineRead::Whole(&self.buffer[begin..end]);
            }
            self.searched = self.buffer.len();
            if self.discarding {
                self.clear_buffer();
            } else if self.buffer.len() - self.start > MAX_LINE {
                self.clear_buffer();
                self.discarding = true;
                return LineRead::TooLong;
            }
            self.make_room();
            match self.source.read_buf(&mut self.buffer).await {
                Ok(0) => return LineRead::End,
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%error, "failed to read from the server process");
                    return LineRead::End;
                }
            }
        }
    }

    fn clear_buffer(&mut self) {
        self.buffer.clear();
        self.start = 0;
        self.searched = 0;
    }

    fn make_room(&mut self) {
        if self.start == self.buffer.len() {
            self.clear_buffer();
            if self.buffer.capacity() > MAX_RETAINED_CAPACITY {
                self.buffer = Vec::new();
            }
        } else if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        let free = self.buffer.capacity() - self.buffer.len();
        if free < READ_CHUNK {
            // Doubling keeps the number of copies of a large message small.
            self.buffer.reserve(READ_CHUNK.max(self.buffer.len()));
        }
    }
}

enum WriteState {
    Written,
    Waiting,
}

/// Keeps outgoing messages in order and writes them as the pipe takes them.
struct Outbox<W> {
    state: Mutex<OutboxState<W>>,
}

struct OutboxState<W> {
    writer: Option<W>,
    waiting: VecDeque<Vec<u8>>,
    /// How much of the first waiting line is written.
    written: usize,
}

impl<W: AsyncWrite + Unpin> Outbox<W> {
    fn push(&self, line: Vec<u8>) -> io::Result<WriteState> {
        let mut state = self.lock();
        if state.writer.is_none() {
            return Err(io::Error::new(
                io::ErrorKind::NotConnected,
                "the connection is closed",
            ));
        }
        state.waiting.push_back(line);
        if state.waiting.len() > 1 {
            // Somebody is draining already.
            return Ok(WriteState::Waiting);
        }
        match state.drain(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result.map(|()| WriteState::Written),
            Poll::Pending => Ok(WriteState::Waiting),
        }
    }

    fn poll_drain(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lock().drain(context)
    }

    fn close(&self) {
        self.lock().writer = None;
    }

    fn lock(&self) -> MutexGuard<'_, OutboxState<W>> {
        self.state.lock()
    }
}

impl<W> Outbox<W> {
    fn new(writer: W) -> Self {
        let state = OutboxState {
            writer: Some(writer),
            waiting: VecDeque::new(),
            written: 0,
        };
        Self {
            state: Mutex::new(state),
        }
    }
}

impl<W: AsyncWrite + Unpin> OutboxState<W> {
    fn drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(writer) = self.writer.as_mut() else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        while let Some(line) = self.waiting.front() {
            match Pin::new(&mut *writer).poll_write(context, &line[self.written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
            if self.written == line.len() {
                self.waiting.pop_front();
                self.written = 0;
            }
        }
        Pin::new(writer).poll_flush(context)
    }
}

#[cfg(test)]
mod tests;
