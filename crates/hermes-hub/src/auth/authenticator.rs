//! Authenticates bearer keys. Lookups are cached for a second, so that a change on another node takes effect soon, and
//! one on this node at once.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{
    KeyHash, KeyKind, NewKey, Principal, TokenRequest, check_change, check_request, read_key,
};
use crate::{
    Code, Problem, TenantId, TokenId,
    audit::NewEntry,
    shapes::{MintedToken, Time},
    state::{NewSecret, State, StateError},
};

/// Other nodes notice a revocation within this time.
const MEMORY: Duration = Duration::from_secs(1);
const ROOM: usize = 1024;
/// How long an old secret may stay valid after a rotation.
pub const LONGEST_GRACE: Duration = Duration::from_hours(24);

/// An authenticated token.
#[derive(Debug, Clone)]
pub struct Caller {
    pub principal: Arc<Principal>,
    /// Hash of the presented key, to check later whether it is still valid.
    pub key: KeyHash,
}

/// Why a request is not authenticated.
#[derive(Debug)]
pub enum Refusal {
    NoKey,
    /// Not a key, or revoked.
    Unknown,
    Expired,
    /// The token may not be used from this address.
    Address {
        token: TokenId,
    },
    /// A tenant's runtime key, which has probably leaked.
    RuntimeKey {
        tenant: Option<TenantId>,
    },
    /// A management token on the private routes of agents.
    ManagementToken,
    State(StateError),
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let nobody = |message: &str| Problem::new(Code::Unauthenticated, message);
        match refusal {
            Refusal::NoKey => nobody("send a management token: `Authorization: Bearer hub_mgmt_...`"),
            Refusal::Unknown => nobody("the token is unknown or was revoked; use another"),
            Refusal::Expired => nobody("the token has expired; use another"),
            Refusal::Address { .. } => {
                Problem::denied("the token may not be used from this address").because("cidr")
            }
            Refusal::RuntimeKey { .. } => Problem::denied(
                "a tenant's runtime key is not for this interface; rotate it if it leaked, and use a management token",
            )
            .because("runtime_key"),
            Refusal::ManagementToken => Problem::denied(
                "a management token is not for the private routes of tenants; use `/v1`",
            )
            .because("management_token"),
            Refusal::State(error) => error.into(),
        }
    }
}

#[derive(Debug, Clone)]
struct Known {
    principal: Arc<Principal>,
    /// When the grace period of an old secret ends.
    until: Option<Time>,
    looked_up: Instant,
}

#[derive(Default)]
struct Memory {
    known: HashMap<KeyHash, Known>,
    /// Incremented by each invalidation, so that a lookup that started before it is not cached.
    forgotten: u64,
    used: HashMap<TokenId, Time>,
}

/// Authenticates keys, and creates, rotates and revokes tokens.
pub struct Authenticator {
    state: Arc<dyn State>,
    memory: Mutex<Memory>,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authenticator")
    }
}

impl Authenticator {
    pub fn new(state: Arc<dyn State>) -> Self {
        Self {
            state,
            memory: Mutex::default(),
        }
    }

    /// Authenticates a management token that is used from this address.
    pub async fn authenticate(&self, key: Option<&str>, from: IpAddr) -> Result<Caller, Refusal> {
        let (kind, key) = read_key(key.ok_or(Refusal::NoKey)?).ok_or(Refusal::Unknown)?;
        if kind == KeyKind::Runtime {
            let tenant = self.state.tenant_of_key(&key).await;
            let tenant = tenant.map_err(Refusal::State)?;
            return Err(Refusal::RuntimeKey { tenant });
        }
        self.recognize(&key, from).await
    }

    /// Authenticates a runtime key. A management token is refused.
    pub async fn tenant(&self, key: Option<&str>) -> Result<TenantId, Refusal> {
        let (kind, key) = read_key(key.ok_or(Refusal::NoKey)?).ok_or(Refusal::Unknown)?;
        if kind == KeyKind::Management {
            return Err(Refusal::ManagementToken);
        }
        let tenant = self.state.tenant_of_key(&key).await;
        tenant.map_err(Refusal::State)?.ok_or(Refusal::Unknown)
    }

