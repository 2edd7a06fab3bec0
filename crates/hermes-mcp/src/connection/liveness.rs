//! Asks a server whether it is there.

use std::time::Duration;

use rmcp::{
    model::{ClientRequest, ListToolsRequest, PingRequest},
    service::ServiceError,
};

use crate::{
    connection::{era::Era, session::McpSession},
    transport::http::classify,
};

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
