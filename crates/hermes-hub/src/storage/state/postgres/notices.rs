//! Notices between nodes by `NOTIFY`.
//!
//! A commit that notifies takes a lock of the whole database, so notices are never part of the transactions that they
//! tell of: they are collected for a moment and sent on a connection of their own.

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use hermes_config::sync::Mutex;
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::PostgresState;
use crate::storage::state::{Notice, NoticeStore};

const CHANNEL: &str = "hermes_hub";
/// Nobody waits for the disk: a notice that is lost with the server does no harm, and commits of others would wait, too.
const NOTIFY: &str = "SELECT set_config('synchronous_commit', 'off', TRUE), pg_notify($1, $2)";
/// At most one notification in this time.
const COLLECT_FOR: Duration = Duration::from_millis(20);
/// The server refuses more than 8,000 bytes.
const MAX_PAYLOAD_BYTES: usize = 7_000;
/// More than that is one notice of everything.
const MAX_PENDING: usize = 2_000;
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// After so many timeouts without a notice, the server is asked whether it is there. A machine that vanished says nothing.
const SILENT_TIMEOUTS: u32 = 4;
/// A receiver that falls behind by more reads everything again.
const BUFFERED: usize = 4_096;

/// The notices of this node and of the others.
pub(super) struct NodeNotices {
    shared: Arc<SharedNotices>,
    /// `None` if there is no way around a pooler: nodes then look by themselves.
    options: Option<PgConnectOptions>,
    /// How long the server is waited for.
    timeout: Duration,
    received: OnceLock<broadcast::Sender<Notice>>,
    /// Wakes those who wait for events of the Hub.
    event_stored: watch::Sender<u64>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

#[derive(Default)]
struct SharedNotices {
    pending: Mutex<HashSet<Notice>>,
    is_pending: Notify,
}

impl fmt::Debug for NodeNotices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeNotices").finish_non_exhaustive()
    }
}

impl NodeNotices {
    /// The options lead to the server itself, not to a pooler. That one would lend the listening session to others, who
    /// would get the notices in the middle of their work.
    pub(super) fn new(
        options: Option<PgConnectOptions>,
        timeout: Duration,
        event_stored: watch::Sender<u64>,
    ) -> Self {
        Self {
            shared: Arc::default(),
            options,
            timeout,
            received: OnceLock::new(),
            event_stored,
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    pub(super) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn start(&self, node: &str) -> broadcast::Sender<Notice> {
        let received = broadcast::Sender::new(BUFFERED);
        let Some(options) = &self.options else {
            return received;
        };
        let timeout = self.timeout;
        let pool = single_connection(options, timeout);
        let sending = send_notices(Arc::clone(&self.shared), pool, node.to_owned(), timeout);
        let recipients = NoticeRecipients {
            hub: received.clone(),
            event_stored: self.event_stored.clone(),
        };
        let listening = listen(options.clone(), recipients, node.to_owned(), timeout);
        let closing = self.closing.clone();
        self.tasks.spawn(async move {
            let both = Box::pin(futures::future::join(sending, listening));
            closing.run_until_cancelled(both).await;
        });
        received
    }
}

/// Whom a notice of another node wakes.
struct NoticeRecipients {
    hub: broadcast::Sender<Notice>,
    event_stored: watch::Sender<u64>,
}

impl NoticeRecipients {
    fn tell(&self, notice: Notice) {
        // Not behind what the Hub reads again for other notices: somebody looks at a page.
        if matches!(notice, Notice::Events | Notice::Everything) {
            self.event_stored.send_modify(|count| *count += 1);
        }
        if notice != Notice::Events {
            // Nobody may be listening here.
            let _ = self.hub.send(notice);
        }
    }
}

fn single_connection(options: &PgConnectOptions, timeout: Duration) -> PgPool {
    PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(timeout)
        .connect_lazy_with(options.clone())
}

impl NoticeStore for PostgresState {
    fn notify(&self, notice: Notice) {
        let shared = &self.notices.shared;
        {
            let mut pending = shared.pending.lock();
            if pending.len() >= MAX_PENDING {
                pending.clear();
                pending.insert(Notice::Everything);
            } else {
                pending.insert(notice);
            }
        }
        shared.is_pending.notify_one();
    }

    fn listen(&self) -> Option<broadcast::Receiver<Notice>> {
        let received = self
            .notices
            .received
            .get_or_init(|| self.notices.start(&self.node));
        Some(received.subscribe())
    }
}

async fn send_notices(shared: Arc<SharedNotices>, pool: PgPool, node: String, timeout: Duration) {
    loop {
        shared.is_pending.notified().await;
        tokio::time::sleep(COLLECT_FOR).await;
        let pending = std::mem::take(&mut *shared.pending.lock());
        for payload in payloads(&node, &pending) {
            // The others read everything again soon in any case.
            if let Err(error) = send_notice(&pool, payload, timeout).await {
                tracing::debug!(%error, "notice not sent");
            }
        }
    }
}

async fn send_notice(pool: &PgPool, payload: String, timeout: Duration) -> Result<(), sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let send = sqlx::query(NOTIFY)
        .persistent(false)
        .bind(CHANNEL)
        .bind(payload)
        .execute(&mut *connection);
    if let Ok(result) = tokio::time::timeout(timeout, send).await {
        return result.map(drop);
    }
    // The next one takes another.
    connection.close_on_drop();
    Err(sqlx::Error::PoolTimedOut)
}

/// The sender and its notices, in as few texts as the server takes.
fn payloads(node: &str, notices: &HashSet<Notice>) -> Vec<String> {
    let mut payloads = Vec::new();
    let mut current = node.to_owned();
    for notice in notices {
        let word = notice.to_word();
        if current.len() + word.len() >= MAX_PAYLOAD_BYTES {
            payloads.push(std::mem::replace(&mut current, node.to_owned()));
        }
        current.push(' ');
        current.push_str(&word);
    }
    if current.len() > node.len() {
        payloads.push(current);
    }
    payloads
}

/// The notices in a text of another node.
fn parse_payload<'a>(node: &str, payload: &'a str) -> impl Iterator<Item = Notice> + use<'a> {
    let (sender, words) = payload.split_once(' ').unwrap_or((payload, ""));
    let words = if sender == node { "" } else { words };
    words.split_whitespace().map(Notice::from_word)
}

