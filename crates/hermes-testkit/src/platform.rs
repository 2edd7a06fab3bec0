//! Telegram, Discord and Slack as a bot sees them, on loopback sockets.
//!
//! Each takes what the real one takes and refuses what the real one refuses: wrong tokens, texts that are too long,
//! markup that cannot be parsed. Every request is recorded, and faults can be ordered for the next ones.

mod discord;
mod markdown_v2;
mod request;
mod server;
mod slack;
mod telegram;
mod websocket;

pub use discord::{
    DISCORD_BOT, DiscordAnswer, DiscordButton, DiscordDraft, DiscordMessage, DiscordServer,
};
pub use markdown_v2::parse as parse_markdown_v2;
pub use request::{FormPart, PlatformRequest};
pub use server::PlatformFault;
pub use slack::{
    SLACK_APP, SLACK_BOT, SLACK_BOT_USER, SLACK_TEAM, SlackMessage, SlackPost, SlackServer,
};
pub use telegram::{
    TelegramDraft, TelegramDraftedMessage, TelegramFile, TelegramMessage, TelegramServer,
};

use std::{net::SocketAddr, sync::Arc};

use crate::server_thread::{BoundPort, ServerThread};
use server::{PlatformKind, PlatformState};

/// A platform on a loopback port; it stops when dropped.
pub struct PlatformServer {
    server: Arc<PlatformState>,
    thread: ServerThread,
}

impl PlatformServer {
    /// Telegram, for the bot with this token.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn telegram(token: &str) -> Self {
        Self::start(PlatformKind::Telegram, token)
    }

    /// Discord, for the bot with this token. Channels whose number begins with `15` are forums.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn discord(token: &str) -> Self {
        Self::start(PlatformKind::Discord, token)
    }

    /// Slack, for the bot with this token.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn slack(token: &str) -> Self {
        Self::start(PlatformKind::Slack, token)
    }

    fn start(kind: PlatformKind, token: &str) -> Self {
        Self::try_start(kind, token)
            .unwrap_or_else(|error| panic!("cannot start a platform: {error}"))
    }

    fn try_start(kind: PlatformKind, token: &str) -> std::io::Result<Self> {
        let port = BoundPort::bind(0)?;
        let server = Arc::new(PlatformState::new(kind, token, port.address()));
        let shared = Arc::clone(&server);
        let thread = port.serve(move |socket| server::serve(socket, shared))?;
        Ok(Self { server, thread })
    }

    /// The address of its API.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.thread.address())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.thread.address()
    }

    /// Gives addresses of files and WebSockets under another origin, such as `https://slack.test`.
    pub fn announce(&self, origin: &str) {
        self.server.announce(origin);
    }

    /// Lets the next request whose path contains these words fail. Several are used up in their order.
    pub fn fail(&self, path: &str, fault: PlatformFault) {
        self.fail_after(path, 0, fault);
    }

    /// As [`Self::fail`], once so many requests of that kind have gone well.
    pub fn fail_after(&self, path: &str, good: usize, fault: PlatformFault) {
        self.server.add_fault(path, good, fault);
    }

    /// Its clock is so many seconds ahead of this machine's. Messages of people say what their test says.
    pub fn set_clock_ahead(&self, seconds: i64) {
        self.server.set_clock_ahead(seconds);
    }

    /// Every request so far, oldest first.
    pub fn requests(&self) -> Vec<PlatformRequest> {
        self.server.requests()
    }

    /// Closes all connections and the listener.
    pub fn stop(&mut self) {
        self.thread.stop();
    }

    /// Listens again on the same port, after [`Self::stop`].
    fn resume(&mut self) {
        let shared = Arc::clone(&self.server);
        let begin = |socket| server::serve(socket, shared);
        if let Err(error) = self.thread.resume(begin) {
            panic!("cannot start the platform again: {error}");
        }
    }
}
