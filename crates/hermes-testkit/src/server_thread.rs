//! Servers of this crate live in a thread with a runtime of its own, so that tests may be synchronous, or asynchronous
//! on a paused clock.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    thread::JoinHandle,
};

use tokio_util::sync::CancellationToken;

use crate::ReservedPort;

/// A loopback port that is taken and not served yet: a server may have to know its address before it begins.
pub(crate) struct BoundPort {
    socket: TcpListener,
    kept: Option<ReservedPort>,
    address: SocketAddr,
    stop: CancellationToken,
}

impl BoundPort {
    /// Takes a port; 0 is any that is free.
    pub(crate) fn bind(port: u16) -> io::Result<Self> {
        // Only Linux lets a server listen on a port that is kept.
        let is_kept = port == 0 && cfg!(target_os = "linux");
        let kept = is_kept.then(ReservedPort::reserve).transpose()?;
        let port = kept.as_ref().map_or(port, ReservedPort::number);
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            address: socket.local_addr()?,
            socket,
            kept,
            stop: CancellationToken::new(),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What ends the server, for one that has to end by itself.
    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Serves, until it is stopped. Whatever is still open then is cut off: the runtime goes with its thread.
    pub(crate) fn serve<F>(
        self,
        serve: impl FnOnce(tokio::net::TcpListener) -> F + Send + 'static,
    ) -> io::Result<ServerThread>
    where
        F: Future,
    {
        let Self {
            socket,
            kept,
            address,
            stop,
        } = self;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async move {
                let Ok(socket) = tokio::net::TcpListener::from_std(socket) else {
                    return;
                };
                tokio::select! {
                    _ = serve(socket) => {}
                    () = stopped.cancelled() => {}
                }
            });
        });
        Ok(ServerThread {
            address,
            kept,
            stop,
            thread: Some(thread),
        })
    }
}

/// A server in its thread; it stops when dropped.
pub(crate) struct ServerThread {
    address: SocketAddr,
    /// One that is stopped may be followed by another on the same port.
    kept: Option<ReservedPort>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl ServerThread {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves again on the same port, after [`Self::stop`].
    pub(crate) fn resume<F>(
        &mut self,
        serve: impl FnOnce(tokio::net::TcpListener) -> F + Send + 'static,
    ) -> io::Result<()>
    where
        F: Future,
    {
        let mut next = BoundPort::bind(self.address.port())?.serve(serve)?;
        next.kept = self.kept.take();
        *self = next;
        Ok(())
    }

    /// Closes all connections and the listener.
    pub(crate) fn stop(&mut self) {
        self.stop.cancel();
        self.wait();
    }

    /// Waits until it has ended, by itself or by [`Self::stop`].
    pub(crate) fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic in there has already been reported.
            let _ = thread.join();
        }
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        self.stop();
    }
}
