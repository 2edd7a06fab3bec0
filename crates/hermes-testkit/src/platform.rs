//! Telegram, Discord and Slack as a bot sees them, on loopback sockets.
//!
//! Each takes what the real one takes and refuses what the real one refuses: wrong tokens, texts that are too long,
//! markup that can not be parsed. Every request is recorded, and faults can be ordered for the next ones. Like
//! [`HttpServer`], a server lives in a thread with a runtime of its own.
//!
//! [`HttpServer`]: crate::HttpServer

mod discord;
mod fault;
mod markdown_v2;
mod request;
mod server;
mod slack;
mod telegram;

pub use fault::PlatformFault;
pub use markdown_v2::parse as parse_markdown_v2;
pub use request::{FormPart, PlatformRequest};

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio_util::sync::CancellationToken;

use server::{Kind, Server};

/// A platform on a loopback port; it stops when dropped.
pub struct PlatformServer {
    address: SocketAddr,
    server: Arc<Server>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl PlatformServer {
    /// Telegram, for the bot with this token.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn telegram(token: &str) -> Self {
        Self::start(Kind::Telegram, token)
    }

    /// Discord, for the bot with this token. Channels whose number begins with `15` are forums.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn discord(token: &str) -> Self {
        Self::start(Kind::Discord, token)
    }

    /// Slack, for the bot with this token.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn slack(token: &str) -> Self {
        Self::start(Kind::Slack, token)
    }

    fn start(kind: Kind, token: &str) -> Self {
        Self::try_start(kind, token)
            .unwrap_or_else(|error| panic!("cannot start a platform: {error}"))
    }

    fn try_start(kind: Kind, token: &str) -> std::io::Result<Self> {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        let stop = CancellationToken::new();
        let server = Arc::new(Server::new(kind, token, address));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::spawn({
            let (server, stop) = (Arc::clone(&server), stop.clone());
            move || runtime.block_on(server::serve(socket, server, stop))
        });
        Ok(Self {
            address,
            server,
            stop,
            thread: Some(thread),
        })
    }

    /// The address of its API.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Lets the next request whose path contains this text fail. Several are used up in their order.
    pub fn fail(&self, path: &str, fault: PlatformFault) {
        self.server.add_fault(path, fault);
    }

    /// Every request so far, oldest first.
    pub fn requests(&self) -> Vec<PlatformRequest> {
        self.server.requests()
    }

    /// Cuts all connections and frees the port.
    pub fn stop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic in there has already been reported.
            let _ = thread.join();
        }
    }
}

impl Drop for PlatformServer {
    fn drop(&mut self) {
        self.stop();
    }
}
