//! The bridge: an MCP server over the conversations of a home (`hermes mcp serve`).
//!
//! Reading needs neither a gateway nor a network, and changes nothing but the bridge's own log of events. Nothing is
//! opened before a request needs it, but for that log: it begins with the process.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use hermes_config::{Home, Settings};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

mod arguments;
mod connection;
mod envelope;
pub mod events;
mod follow;
mod prompts;
mod resources;
mod state;
mod tools;

use crate::conversations::{ConversationIndex, Entries};
use envelope::Refusal;
use events::{Cursor, EventError, EventFeed, EventLimits};
use state::Databases;

pub use connection::Connection;

use crate::{platforms::ShownPlatforms, send::Sender};

/// So many calls of `events_wait` may be open.
const MOST_WAITS: usize = 1000;
/// How long a log that can not be opened is waited for.
const POSITION_PATIENCE: Duration = Duration::from_secs(2);

/// Which tools a bridge offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolAccess {
    /// All.
    #[default]
    Everything,
    /// Those that send nothing and decide nothing.
    ReadOnly,
}

/// Whether new messages are pushed to clients that take them as a channel of Claude Code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChannelPush {
    /// To nobody.
    Off,
    /// To everybody.
    On,
    /// To Claude Code.
    #[default]
    Auto,
}

/// A bridge over one home. Clones share everything.
#[derive(Debug, Clone)]
pub struct Bridge {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    home: Home,
    settings: Arc<Settings>,
    options: BridgeOptions,
    databases: Databases,
    index: ConversationIndex,
    log: OnceCell<Log>,
    waits: Semaphore,
    sender: OnceLock<Sender>,
}

/// The log of events, and where it stood when this process began.
#[derive(Debug)]
struct Log {
    feed: EventFeed,
    beginning: OnceCell<Cursor>,
}

/// How a bridge behaves beyond what is configured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BridgeOptions {
    /// Which tools there are.
    pub access: ToolAccess,
    /// Who gets new messages pushed.
    pub push: ChannelPush,
    /// Whose conversations are shown.
    pub platforms: ShownPlatforms,
    /// How long a platform may take to take a message, if not as long as usual.
    pub platform_patience: Option<Duration>,
}

impl Bridge {
    /// A bridge over this home. Nothing is opened yet.
    pub fn new(home: Home, settings: Settings, options: BridgeOptions) -> Self {
        Self {
            inner: Arc::new(Inner {
                databases: Databases::new(home.clone()),
                index: ConversationIndex::showing(&home, options.platforms.clone()),
                home,
                settings: Arc::new(settings),
                options,
                log: OnceCell::new(),
                waits: Semaphore::new(MOST_WAITS),
                sender: OnceLock::new(),
            }),
        }
    }

    /// A handler for one client.
    pub fn connection(&self) -> Connection {
        Connection::new(self.clone())
    }

    /// Begins the log of events, which otherwise begins when somebody asks for it.
    pub async fn open_log(&self) {
        // Not being ready is told to whoever asks.
        let _ = self.beginning().await;
    }

    /// Ends whoever waits, and closes the databases.
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

    fn shown(&self) -> &ShownPlatforms {
        &self.inner.options.platforms
    }

    fn databases(&self) -> &Databases {
        &self.inner.databases
    }

    /// The conversations, most recently active first.
    async fn conversations(&self) -> Result<Entries, Refusal> {
        let entries = self.index().entries().await;
        entries.map_err(|error| Refusal::unavailable(&error))
    }

    fn index(&self) -> &ConversationIndex {
        &self.inner.index
    }

    async fn log(&self) -> &Log {
        let open = async || {
            let limits = EventLimits {
                most: usize::try_from(self.settings().bridge.events_max).unwrap_or(usize::MAX),
                ..EventLimits::default()
            };
            Log {
                feed: EventFeed::showing(self.home(), limits, self.shown().clone()).await,
                beginning: OnceCell::new(),
            }
        };
        self.inner.log.get_or_init(open).await
    }

    async fn feed(&self) -> &EventFeed {
        &self.log().await.feed
    }

    /// Where the log stood when this process began.
    async fn beginning(&self) -> Result<Cursor, EventError> {
        let log = self.log().await;
        let beginning = log.beginning.get_or_try_init(|| self.position());
        beginning.await.copied()
    }

    /// Where the log ends now.
    async fn position(&self) -> Result<Cursor, EventError> {
        let feed = self.feed().await;
        let position = tokio::time::timeout(POSITION_PATIENCE, feed.position());
        position.await.map_err(|_| EventError::NotReady)
    }

    /// The end of the log as far as it is known, without a look.
    fn known_position(&self) -> Option<Cursor> {
        self.inner.log.get()?.feed.known_position()
    }

    /// A place among those who wait for events, if there is one.
    fn take_wait(&self) -> Option<SemaphorePermit<'_>> {
        self.inner.waits.try_acquire().ok()
    }

    /// What sends messages. It connects to nothing before the first.
    fn sender(&self) -> &Sender {
        let new = || {
            let sender = Sender::new(self.home(), self.settings());
            match self.inner.options.platform_patience {
                Some(patience) => sender.with_patience(patience),
                None => sender,
            }
        };
        self.inner.sender.get_or_init(new)
    }
}
