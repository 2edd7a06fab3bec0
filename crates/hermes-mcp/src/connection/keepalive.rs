//! Tells whether a quiet session is still there. In the stateless era remote servers alone are asked: the end of a local
//! one is seen, and there is no `ping`.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use hermes_config::Server;
use tokio::time::Instant;

use super::{backoff, liveness::LivenessProbe};
use crate::connection::{era::Era, session::McpSession};

/// How long an answer may take.
const PING_TIMEOUT: Duration = Duration::from_secs(30);

/// The keepalive of one session.
pub(super) struct Keepalive {
    interval: Option<Duration>,
    due: Instant,
    /// The same by the wall clock, which goes on while the machine sleeps.
    due_wall_clock: SystemTime,
    liveness: LivenessProbe,
}

impl Keepalive {
    pub(super) fn new(server: &Server, session: &Arc<McpSession>) -> Self {
        let is_asked = session.era == Era::Legacy || session.pid.is_none();
        let interval = server.keepalive.filter(|_| is_asked);
        let mut keepalive = Self {
            interval,
            due: Instant::now(),
            due_wall_clock: SystemTime::now(),
            liveness: LivenessProbe::for_session(session),
        };
        keepalive.schedule(interval.unwrap_or_default());
        keepalive
    }

    fn schedule(&mut self, interval: Duration) {
        let pause = backoff::add_jitter(interval);
        self.due = Instant::now() + pause;
        self.due_wall_clock = SystemTime::now() + pause;
    }

    /// Pings until the server does not answer; resolves with the reason.
    pub(super) async fn ping_until_failure(&mut self, session: &McpSession) -> String {
        let Some(interval) = self.interval else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep_until(self.due).await;
            let overdue = self.due_wall_clock.elapsed().unwrap_or_default();
            self.schedule(interval);
            // Far past its time means that the machine slept: the server gets one interval to come back.
            if overdue > interval || session.activity.in_flight() > 0 {
                continue;
            }
            if let Err(reason) = self.liveness.probe(session, PING_TIMEOUT).await {
                return format!("the keepalive failed: {reason}");
            }
        }
    }
}

#[cfg(test)]
mod tests;
