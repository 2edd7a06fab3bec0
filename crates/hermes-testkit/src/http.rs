//! The front end over HTTP.

mod connection;
mod fault;
mod front;
mod log;
mod sse;
mod stream;
mod streamable;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::response::Response;
use futures::future::BoxFuture;

use crate::{
    behaviour::{Behaviour, HttpTransport},
    script::ServerScript,
    server_thread::{BoundPort, ServerThread},
};
pub use connection::Certificates;
use connection::{HangUp, HttpListener};
use front::HttpFront;
pub use log::HttpRequest;

/// Replies before the server does: to requests without a token, and to paths that are not MCP.
pub(crate) trait RequestGate: Send + Sync {
    /// The response, or nothing to let the request through.
    fn answer<'r>(&'r self, request: &'r HttpRequest) -> BoxFuture<'r, Option<Response>>;
}

/// A scripted MCP server over HTTP on a loopback port; it stops when dropped.
pub struct HttpServer {
    front: Arc<HttpFront>,
    certificates: Option<Certificates>,
    thread: ServerThread,
}

impl HttpServer {
    /// Starts a server on a free port.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(behaviour: Behaviour) -> Self {
        Self::start_on(0, behaviour)
    }

    /// Starts a server on a given port, for instance that of one that was stopped.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start_on(port: u16, behaviour: Behaviour) -> Self {
        Self::try_start(port, behaviour, |_| None)
            .unwrap_or_else(|error| panic!("cannot start a server on port {port}: {error}"))
    }

    /// Starts a server behind a gate, which is made once the server's address without a path is known.
    pub(crate) fn start_behind(
        behaviour: Behaviour,
        gate: impl FnOnce(&str) -> Arc<dyn RequestGate>,
    ) -> Self {
        Self::try_start(0, behaviour, |origin| Some(gate(origin)))
            .unwrap_or_else(|error| panic!("cannot start a server behind a gate: {error}"))
    }

    fn try_start(
        port: u16,
        behaviour: Behaviour,
        gate: impl FnOnce(&str) -> Option<Arc<dyn RequestGate>>,
    ) -> std::io::Result<Self> {
        std::thread::sleep(Duration::from_millis(behaviour.process.start_delay_ms));
        let port = BoundPort::bind(port)?;
        let (certificates, acceptor) = match &behaviour.http.tls {
            Some(tls) => {
                let (certificates, acceptor) =
                    connection::prepare_tls(tls).map_err(std::io::Error::other)?;
                (Some(certificates), Some(acceptor))
            }
            None => (None, None),
        };
        let crash = port.stop_token();
        let exit = move |_| {
            let crash = crash.clone();
            // What was answered before the end must have time to leave.
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                crash.cancel();
            });
        };
        let gate = gate(&origin(port.address(), certificates.as_ref()));
        let front = Arc::new(HttpFront::new(ServerScript::new(behaviour, exit)?, gate));
        let thread = port.serve({
            let front = Arc::clone(&front);
            async move |socket| {
                let service = front::router(front).into_make_service_with_connect_info::<HangUp>();
                axum::serve(HttpListener::new(socket, acceptor), service).await
            }
        })?;
        Ok(Self {
            front,
            certificates,
            thread,
        })
    }

    /// The address to configure in a client.
    pub fn url(&self) -> String {
        let path = match self.front.behaviour().http.transport {
            HttpTransport::Streamable => "mcp",
            HttpTransport::Sse => "sse",
        };
        format!("{}/{path}", self.origin())
    }

    /// The address without a path.
    pub fn origin(&self) -> String {
        origin(self.thread.address(), self.certificates.as_ref())
    }

    pub fn port(&self) -> u16 {
        self.thread.address().port()
    }

    /// The certificates of a server with TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// Every request so far, oldest first.
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.front.requests()
    }

    /// Closes all connections and the listener.
    pub fn stop(&mut self) {
        self.thread.stop();
    }

    /// Waits until the server has ended, by a crash or by [`HttpServer::stop`].
    pub fn wait(&mut self) {
        self.thread.wait();
    }
}

fn origin(address: SocketAddr, certificates: Option<&Certificates>) -> String {
    let scheme = if certificates.is_some() {
        "https"
    } else {
        "http"
    };
    format!("{scheme}://{address}")
}
