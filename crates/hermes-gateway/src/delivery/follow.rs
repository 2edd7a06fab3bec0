//! What became of the messages of cron jobs that are in the outbox, also of those that an earlier process left.

use std::{sync::atomic::Ordering, time::Duration};

use hermes_agent::cron::JobRunner;
use hermes_store::{
    StoreError,
    cron::{DeliveryRecord, QueuedDelivery},
    epoch_seconds,
};
use jiff::Timestamp;

use super::{PlatformDelivery, TargetMessage, dedupe_key};
use crate::{outbound::Outbox, send::mirror_message};

/// A message that is put into the outbox so long after its run is marked as late.
const LATE_AFTER: Duration = Duration::from_mins(5);
/// The outbox forgets messages that were sent after seven days: an older one might be sent a second time.
const MAX_AGE: Duration = Duration::from_hours(6 * 24);

impl PlatformDelivery {
    /// Records what became of messages that are in the outbox, and puts those there that a process left that was ended.
    pub async fn follow_queued(&self, runner: &JobRunner) -> Result<(), StoreError> {
        let Some(outbox) = self.outbox() else {
            return Ok(());
        };
        self.has_queued.store(false, Ordering::Relaxed);
        let followed = self.follow_all(&outbox, runner).await;
        if !matches!(followed, Ok(0)) {
            self.has_queued.store(true, Ordering::Relaxed);
        }
        followed.map(drop)
    }

    /// Whether there may be something to follow.
    pub fn has_queued(&self) -> bool {
        self.has_queued.load(Ordering::Relaxed)
    }

    /// Returns how many are on their way.
    async fn follow_all(&self, outbox: &Outbox, runner: &JobRunner) -> Result<usize, StoreError> {
        let mut on_their_way = 0;
        for queued in runner.queued_deliveries().await? {
            let delivery = self.find_outcome(outbox, &queued).await?;
            if delivery.is_pending() {
                on_their_way += 1;
                continue;
            }
            runner.settle_delivery(&queued, &delivery).await?;
            if let Some(message_id) = delivery.message_id.filter(|_| queued.is_mirrored) {
                self.mirror(&queued, &message_id).await;
            }
        }
        Ok(on_their_way)
    }

    async fn find_outcome(
        &self,
        outbox: &Outbox,
        queued: &QueuedDelivery,
    ) -> Result<DeliveryRecord, StoreError> {
        let target = queued.target.clone();
        let key = dedupe_key(&queued.execution_id, queued.position);
        let Some(state) = outbox.reply_state(&key).await? else {
            return self.queue_left_over(outbox, &key, queued).await;
        };
        let last = state.message_ids.last().cloned().unwrap_or_default();
        Ok(if state.failed > 0 {
            let error = state.last_error.unwrap_or_else(|| "it was refused".into());
            DeliveryRecord::failed(target, error)
        } else if !state.is_delivered() {
            DeliveryRecord::pending(target)
        } else if last.is_empty() {
            DeliveryRecord::failed(target, "the platform gave the message no id")
        } else {
            DeliveryRecord::delivered(target, last)
        })
    }

    /// Puts a message into the outbox whose process ended before it did.
    async fn queue_left_over(
        &self,
        outbox: &Outbox,
        key: &str,
        queued: &QueuedDelivery,
    ) -> Result<DeliveryRecord, StoreError> {
        let target = queued.target.clone();
        let age = age_of(queued);
        if age > MAX_AGE {
            let reason = "no gateway ran for days after the run";
            return Ok(DeliveryRecord::failed(target, reason));
        }
        let message = TargetMessage {
            target: &queued.target,
            text: &queued.text,
            is_mirrored: queued.is_mirrored,
        };
        if let Err(error) = self.queue(outbox, key, &message, age > LATE_AFTER).await {
            return Ok(DeliveryRecord::failed(target, error));
        }
        // Or it would be tried for ever.
        let is_queued = outbox.reply_state(key).await?.is_some();
        Ok(if is_queued {
            DeliveryRecord::pending(target)
        } else {
            DeliveryRecord::failed(target, "there was nothing to send")
        })
    }

    /// Adds a message to the conversation of the chat that it went to.
    async fn mirror(&self, queued: &QueuedDelivery, message_id: &str) {
        let settings = self.agent.settings();
        let home = self.agent.home();
        let mirrored = mirror_message(
            home,
            &settings.gateway,
            &queued.target,
            &queued.text,
            message_id,
        );
        if !mirrored.await {
            tracing::debug!(
                target = queued.target,
                "no conversation found for the message of a cron job"
            );
        }
    }
}

/// How long ago the run of a message ended.
fn age_of(queued: &QueuedDelivery) -> Duration {
    let finished = queued.finished_at.as_deref().unwrap_or_default();
    let Ok(finished) = finished.parse::<Timestamp>() else {
        return Duration::ZERO;
    };
    let age = epoch_seconds() - finished.as_duration().as_secs_f64();
    Duration::try_from_secs_f64(age).unwrap_or_default()
}
