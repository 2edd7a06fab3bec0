//! The time that deliveries go by. Tests hand in their own.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;

use crate::platform::steady_time;

pub trait DeliveryClock: Send + Sync + 'static {
    /// Seconds since 1970. Between two processes it may jump.
    fn wall(&self) -> f64;

    /// The time since some moment. Never jumps.
    fn monotonic(&self) -> Duration;

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}

pub type SharedClock = Arc<dyn DeliveryClock>;

/// The machine's clock. If it is set while the process runs, times go on as if it had not been: nothing is late, or waits,
/// because of that.
#[derive(Debug)]
pub struct SystemClock {
    start: Duration,
    started_at: f64,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self {
            start: steady_time(),
            started_at: hermes_store::epoch_seconds(),
        }
    }
}

impl DeliveryClock for SystemClock {
    fn wall(&self) -> f64 {
        self.started_at + self.monotonic().as_secs_f64()
    }

    fn monotonic(&self) -> Duration {
        steady_time().saturating_sub(self.start)
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}
