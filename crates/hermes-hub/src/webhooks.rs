//! Webhooks: events are put into a queue in the database, and sent from there until their target has taken them.
//!
//! ```text
//! events --fan out--> deliveries --claim--> one task per webhook --> target
//! ```
//!
//! Every step can be killed: an event is fanned out once, in the transaction that moves the position; a claimed delivery
//! is due again when its claim ends. So a target may get a delivery twice, always under the same id.

mod sender;
pub mod signature;
mod target;

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_config::sync::Mutex;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    api_types::ids::WebhookId,
    storage::{
        encryption::SecretKey,
        state::{State, StateError},
    },
    tenants::scheduler::WallClock,
};

use target::TargetClient;
pub use target::{TargetError, TargetScope, check_target};

/// Events that are looked at in one transaction.
const FAN_OUT: u32 = 200;
/// How long to wait while something is due later: the clock may be set meanwhile.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// How long to wait for events while nothing is to be sent. Another node may have put something back.
const IDLE_WAIT: Duration = Duration::from_secs(30);
/// The least time between two looks for events: while there are many, those of this time are looked at together.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
const DATABASE_RETRY_DELAY: Duration = Duration::from_secs(2);

/// Sends what is due.
pub struct WebhookSender {
    state: Arc<dyn State>,
    key: SecretKey,
    now: WallClock,
    client: TargetClient,
    /// Webhooks that have a task.
    busy: Mutex<HashSet<WebhookId>>,
    finished: Notify,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl WebhookSender {
    /// Starts it. Call it inside a tokio runtime.
    pub fn start(
        state: Arc<dyn State>,
        key: SecretKey,
        scope: TargetScope,
        now: WallClock,
    ) -> Result<Arc<Self>, TargetError> {
        let sender = Arc::new(Self {
            state,
            key,
            now,
            client: TargetClient::new(scope)?,
            busy: Mutex::default(),
            finished: Notify::new(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        });
        let running = Arc::clone(&sender);
        sender.tasks.spawn(async move { running.run().await });
        Ok(sender)
    }

    /// Stops it. What is being sent is sent again at the next start, unless it was taken.
    pub async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn run(self: &Arc<Self>) {
        let mut notice = self.state.hub_event_notice();
        loop {
            notice.mark_unchanged();
            let looked_at = Instant::now();
            let wait = match self.send_due().await {
                Ok(wait) => wait,
                Err(error) => {
                    tracing::warn!(%error, "failed to read due webhook deliveries");
                    DATABASE_RETRY_DELAY
                }
            };
            tokio::select! {
                () = self.closing.cancelled() => return,
                changed = notice.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let rest = LOOK_INTERVAL.saturating_sub(looked_at.elapsed());
                    tokio::time::sleep(rest).await;
                }
                () = self.finished.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Begins to send what is due; returns how long nothing else is.
    async fn send_due(self: &Arc<Self>) -> Result<Duration, StateError> {
        let now = (self.now)();
        while self.state.fan_out_events(now, FAN_OUT).await? >= FAN_OUT {}
        for webhook in self.state.due_webhooks(now).await? {
            if self.busy.lock().insert(webhook.clone()) {
                let sender = Arc::clone(self);
                self.tasks.spawn(async move {
                    tokio::select! {
                        () = sender.closing.cancelled() => {}
                        sent = sender.send_all(&webhook) => if let Err(error) = sent {
                            tracing::warn!(%webhook, %error, "failed to store the outcome of a webhook delivery");
                        }
                    }
                    sender.busy.lock().remove(&webhook);
                    sender.finished.notify_one();
                });
            }
        }
        Ok(match self.state.next_delivery().await? {
            Some(_) => MAX_WAIT,
            None => IDLE_WAIT,
        })
    }
}
