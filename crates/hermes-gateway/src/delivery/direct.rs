//! Delivers at once, without a gateway: for `hermes cron tick`.

use std::sync::Arc;

use futures::future::BoxFuture;
use hermes_agent::cron::Delivery;
use hermes_config::{Home, Settings};
use hermes_store::cron::{DeliveryRecord, DeliveryTarget, Job, RunMessage};

use super::{TargetMessage, job_targets, send_message};
use crate::send::MessageSender;

/// Sends the messages of a home's jobs as `hermes send` does.
pub struct DirectDelivery {
    home: Home,
    settings: Arc<Settings>,
}

impl DirectDelivery {
    pub fn new(home: &Home, settings: Arc<Settings>) -> Self {
        Self {
            home: home.clone(),
            settings,
        }
    }
}

impl Delivery for DirectDelivery {
    fn targets(&self, job: &Job) -> Vec<DeliveryTarget> {
        let targets = job_targets(job, &self.settings.gateway).into_iter();
        targets
            .map(|target| DeliveryTarget {
                target,
                is_kept: false,
            })
            .collect()
    }

    fn deliver<'a>(
        &'a self,
        _execution: &'a str,
        message: &'a RunMessage,
    ) -> BoxFuture<'a, Vec<DeliveryRecord>> {
        Box::pin(async move {
            let mut deliveries = Vec::with_capacity(message.targets.len());
            for DeliveryTarget { target, .. } in &message.targets {
                let single = TargetMessage {
                    target,
                    text: &message.text,
                    is_mirrored: message.is_mirrored,
                };
                let sender = MessageSender::new(&self.home, &self.settings);
                let sent = send_message(sender, &single).await;
                deliveries.push(match sent {
                    Ok(message_id) => DeliveryRecord::delivered(target, message_id),
                    Err(error) => DeliveryRecord::failed(target, error),
                });
            }
            deliveries
        })
    }
}
