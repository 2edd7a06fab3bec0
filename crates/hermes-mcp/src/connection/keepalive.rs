//! Tells whether a quiet session is still there. In the stateless era remote servers alone are asked: the end of a local
//! one is seen, and there is no `ping`.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use hermes_config::{Server, random::add_jitter};
use rmcp::{
    model::{ClientRequest, ListToolsRequest, PingRequest},
    service::ServiceError,
};
use tokio::time::Instant;

use crate::{
    connection::{era::Era, session::McpSession},
    transport::http::classify,
};

/// How long an answer may take.
const PING_TIMEOUT: Duration = Duration::from_secs(30);

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
        let pause = add_jitter(interval);
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

/// How long an answer may take where somebody waits to know.
pub(crate) const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits until it is in doubt whether the server is there, and asks it. Without an answer the reason is in plain words.
pub(super) async fn check_when_suspect(session: &McpSession) -> Result<(), String> {
    let doubt = &session.activity.health;
    doubt.wait_until_suspect().await;
    LivenessProbe::for_session(session)
        .probe(session, CHECK_TIMEOUT)
        .await?;
    doubt.mark_healthy();
    Ok(())
}

/// The smallest request that a server knows.
#[derive(Debug)]
pub(super) struct LivenessProbe {
    supports_ping: bool,
}

impl LivenessProbe {
    /// The stateless era has no `ping`.
    pub(super) fn for_session(session: &McpSession) -> Self {
        Self {
            supports_ping: session.era == Era::Legacy,
        }
    }

    /// Any answer will do, an error too. The reason why there is none is in plain words.
    pub(super) async fn probe(
        &mut self,
        session: &McpSession,
        limit: Duration,
    ) -> Result<(), String> {
        match tokio::time::timeout(limit, self.send_probe(session)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(match classify(&error) {
                Some(failure) => failure.to_string(),
                None => error.to_string(),
            }),
            Err(_) => Err(format!("no answer within {} s", limit.as_secs())),
        }
    }

    async fn send_probe(&mut self, session: &McpSession) -> Result<(), ServiceError> {
        if self.supports_ping {
            let ping = ClientRequest::PingRequest(PingRequest::default());
            match session.peer.send_request(ping).await {
                Err(ServiceError::McpError(error)) if error.code.0 == -32601 => {
                    self.supports_ping = false;
                }
                Err(ServiceError::McpError(_)) | Ok(_) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        // Asked for like this, no remembered page is taken for an answer.
        let list = ClientRequest::ListToolsRequest(ListToolsRequest::default());
        match session.peer.send_request(list).await {
            Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
