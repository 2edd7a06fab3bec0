//! Tracks the phase of a connection: waiting for headers has a timeout, and the end of a response body is noticed.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

use super::open_connections::{ConnectionPhase, SharedPhase};

/// A socket with a timeout for request headers.
pub(crate) struct TrackedSocket<I> {
    socket: I,
    phase: SharedPhase,
    header_timeout: Duration,
    deadline: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<I> TrackedSocket<I> {
    pub(crate) fn new(socket: I, phase: SharedPhase, header_timeout: Duration) -> Self {
        Self {
            socket,
            phase,
            header_timeout,
            deadline: Some(Instant::now() + header_timeout),
            timer: None,
        }
    }

    /// Whether the deadline has passed; otherwise registers the waker.
    fn is_overdue(&mut self, context: &mut Context<'_>) -> bool {
        let Some(due) = self.deadline else {
            return false;
        };
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        if timer.deadline() != due {
            timer.as_mut().reset(due);
        }
        timer.as_mut().poll(context).is_ready()
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for TrackedSocket<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let phase = this.phase.get();
        if matches!(phase, ConnectionPhase::Idle | ConnectionPhase::Request) {
            this.deadline = None;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.socket).poll_read(context, buffer);
        if phase == ConnectionPhase::Idle && buffer.filled().len() > before {
            this.phase.set(ConnectionPhase::Header);
            this.deadline = Some(Instant::now() + this.header_timeout);
        }
        let is_overdue = match read {
            Poll::Ready(_) => this.deadline.is_some_and(|due| Instant::now() >= due),
            Poll::Pending => this.is_overdue(context),
        };
        if is_overdue {
            let error = "timed out waiting for request headers";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, error)));
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for TrackedSocket<I> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

/// The body of a response. When it is dropped, the connection is idle.
pub(crate) struct TrackedBody {
    body: Body,
    phase: SharedPhase,
}

impl TrackedBody {
    pub(crate) fn new(body: Body, phase: SharedPhase) -> Self {
        Self { body, phase }
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.phase.set(ConnectionPhase::Idle);
    }
}
