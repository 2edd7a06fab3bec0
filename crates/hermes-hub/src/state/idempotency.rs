//! Requests that may be sent again without happening again.

use async_trait::async_trait;

use super::StateError;
use crate::shapes::Time;

/// What makes two requests the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    /// Whose request.
    pub token: String,
    /// Method and route, or the name of a tool.
    pub route: String,
    /// What the client calls it.
    pub key: String,
}

/// A reply to be given again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReply {
    /// As an HTTP status.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
}

/// What a key says about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyClaim {
    /// It is the first; finish or release the key.
    First,
    /// It was answered like this.
    Replay(StoredReply),
    /// It is being worked on.
    Running,
    /// It took effect, or may have, but the Hub ended before the reply was kept.
    ReplyLost,
    /// The key belongs to a request with another body.
    OtherBody,
}

/// Keys of requests. An entry that carries a key marks it as having taken effect.
#[async_trait]
pub trait Idempotency {
    /// Takes a key for a request with this body.
    async fn claim_key(
        &self,
        key: &IdempotencyKey,
        body_sha256: &[u8; 32],
    ) -> Result<KeyClaim, StateError>;

    /// Keeps the reply.
    async fn finish_key(&self, key: &IdempotencyKey, reply: StoredReply) -> Result<(), StateError>;

    /// Gives the key back: the request had no effect. One that had keeps it.
    async fn release_key(&self, key: &IdempotencyKey) -> Result<(), StateError>;

    /// Gives back the keys of requests that this node was working on when it ended.
    async fn release_interrupted_keys(&self) -> Result<u64, StateError>;

    /// Forgets keys taken before.
    async fn forget_keys(&self, before: Time) -> Result<u64, StateError>;
}