async fn listen(
    options: PgConnectOptions,
    recipients: NoticeRecipients,
    node: String,
    timeout: Duration,
) {
    loop {
        // Not the one before: a listener that is given up still holds its connection, and says goodbye to a server that may
        // not be there any more.
        let pool = single_connection(&options, timeout);
        if let Err(error) = receive_notices(&pool, &recipients, &node, timeout).await {
            tracing::debug!(%error, "listener for notices failed");
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

async fn receive_notices(
    pool: &PgPool,
    recipients: &NoticeRecipients,
    node: &str,
    timeout: Duration,
) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    // What was sent before is not known.
    recipients.tell(Notice::Everything);
    loop {
        let next = tokio::time::timeout(timeout * SILENT_TIMEOUTS, listener.try_recv());
        let Ok(next) = next.await else {
            let asked = sqlx::raw_sql("SELECT 1").execute(&mut listener);
            tokio::time::timeout(timeout, asked)
                .await
                .map_err(|_| sqlx::Error::PoolTimedOut)??;
            continue;
        };
        match next? {
            Some(notification) => {
                for notice in parse_payload(node, notification.payload()) {
                    recipients.tell(notice);
                }
            }
            // The connection was lost, and with it what was sent meanwhile.
            None => recipients.tell(Notice::Everything),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunId;

    #[test]
    fn notices_are_split_where_the_server_takes_no_more_and_a_node_ignores_its_own() {
        let notices: HashSet<Notice> = (0..600)
            .map(|_| Notice::Run(RunId::random().unwrap()))
            .collect();
        let payloads = payloads("n1", &notices);
        assert!(payloads.len() > 1);
        assert!(payloads.iter().all(|text| text.len() < 8_000));
        let seen: HashSet<Notice> = payloads
            .iter()
            .flat_map(|text| parse_payload("n2", text))
            .collect();
        assert_eq!(seen, notices);
        let own = payloads.iter().flat_map(|text| parse_payload("n1", text));
        assert_eq!(own.count(), 0);
    }
}
