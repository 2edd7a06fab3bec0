//! Where the messages of jobs go, and what became of them.

use futures::future::BoxFuture;
use hermes_config::Settings;
use hermes_store::{
    StoreError,
    cron::{CronError, DeliveryRecord, DeliveryTarget, Job, QueuedDelivery, RunMessage},
};
use jiff::Zoned;
use serde_json::Value;

use super::{JobRunner, report::RunReport};

/// Delivers the messages of jobs.
pub trait Delivery: Send + Sync {
    /// Where the messages of a job go. None if they stay in the home.
    fn targets(&self, job: &Job) -> Vec<DeliveryTarget>;

    /// Delivers the message of a run. What became of it, in the order of its targets; a kept one may be on its way.
    fn deliver<'a>(
        &'a self,
        execution: &'a str,
        message: &'a RunMessage,
    ) -> BoxFuture<'a, Vec<DeliveryRecord>>;
}

/// The message of a run, if there is one and somebody to deliver it to.
pub(super) fn plan_message(
    job: &Job,
    report: &RunReport,
    settings: &Settings,
    delivery: &dyn Delivery,
) -> Option<RunMessage> {
    let text = report.delivery_text(job, settings)?;
    let targets = delivery.targets(job);
    let is_set = |value: Option<&Value>| value.and_then(Value::as_bool) == Some(true);
    let is_mirrored = is_set(job.get("attach_to_session"))
        || is_set(settings.document["cron"].get("mirror_delivery"));
    (!targets.is_empty()).then_some(RunMessage {
        text,
        targets,
        is_mirrored,
    })
}

impl JobRunner {
    /// The kept messages that are not there yet, of this process and of earlier ones.
    pub async fn queued_deliveries(&self) -> Result<Vec<QueuedDelivery>, StoreError> {
        self.executions.queued_deliveries().await
    }

    /// Records what became of a kept message, with its run and with its job.
    pub async fn settle_delivery(
        &self,
        queued: &QueuedDelivery,
        delivery: &DeliveryRecord,
    ) -> Result<(), StoreError> {
        let id = &queued.execution_id;
        self.executions
            .record_delivery(id, queued.position, delivery)
            .await?;
        if let Some(finished_at) = &queued.finished_at {
            self.update_job_deliveries(&queued.job_id, id, finished_at)
                .await;
        }
        Ok(())
    }

    /// Copies what became of a message to its job, if that has not run again since.
    pub(super) async fn update_job_deliveries(
        &self,
        job: &str,
        execution: &str,
        finished_at: &str,
    ) {
        let deliveries = match self.executions.deliveries(execution).await {
            Ok(deliveries) => deliveries,
            Err(error) => return self.log_record_error(Err(error)),
        };
        let (id, finished_at) = (job.to_owned(), finished_at.to_owned());
        let updated = self
            .update_jobs(&Zoned::now(), move |file| {
                match file.record_deliveries(&id, &finished_at, &deliveries) {
                    // It was removed, or has run as often as it should.
                    Err(CronError::NoSuchJob { .. }) => Ok(()),
                    recorded => recorded,
                }
            })
            .await;
        if let Err(error) = updated {
            tracing::warn!(%error, "failed to store the delivery of a cron job");
        }
    }
}
