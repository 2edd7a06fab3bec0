//! The time that deliveries go by. Tests hand in their own.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tokio::time::Instant;

pub trait DeliveryClock: Send + Sync + 'static {
    /// Seconds since 1970. May jump.
    fn wall(&self) -> f64;

    /// The time since some moment. Never jumps.
    fn monotonic(&self) -> Duration;

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}

pub type SharedClock = Arc<dyn DeliveryClock>;

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl DeliveryClock for SystemClock {
    fn wall(&self) -> f64 {
        hermes_store::epoch_seconds()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}
