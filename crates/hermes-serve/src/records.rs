//! MCP sessions that outlive a process: their owner and their negotiated state are stored by the server, so that another
//! process can continue them.

use std::{collections::HashMap, fmt, io, sync::Arc, time::Duration};

use async_trait::async_trait;
use hermes_config::sync::{Mutex, MutexGuard};
use rmcp::transport::streamable_http_server::session::{
    SessionState, SessionStore, SessionStoreError,
};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Principal;

/// SHA-256 of a session's id. The id itself opens the session and is not kept.
pub type SessionDigest = [u8; 32];

pub(super) fn digest_session_id(id: &str) -> SessionDigest {
    Sha256::digest(id).into()
}

/// What became of a session that was to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionAdmission {
    /// It began.
    Admitted,
    /// It began, and this one ended for it.
    Replacing(SessionDigest),
    /// Its owner has too many, and all are in use.
    Refused,
}

/// How a session of this process is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionUse {
    pub digest: SessionDigest,
    /// How long nobody has used it.
    pub idle: Duration,
    /// Whether an answer is on its way.
    pub is_streaming: bool,
}

/// Where sessions are kept.
#[async_trait]
pub trait SessionRecords: fmt::Debug + Send + Sync + 'static {
    /// Begins one, with what was agreed in it. `own` are those of its owner in this process.
    async fn open(
        &self,
        session: &SessionDigest,
        owner: &Principal,
        agreed: Value,
        own: &[SessionUse],
    ) -> io::Result<SessionAdmission>;

    /// What was agreed in a session, if it is this owner's and has not ended. It counts as used now.
    async fn find(&self, session: &SessionDigest, owner: &Principal) -> io::Result<Option<Value>>;

    async fn end(&self, session: &SessionDigest, owner: &Principal) -> io::Result<()>;
}

/// What was agreed in sessions on their way into and out of the library.
#[derive(Debug, Default)]
pub(super) struct NegotiatedStates {
    /// In sessions that are being opened.
    new: Mutex<HashMap<String, SessionState>>,
    /// In sessions that are being taken up from their record, after it was found out whose they are.
    known: Mutex<HashMap<String, SessionState>>,
}

fn lock<T>(map: &Mutex<T>) -> MutexGuard<'_, T> {
    map.lock()
}

impl NegotiatedStates {
    /// Takes out what was agreed in a new session.
    pub(super) fn take_new(&self, id: &str) -> Option<SessionState> {
        lock(&self.new).remove(id)
    }

    /// Forgets new sessions that came to nothing.
    pub(super) fn retain_new(&self, is_open: impl Fn(&str) -> bool) {
        lock(&self.new).retain(|id, _| is_open(id));
    }

    /// Lets a session be taken up, as long as the result lives.
    pub(super) fn lease(&self, id: &Arc<str>, agreed: SessionState) -> StateLease<'_> {
        lock(&self.known).insert(id.to_string(), agreed);
        StateLease {
            agreements: self,
            id: Arc::clone(id),
        }
    }
}

/// What was agreed in a session can be had.
pub(super) struct StateLease<'a> {
    agreements: &'a NegotiatedStates,
    id: Arc<str>,
}

impl Drop for StateLease<'_> {
    fn drop(&mut self) {
        lock(&self.agreements.known).remove(&*self.id);
    }
}

#[async_trait]
impl SessionStore for NegotiatedStates {
    async fn load(&self, id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        Ok(lock(&self.known).get(id).cloned())
    }

    async fn store(&self, id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        lock(&self.new).insert(id.to_owned(), state.clone());
        Ok(())
    }

    /// Who ends a session also ends its record.
    async fn delete(&self, _id: &str) -> Result<(), SessionStoreError> {
        Ok(())
    }
}
