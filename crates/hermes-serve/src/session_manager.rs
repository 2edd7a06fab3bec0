//! The library's sessions under ids that cannot be guessed: 256 bits instead of a UUID's 122.

use std::{collections::HashSet, io, sync::Arc, time::Duration};

use futures::Stream;
use hermes_config::random::random_hex;
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_server::{
        SessionId, SessionManager,
        session::{
            RestoreOutcome, ServerSseMessage,
            local::{LocalSessionManager, LocalSessionManagerError},
        },
    },
};

#[derive(Debug)]
pub(super) struct RandomIdSessionManager(LocalSessionManager);

/// What can go wrong with a session.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionManagerError {
    /// With the session itself.
    #[error(transparent)]
    Session(#[from] LocalSessionManagerError),
    /// No id could be made.
    #[error("no session id: {0}")]
    NoId(#[source] io::Error),
}

type SessionTransport = <LocalSessionManager as SessionManager>::Transport;

impl RandomIdSessionManager {
    pub(super) fn new(idle: Duration) -> Self {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(idle);
        Self(sessions)
    }

    pub(super) async fn count(&self) -> usize {
        self.0.sessions.read().await.len()
    }

    pub(super) async fn open_ids(&self) -> HashSet<Arc<str>> {
        self.0.sessions.read().await.keys().cloned().collect()
    }
}

fn random_id() -> Result<SessionId, SessionManagerError> {
    let id = random_hex::<32>().map_err(|error| SessionManagerError::NoId(error.into()))?;
    Ok(id.into())
}

impl SessionManager for RandomIdSessionManager {
    type Error = SessionManagerError;
    type Transport = SessionTransport;

    async fn create_session(&self) -> Result<(SessionId, SessionTransport), SessionManagerError> {
        let id = random_id()?;
        // Restoring is making a session under a given id.
        match self.0.restore_session(Arc::clone(&id)).await? {
            RestoreOutcome::Restored(transport) => Ok((id, transport)),
            _ => Err(SessionManagerError::NoId(io::Error::other(
                "the id is in use",
            ))),
        }
    }

    async fn restore_session(
        &self,
        id: SessionId,
    ) -> Result<RestoreOutcome<SessionTransport>, SessionManagerError> {
        Ok(self.0.restore_session(id).await?)
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionManagerError> {
        Ok(self.0.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionManagerError> {
        Ok(self.0.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionManagerError> {
        Ok(self.0.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionManagerError>
    {
        Ok(self.0.create_stream(id, message).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionManagerError> {
        Ok(self.0.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionManagerError>
    {
        Ok(self.0.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionManagerError>
    {
        Ok(self.0.resume(id, last_event_id).await?)
    }
}
