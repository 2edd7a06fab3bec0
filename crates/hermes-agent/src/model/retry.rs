//! Retries transient failures.

use std::time::Duration;

use futures::{FutureExt as _, future::BoxFuture};
use hermes_config::random::add_jitter;

use super::{
    Model, ModelError, ModelEvent, ModelEventSink, ModelReply, ModelRequest, TextDelivery,
};

/// The longest pause that is waited for; if a provider requests more, the error is returned.
const MAX_PAUSE: Duration = Duration::from_mins(2);

/// How often and when a failed request is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts after the first.
    pub retries: u32,
    /// The pause before the first retry; it doubles each time.
    pub initial_pause: Duration,
}

impl RetryPolicy {
    /// The first retry comes after one second.
    pub fn new(retries: u32) -> Self {
        Self {
            retries,
            initial_pause: Duration::from_secs(1),
        }
    }

    /// The pause before a retry, counted from 1; `None` if it would be too long.
    fn pause(&self, retry: u32, error: &ModelError) -> Option<Duration> {
        if let Some(retry_after) = error.retry_after() {
            return (retry_after <= MAX_PAUSE).then_some(retry_after);
        }
        let doubled = self.initial_pause * 2_u32.saturating_pow((retry - 1).min(10));
        Some(add_jitter(doubled.min(MAX_PAUSE)))
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new(3)
    }
}

/// A model that is retried after transient failures.
#[derive(Debug, Clone)]
pub struct RetryingModel<M> {
    model: M,
    policy: RetryPolicy,
}

impl<M: Model> RetryingModel<M> {
    pub fn new(model: M, policy: RetryPolicy) -> Self {
        Self { model, policy }
    }

    async fn complete_with_retries(
        &self,
        request: &ModelRequest<'_>,
        sink: ModelEventSink<'_>,
    ) -> Result<ModelReply, ModelError> {
        for retry in 1_u32.. {
            let mut shown = DeliveredText::default();
            let error = match self
                .model
                .complete(request, &mut shown.wrap_sink(sink))
                .await
            {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let pause = self.policy.pause(retry, &error);
            let (true, Some(after)) = (error.is_transient() && retry <= self.policy.retries, pause)
            else {
                return Err(error);
            };
            if !shown.retract(request, sink) {
                return Err(error);
            }
            sink(ModelEvent::Retrying {
                retry,
                of: self.policy.retries,
                after,
                error,
            });
            tokio::time::sleep(after).await;
        }
        unreachable!("the loop ends at the last retry")
    }
}

impl<M: Model> Model for RetryingModel<M> {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn provider(&self) -> &str {
        self.model.provider()
    }

    fn context_length(&self) -> Option<u32> {
        self.model.context_length()
    }

    fn supports_images(&self) -> bool {
        self.model.supports_images()
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        sink: ModelEventSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        self.complete_with_retries(request, sink).boxed()
    }
}

#[derive(Debug, Default)]
pub(super) struct DeliveredText(bool);

impl DeliveredText {
    pub(super) fn wrap_sink<'a>(
        &'a mut self,
        sink: ModelEventSink<'a>,
    ) -> impl FnMut(ModelEvent) + Send + 'a {
        move |event| {
            match event {
                ModelEvent::TextDelta(_) => self.0 = true,
                ModelEvent::TextRetracted => self.0 = false,
                _ => {}
            }
            sink(event);
        }
    }

    /// Retracts delivered text. Returns whether the request may be retried.
    pub(super) fn retract(&self, request: &ModelRequest<'_>, sink: ModelEventSink<'_>) -> bool {
        match (self.0, request.shown_text) {
            (false, _) => true,
            (true, TextDelivery::Final) => false,
            (true, TextDelivery::Revocable) => {
                sink(ModelEvent::TextRetracted);
                true
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
