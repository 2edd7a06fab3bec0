//! What is known of the server at the other end of all connections, and how long it is waited for.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_config::sync::Mutex;
use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

/// Beginning a change, the server waits for a lock no longer than this.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(2);
/// A connection that was not used for so many timeouts is asked whether the server is still there.
const IDLE_TIMEOUTS: u32 = 2;
/// How long that answer may take.
const MAX_PING: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub(super) struct ServerLink {
    /// Whether a pooler lends a connection of the server for one transaction only.
    pub(super) is_pooled: bool,
    /// Of one statement. Who waits for longer has lost the server, though nothing says so: a machine that vanished closes
    /// no connection.
    pub(super) timeout: Duration,
    /// The server does not wait for longer than that either. A node that stands still holds no locks for long.
    begin_write: SqlStr,
    begin_read: SqlStr,
    /// When a connection was last found to be of no more use.
    replaced_at: Arc<Mutex<Option<Instant>>>,
}

impl ServerLink {
    pub(super) fn new(is_pooled: bool, timeout: Duration) -> Self {
        let (statement, lock) = (timeout.as_millis(), MAX_LOCK_WAIT.min(timeout).as_millis());
        let begin_write = format!(
            "BEGIN; SET LOCAL statement_timeout = {statement}; SET LOCAL lock_timeout = {lock}; \
             SET LOCAL idle_in_transaction_session_timeout = {statement}"
        );
        let begin_read = format!("BEGIN READ ONLY; SET LOCAL statement_timeout = {statement}");
        Self {
            is_pooled,
            timeout,
            begin_write: AssertSqlSafe(begin_write).into_sql_str(),
            begin_read: AssertSqlSafe(begin_read).into_sql_str(),
            replaced_at: Arc::default(),
        }
    }

    pub(super) fn begin_write(&self) -> SqlStr {
        self.begin_write.clone()
    }

    pub(super) fn begin_read(&self) -> SqlStr {
        self.begin_read.clone()
    }

    /// The server is gone, or another one has taken its place: connections made so far are not used any more.
    pub(super) fn mark_replaced(&self) {
        *self.replaced_at.lock() = Some(Instant::now());
    }

    /// Whether a connection that was made so long ago may be used.
    pub(super) fn may_use(&self, age: Duration) -> bool {
        let replaced_at = *self.replaced_at.lock();
        replaced_at.is_none_or(|time| age < time.elapsed())
    }

    /// How long a connection that was idle for so long may take to say that the server is there; `None` if it is not
    /// asked.
    pub(super) fn ping_timeout(&self, idle_for: Duration) -> Option<Duration> {
        (idle_for > self.timeout * IDLE_TIMEOUTS).then(|| self.timeout.min(MAX_PING))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_waits_as_long_as_this_node_does() {
        let server = ServerLink::new(false, Duration::from_secs(1));
        let begin = server.begin_write();
        assert!(begin.as_str().contains("statement_timeout = 1000;"));
        assert!(begin.as_str().contains("lock_timeout = 1000;"));
        let usual = ServerLink::new(false, Duration::from_secs(5));
        assert!(
            usual
                .begin_write()
                .as_str()
                .contains("lock_timeout = 2000;")
        );
    }

    #[test]
    fn only_a_connection_that_was_long_idle_is_asked() {
        let server = ServerLink::new(false, Duration::from_secs(5));
        assert_eq!(server.ping_timeout(Duration::from_secs(10)), None);
        let asked = server.ping_timeout(Duration::from_secs(11));
        assert_eq!(asked, Some(Duration::from_secs(2)));
    }
}
