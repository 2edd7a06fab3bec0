//! Asks a server whether it is there.

use std::time::Duration;

use rmcp::{
    model::{ClientRequest, ListToolsRequest, PingRequest},
    service::ServiceError,
};

use crate::{era::Era, session::Session, transport::http::classify};

/// How long an answer may take where somebody waits to know.
pub(crate) const CHECK_LIMIT: Duration = Duration::from_secs(10);

/// Waits until it is in doubt whether the server is there, and asks it. Without an answer the reason is in plain words.
pub(super) async fn next_verdict(session: &Session) -> Result<(), String> {
    let doubt = &session.traffic.doubt;
    doubt.raised().await;
    Liveness::of(session).ask(session, CHECK_LIMIT).await?;
    doubt.settle();
    Ok(())
}

/// The smallest request that a server knows.
#[derive(Debug)]
pub(super) struct Liveness {
    knows_ping: bool,
}

impl Liveness {
    /// The stateless era has no `ping`.
    pub(super) fn of(session: &Session) -> Self {
        Self {
            knows_ping: session.era == Era::Legacy,
        }
    }

    /// Any answer will do, an error too. The reason why there is none is in plain words.
    pub(super) async fn ask(&mut self, session: &Session, limit: Duration) -> Result<(), String> {
        match tokio::time::timeout(limit, self.request(session)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(match classify(&error) {
                Some(failure) => failure.to_string(),
                None => error.to_string(),
            }),
            Err(_) => Err(format!("no answer within {} s", limit.as_secs())),
        }
    }

    async fn request(&mut self, session: &Session) -> Result<(), ServiceError> {
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
        // Asked for like this, no remembered page is taken for an answer.
        let list = ClientRequest::ListToolsRequest(ListToolsRequest::default());
        match session.peer.send_request(list).await {
            Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
