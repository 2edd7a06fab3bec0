//! The bridge: an MCP server over the conversations of a home (`hermes mcp serve`).
//!
//! Reading needs neither a gateway nor a network, and changes nothing but the bridge's own event log. Databases are
//! opened on demand, except for that log: it starts with the process.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use hermes_config::{Home, Settings};
use hermes_store::epoch_seconds;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

mod arguments;
mod connection;
mod databases;
mod envelope;
pub mod events;
mod follow;
mod prompts;
mod resources;
mod tools;

use crate::{
    bridge::databases::Databases,
    conversations::{ConversationEntries, ConversationIndex},
};
use envelope::ToolRefusal;
use events::{Cursor, EventError, EventFeed, EventLimits};

pub use connection::BridgeConnection;

use crate::{platforms::PlatformFilter, send::MessageSender};

/// Concurrent calls of `events_wait`.
const MAX_WAITS: usize = 1000;
/// How long to wait for a log that cannot be opened.
const POSITION_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolAccess {
    #[default]
    All,
    /// Tools that neither send nor decide.
    ReadOnly,
}

/// Which clients get new messages pushed as a Claude Code channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChannelPush {
    Off,
    On,
    #[default]
    Auto,
}

/// A bridge over one home. Clones share everything.
#[derive(Debug, Clone)]
pub struct Bridge {
    inner: Arc<BridgeInner>,
}

#[derive(Debug)]
struct BridgeInner {
    home: Home,
    settings: Arc<Settings>,
    options: BridgeOptions,
    databases: Databases,
    index: ConversationIndex,
    /// In seconds since 1970.
    started_at: f64,
    log: OnceCell<BridgeLog>,
    wait_permits: Semaphore,
    sender: OnceLock<MessageSender>,
}

/// The event log, and its end when this process started.
#[derive(Debug)]
struct BridgeLog {
    feed: EventFeed,
    start: OnceCell<Cursor>,
}

/// Options of a bridge beyond the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BridgeOptions {
    pub access: ToolAccess,
    pub push: ChannelPush,
    pub platforms: PlatformFilter,
    /// Overrides the timeout for platforms.
    pub platform_timeout: Option<Duration>,
}

impl Bridge {
    /// Opens nothing yet.
    pub fn new(home: Home, settings: Settings, options: BridgeOptions) -> Self {
        Self {
            inner: Arc::new(BridgeInner {
                databases: Databases::new(home.clone()),
                index: ConversationIndex::for_platforms(&home, options.platforms.clone()),
                home,
                settings: Arc::new(settings),
                options,
                started_at: epoch_seconds(),
                log: OnceCell::new(),
                wait_permits: Semaphore::new(MAX_WAITS),
                sender: OnceLock::new(),
            }),
        }
    }

    pub fn new_connection(&self) -> BridgeConnection {
        BridgeConnection::new(self.clone())
    }

    /// Starts the event log, which otherwise starts on demand.
    pub async fn open_log(&self) {
        // Requests report it if the log is not ready.
        let _ = self.start_cursor().await;
    }

    /// Ends all waits, and closes the databases.
    pub async fn close(&self) {
        if let Some(log) = self.inner.log.get() {
            log.feed.close().await;
        }
        self.inner.index.close().await;
        self.inner.databases.close().await;
    }

    fn home(&self) -> &Home {
        &self.inner.home
    }

    fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    fn access(&self) -> ToolAccess {
        self.inner.options.access
    }

    fn push(&self) -> ChannelPush {
        self.inner.options.push
    }

    fn platform_filter(&self) -> &PlatformFilter {
        &self.inner.options.platforms
    }

    fn databases(&self) -> &Databases {
        &self.inner.databases
    }

    /// The conversations, most recently active first.
    async fn conversations(&self) -> Result<ConversationEntries, ToolRefusal> {
        let entries = self.index().entries().await;
        entries.map_err(|error| ToolRefusal::unavailable(&error))
    }

    fn index(&self) -> &ConversationIndex {
        &self.inner.index
    }

    async fn log(&self) -> &BridgeLog {
        let open = async || {
            let limits = EventLimits {
                max_events: usize::try_from(self.settings().bridge.events_max)
                    .unwrap_or(usize::MAX),
                ..EventLimits::default()
            };
            BridgeLog {
                feed: EventFeed::open_for_platforms(
                    self.home(),
                    limits,
                    self.platform_filter().clone(),
                    self.inner.started_at,
                )
                .await,
                start: OnceCell::new(),
            }
        };
        self.inner.log.get_or_init(open).await
    }

    async fn feed(&self) -> &EventFeed {
        &self.log().await.feed
    }

    /// The end of the log when this process started. It is opened later, so what happened in between is left out.
    async fn start_cursor(&self) -> Result<Cursor, EventError> {
        let log = self.log().await;
        let start = log.start.get_or_try_init(async || {
            let end = self.position().await?;
            let before = log.feed.cursor_before(self.inner.started_at).await?;
            Ok(before.map_or(end, |before| before.min(end)))
        });
        start.await.copied()
    }

    async fn position(&self) -> Result<Cursor, EventError> {
        let feed = self.feed().await;
        let position = tokio::time::timeout(POSITION_TIMEOUT, feed.position());
        position.await.map_err(|_| EventError::NotReady)
    }

    /// The last known end of the log, without a scan.
    fn known_position(&self) -> Option<Cursor> {
        self.inner.log.get()?.feed.known_position()
    }

    /// A permit to wait for events, if one is free.
    fn acquire_wait_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.inner.wait_permits.try_acquire().ok()
    }

    /// Connects to platforms with the first message.
    fn sender(&self) -> &MessageSender {
        let new = || {
            let sender = MessageSender::new(self.home(), self.settings());
            match self.inner.options.platform_timeout {
                Some(timeout) => sender.with_timeout(timeout),
                None => sender,
            }
        };
        self.inner.sender.get_or_init(new)
    }
}
