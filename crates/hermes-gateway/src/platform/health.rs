//! Whether an account is connected, by what it has heard last.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use hermes_config::sync::Mutex;
use tokio::sync::watch;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ConnectionState {
    #[default]
    Connecting,
    Connected,
    /// The connection was lost, or could not be made.
    Reconnecting {
        code: &'static str,
        message: String,
    },
    /// It will not work until the configuration changes.
    Fatal {
        code: &'static str,
        message: String,
    },
    Stopped,
}

/// The health of one account. Its client writes, everybody else reads.
#[derive(Debug)]
pub struct PlatformHealth {
    state: watch::Sender<ConnectionState>,
    /// How often it became connected, or something may have been missed.
    connections: watch::Sender<u64>,
    announced_ends: watch::Sender<AnnouncedEnds>,
    heard: Mutex<ReceptionState>,
    /// What works and yet needs somebody's attention, by its code.
    warnings: Mutex<BTreeMap<&'static str, String>>,
    /// The bot's name on its platform, once it is known.
    bot_name: Mutex<Option<String>>,
}

/// Connections that the platform has said it will end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AnnouncedEnds {
    /// How many there were so far.
    pub count: u64,
    /// Those of which it is not known yet whether they left a gap.
    pub pending: usize,
}

/// A connection that the platform has said it will end. It is dropped once it is recorded whether something may have
/// been missed.
#[derive(Debug)]
pub struct AnnouncedEnd<'h> {
    health: &'h PlatformHealth,
}

impl Drop for AnnouncedEnd<'_> {
    fn drop(&mut self) {
        let ends = &self.health.announced_ends;
        ends.send_modify(|ends| ends.pending = ends.pending.saturating_sub(1));
    }
}

#[derive(Debug, Clone, Copy)]
struct ReceptionState {
    last_ok_at: Option<SystemTime>,
    lost_since: Option<SystemTime>,
    /// How often something should be heard.
    period: Duration,
}

impl PlatformHealth {
    /// `period`: how often a poll returns or a heartbeat is acknowledged.
    pub fn new(period: Duration) -> Self {
        Self {
            state: watch::Sender::default(),
            connections: watch::Sender::default(),
            announced_ends: watch::Sender::default(),
            heard: Mutex::new(ReceptionState {
                last_ok_at: None,
                lost_since: None,
                period,
            }),
            warnings: Mutex::default(),
            bot_name: Mutex::default(),
        }
    }

    /// Another period, where the platform tells it.
    pub fn set_period(&self, period: Duration) {
        self.heard.lock().period = period;
    }

    /// A poll returned, or a heartbeat was acknowledged.
    pub fn record_ok(&self) {
        let mut heard = self.heard.lock();
        heard.last_ok_at = Some(SystemTime::now());
        heard.lost_since = None;
        drop(heard);
        self.change(ConnectionState::Connected);
    }

    /// The connection is gone, and is being made again.
    pub fn record_lost(&self, code: &'static str, message: impl Into<String>) {
        let mut heard = self.heard.lock();
        heard.lost_since.get_or_insert_with(SystemTime::now);
        drop(heard);
        self.change(ConnectionState::Reconnecting {
            code,
            message: message.into(),
        });
    }

    /// Something may have been missed, although no loss of the connection was seen.
    pub fn record_gap(&self) {
        self.connections.send_modify(|count| *count += 1);
    }

    /// The platform has said that it will end a connection. What comes over the next one may come before it is known
    /// whether something was missed between the two.
    pub fn announce_end(&self) -> AnnouncedEnd<'_> {
        self.announced_ends.send_modify(|ends| {
            ends.count += 1;
            ends.pending += 1;
        });
        AnnouncedEnd { health: self }
    }

    pub fn record_fatal(&self, error: &super::FatalError) {
        self.change(ConnectionState::Fatal {
            code: error.code,
            message: error.message.clone(),
        });
    }

    /// It works, and something about it is wrong: a missing scope, another program on the same token. Returns whether
    /// that is news.
    pub fn record_warning(&self, code: &'static str, message: &str) -> bool {
        let mut warnings = self.warnings.lock();
        let is_news = warnings.get(code).is_none_or(|known| known != message);
        warnings.insert(code, message.to_owned());
        drop(warnings);
        if is_news {
            self.announce();
        }
        is_news
    }

    pub fn clear_warning(&self, code: &str) {
        let removed = self.warnings.lock().remove(code);
        if removed.is_some() {
            self.announce();
        }
    }

    /// Tells whoever follows the state that something beside it has changed.
    fn announce(&self) {
        self.state.send_modify(|_| {});
    }

    /// Codes and messages.
    pub fn warnings(&self) -> Vec<(&'static str, String)> {
        let warnings = self.warnings.lock();
        warnings
            .iter()
            .map(|(code, message)| (*code, message.clone()))
            .collect()
    }

    /// The bot's name, by which people find it.
    pub fn record_bot_name(&self, name: Option<String>) {
        *self.bot_name.lock() = name;
    }

    pub fn bot_name(&self) -> Option<String> {
        self.bot_name.lock().clone()
    }

    pub fn record_stopped(&self) {
        self.change(ConnectionState::Stopped);
    }

    fn change(&self, state: ConnectionState) {
        let is_connected = state == ConnectionState::Connected;
        let is_other = self.state.send_if_modified(|current| {
            let is_other = *current != state;
            *current = state;
            is_other
        });
        if is_other && is_connected {
            self.connections.send_modify(|count| *count += 1);
        }
    }

    pub fn state(&self) -> ConnectionState {
        self.state.borrow().clone()
    }

    pub fn connections(&self) -> u64 {
        *self.connections.borrow()
    }

    pub fn watch_state(&self) -> watch::Receiver<ConnectionState> {
        self.state.subscribe()
    }

    /// Counts connections: what was said before each of them may have been missed.
    pub fn watch_connections(&self) -> watch::Receiver<u64> {
        self.connections.subscribe()
    }

    pub fn announced_ends(&self) -> AnnouncedEnds {
        *self.announced_ends.borrow()
    }

    pub fn watch_announced_ends(&self) -> watch::Receiver<AnnouncedEnds> {
        self.announced_ends.subscribe()
    }

    pub fn last_ok_at(&self) -> Option<SystemTime> {
        self.heard.lock().last_ok_at
    }

    /// Since when there is no connection.
    pub fn lost_since(&self) -> Option<SystemTime> {
        self.heard.lock().lost_since
    }

    /// Whether it claims to be connected and has heard nothing for three periods.
    pub fn is_deaf(&self, now: SystemTime) -> bool {
        let heard = *self.heard.lock();
        let Some(last) = heard.last_ok_at else {
            return false;
        };
        let silence = now.duration_since(last).unwrap_or_default();
        self.state() == ConnectionState::Connected && silence > heard.period * 3
    }
}
