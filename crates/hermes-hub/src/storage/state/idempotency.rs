//! Idempotency keys of requests.

use async_trait::async_trait;

use super::StateError;
use crate::api_types::Time;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    pub token: String,
    /// Method and route, or the tool's name.
    pub route: String,
    pub key: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReply {
    pub status: u16,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyClaim {
    /// The first request; finish or release the key.
    First,
    Replay(StoredReply),
    /// The request is in progress.
    Running,
    /// The request took effect, or may have, but the Hub stopped before its reply was stored.
    ReplyLost,
    /// The key was used with another body.
    BodyMismatch,
}

/// Idempotency keys. An audit entry with a key marks it as effective.
#[async_trait]
pub trait IdempotencyStore {
    /// Claims a key for a request with this body.
    async fn claim_key(
        &self,
        key: &IdempotencyKey,
        body_sha256: &[u8; 32],
    ) -> Result<KeyClaim, StateError>;

    async fn finish_key(&self, key: &IdempotencyKey, reply: StoredReply) -> Result<(), StateError>;

    /// Releases the key of a request without effect. An effective key is kept.
    async fn release_key(&self, key: &IdempotencyKey) -> Result<(), StateError>;

    /// Releases the keys of requests that were in progress on this node when it stopped.
    async fn release_interrupted_keys(&self) -> Result<u64, StateError>;

    async fn forget_keys(&self, before: Time) -> Result<u64, StateError>;
}
