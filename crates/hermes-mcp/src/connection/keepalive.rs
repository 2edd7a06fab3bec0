//! Tells whether a quiet session is still there. Legacy only: the stateless era has no `ping`.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use hermes_config::Server;
use rmcp::{
    model::{ClientRequest, PingRequest},
    service::ServiceError,
};
use tokio::time::Instant;

use super::backoff;
use crate::{era::Era, session::Session};

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(30);

/// The beat of one session.
pub(super) struct Keepalive {
    interval: Option<Duration>,
    due: Instant,
    /// The same by the clock on the wall, which goes on while the machine sleeps.
    due_by_the_wall: SystemTime,
    knows_ping: bool,
}

impl Keepalive {
    pub(super) fn new(server: &Server, session: &Arc<Session>) -> Self {
        let interval = server.keepalive.filter(|_| session.era == Era::Legacy);
        let mut keepalive = Self {
            interval,
            due: Instant::now(),
            due_by_the_wall: SystemTime::now(),
            knows_ping: true,
        };
        keepalive.plan(interval.unwrap_or_default());
        keepalive
    }

    fn plan(&mut self, interval: Duration) {
        let pause = backoff::jittered(interval);
        self.due = Instant::now() + pause;
        self.due_by_the_wall = SystemTime::now() + pause;
    }

    /// Beats until the server fails to answer; resolves with the reason.
    pub(super) async fn beat(&mut self, session: &Session) -> String {
        let Some(interval) = self.interval else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep_until(self.due).await;
            let overdue = self.due_by_the_wall.elapsed().unwrap_or_default();
            self.plan(interval);
            // Far past its time means that the machine slept: the server gets one interval to come back.
            if overdue > interval || session.traffic.in_flight() > 0 {
                continue;
            }
            if let Err(reason) = self.ask(session).await {
                return reason;
            }
        }
    }

    async fn ask(&mut self, session: &Session) -> Result<(), String> {
        let answer = async {
            if self.knows_ping {
                let ping = ClientRequest::PingRequest(PingRequest::default());
                match session.peer.send_request(ping).await {
                    Err(ServiceError::McpError(error)) if error.code.0 == -32601 => {
                        self.knows_ping = false;
                    }
                    Err(ServiceError::McpError(_)) | Ok(_) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            match session.peer.list_tools(None).await {
                Ok(_) | Err(ServiceError::McpError(_)) => Ok(()),
                Err(error) => Err(error),
            }
        };
        match tokio::time::timeout(LIMIT, answer).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("the keepalive failed: {error}")),
            Err(_) => Err(format!(
                "no answer to the keepalive within {} s",
                LIMIT.as_secs()
            )),
        }
    }
}

#[cfg(test)]
mod tests;
