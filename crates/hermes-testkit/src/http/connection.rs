//! Connections: plain or TLS, and able to hang up in the middle of a request.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{extract::connect_info::Connected, serve::IncomingStream};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

/// Accepts connections.
pub(super) struct HttpListener {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl HttpListener {
    pub(super) fn new(socket: TcpListener, tls: Option<TlsAcceptor>) -> Self {
        Self { socket, tls }
    }

    async fn try_accept(&self) -> io::Result<(HttpConnection, SocketAddr)> {
        let (stream, address) = self.socket.accept().await?;
        stream.set_nodelay(true)?;
        let stream: Pin<Box<dyn ByteStream>> = match &self.tls {
            None => Box::pin(stream),
            Some(tls) => {
                let limit = Duration::from_secs(5);
                let handshake = tokio::time::timeout(limit, tls.accept(stream));
                Box::pin(handshake.await??)
            }
        };
        let connection = HttpConnection {
            stream,
            hang_up: HangUp::default(),
        };
        Ok((connection, address))
    }
}

impl axum::serve::Listener for HttpListener {
    type Io = HttpConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (HttpConnection, SocketAddr) {
        loop {
            // A client without a proper certificate is refused; the next one is welcome.
            if let Ok(accepted) = self.try_accept().await {
                return accepted;
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// Both directions of a byte stream.
trait ByteStream: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> ByteStream for T {}

/// Makes a connection fail at its next write.
#[derive(Debug, Clone, Default)]
pub(super) struct HangUp(Arc<AtomicBool>);

impl HangUp {
    pub(super) fn close(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Connected<IncomingStream<'_, HttpListener>> for HangUp {
    fn connect_info(stream: IncomingStream<'_, HttpListener>) -> Self {
        stream.io().hang_up.clone()
    }
}

pub(super) struct HttpConnection {
    stream: Pin<Box<dyn ByteStream>>,
    hang_up: HangUp,
}

impl AsyncRead for HttpConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_read(context, buffer)
    }
}

impl AsyncWrite for HttpConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.hang_up.0.load(Ordering::SeqCst) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        self.stream.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(context)
    }
}