    /// Authenticates a key by its hash: streams check every second whether their token is still valid.
    pub async fn recognize(&self, key: &KeyHash, from: IpAddr) -> Result<Caller, Refusal> {
        let known = match self.recall(key) {
            Some(known) => known,
            None => self.look_up(key).await?,
        };
        let now = Time::now();
        if known.principal.is_expired(now) {
            return Err(Refusal::Expired);
        }
        if known.until.is_some_and(|until| until <= now) {
            return Err(Refusal::Unknown);
        }
        let token = known.principal.token.clone();
        if !known.principal.may_come_from(from) {
            return Err(Refusal::Address { token });
        }
        self.memory().used.insert(token, now);
        Ok(Caller {
            principal: known.principal,
            key: *key,
        })
    }

    pub async fn mint(
        &self,
        by: &Principal,
        request: TokenRequest,
        entry: NewEntry,
    ) -> Result<MintedToken, Problem> {
        check_request(by, &request)?;
        let key = NewKey::random(KeyKind::Management).map_err(|error| Problem::internal(&error))?;
        let id = TokenId::random().map_err(|error| Problem::internal(&error))?;
        let secret = NewSecret {
            hash: key.hash,
            last4: key.last4,
            grace_until: None,
        };
        let entry = entry.to(id.as_str());
        let record = self
            .state
            .create_token(request.into_token(id, secret), entry)
            .await?;
        Ok(MintedToken {
            token: record.token,
            secret: key.secret,
        })
    }

    /// Gives a token a new secret; the old one stays valid during the grace period.
    pub async fn rotate(
        &self,
        by: &Principal,
        id: &TokenId,
        grace: Duration,
        entry: NewEntry,
    ) -> Result<MintedToken, Problem> {
        if grace > LONGEST_GRACE {
            return Err(
                Problem::invalid("the old secret can stay valid for at most 86400 seconds")
                    .at("grace", "too long"),
            );
        }
        let record = self.state.token(id).await?;
        let record = record.ok_or(StateError::NotFound { what: "token" })?;
        check_change(by, &record.token)?;
        let key = NewKey::random(KeyKind::Management).map_err(|error| Problem::internal(&error))?;
        let secret = NewSecret {
            hash: key.hash,
            last4: key.last4,
            grace_until: (!grace.is_zero()).then(|| Time::now().after(grace)),
        };
        let rotated = self
            .state
            .rotate_token(id, secret, entry.to(id.as_str()))
            .await;
        self.forget(id);
        Ok(MintedToken {
            token: rotated?.token,
            secret: key.secret,
        })
    }

    /// Revokes a token: its next request is refused.
    pub async fn revoke(
        &self,
        by: &Principal,
        id: &TokenId,
        entry: NewEntry,
    ) -> Result<(), Problem> {
        let record = self.state.token(id).await?;
        let record = record.ok_or(StateError::NotFound { what: "token" })?;
        check_change(by, &record.token)?;
        let revoked = self.state.revoke_token(id, entry.to(id.as_str())).await;
        self.forget(id);
        Ok(revoked?)
    }

    /// Stores when tokens were last used. Called periodically and at shutdown.
    pub async fn write_down_use(&self) -> Result<(), StateError> {
        let used: Vec<_> = std::mem::take(&mut self.memory().used)
            .into_iter()
            .collect();
        if used.is_empty() {
            return Ok(());
        }
        self.state.touch_tokens(&used).await
    }

    fn recall(&self, key: &KeyHash) -> Option<Known> {
        let memory = self.memory();
        let known = memory.known.get(key)?;
        (known.looked_up.elapsed() < MEMORY).then(|| known.clone())
    }

    async fn look_up(&self, key: &KeyHash) -> Result<Known, Refusal> {
        let forgotten = self.memory().forgotten;
        let looked_up = Instant::now();
        let record = self.state.token_of_key(key).await.map_err(Refusal::State)?;
        let record = record.ok_or(Refusal::Unknown)?;
        let until = match record.old {
            _ if record.hash == *key => None,
            Some((_, until)) => Some(until),
            None => return Err(Refusal::Unknown),
        };
        let known = Known {
            principal: Arc::new(Principal::from(&record.token)),
            until,
            looked_up,
        };
        let mut memory = self.memory();
        if memory.forgotten == forgotten {
            if memory.known.len() >= ROOM {
                memory
                    .known
                    .retain(|_, known| known.looked_up.elapsed() < MEMORY);
            }
            memory.known.insert(*key, known.clone());
        }
        Ok(known)
    }

    fn forget(&self, id: &TokenId) {
        let mut memory = self.memory();
        memory.forgotten += 1;
        memory.known.retain(|_, known| known.principal.token != *id);
        memory.used.remove(id);
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
