//! Retries transient failures.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};

use super::{Model, ModelError, ModelEvent, ModelRequest, Reply, ShownText, Sink};

/// The longest pause that is waited for; if a provider requests more, the error is returned.
const LONGEST_PAUSE: Duration = Duration::from_mins(2);

/// How often and when a failed request is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts after the first.
    pub retries: u32,
    /// The pause before the first retry; it doubles each time.
    pub first_pause: Duration,
}

impl RetryPolicy {
    /// The first retry comes after one second.
    pub fn new(retries: u32) -> Self {
        Self {
            retries,
            first_pause: Duration::from_secs(1),
        }
    }

    /// The pause before a retry, counted from 1; `None` if it would be too long.
    fn pause(&self, retry: u32, error: &ModelError) -> Option<Duration> {
        if let Some(asked) = error.retry_after() {
            return (asked <= LONGEST_PAUSE).then_some(asked);
        }
        let doubled = self.first_pause * 2_u32.saturating_pow((retry - 1).min(10));
        Some(jittered(doubled.min(LONGEST_PAUSE)))
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new(3)
    }
}

/// Adds jitter of ±20 %, so that clients do not retry in lockstep.
fn jittered(pause: Duration) -> Duration {
    // The hasher's random keys are the standard library's source of randomness.
    let random = RandomState::new().hash_one(pause);
    let permille = u32::try_from(random % 401).unwrap_or(200) + 800;
    pause * permille / 1000
}

/// A model that is retried after transient failures.
#[derive(Debug, Clone)]
pub struct Retrying<M> {
    model: M,
    policy: RetryPolicy,
}

impl<M: Model> Retrying<M> {
    pub fn new(model: M, policy: RetryPolicy) -> Self {
        Self { model, policy }
    }

    async fn ask(&self, request: &ModelRequest<'_>, sink: Sink<'_>) -> Result<Reply, ModelError> {
        for retry in 1_u32.. {
            let mut shown = Shown::default();
            let error = match self.model.complete(request, &mut shown.watch(sink)).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let pause = self.policy.pause(retry, &error);
            let (true, Some(after)) = (error.is_transient() && retry <= self.policy.retries, pause)
            else {
                return Err(error);
            };
            if !shown.take_back(request, sink) {
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

impl<M: Model> Model for Retrying<M> {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn provider(&self) -> &str {
        self.model.provider()
    }

    fn context_length(&self) -> Option<u32> {
        self.model.context_length()
    }

    fn sees_images(&self) -> bool {
        self.model.sees_images()
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        sink: Sink<'a>,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        self.ask(request, sink).boxed()
    }
}

#[derive(Debug, Default)]
pub(super) struct Shown(bool);

impl Shown {
    pub(super) fn watch<'a>(&'a mut self, sink: Sink<'a>) -> impl FnMut(ModelEvent) + Send + 'a {
        move |event| {
            match event {
                ModelEvent::TextDelta(_) => self.0 = true,
                ModelEvent::TextTakenBack => self.0 = false,
                _ => {}
            }
            sink(event);
        }
    }

    /// Retracts delivered text. Returns whether the request may be retried.
    pub(super) fn take_back(&self, request: &ModelRequest<'_>, sink: Sink<'_>) -> bool {
        match (self.0, request.shown_text) {
            (false, _) => true,
            (true, ShownText::Final) => false,
            (true, ShownText::Revocable) => {
                sink(ModelEvent::TextTakenBack);
                true
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
