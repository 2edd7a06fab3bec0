//! Authenticates bearer keys. What was looked up is kept for as long as no token changes, where changes of all nodes are
//! counted, so that a token that is revoked on one node is refused by the next request on any other. The only node keeps
//! it for a second, or until it changes a token itself.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_config::sync::{Mutex, MutexGuard};

use super::{Caller, Principal, TokenRequest, check_change, check_request};
use crate::{
    Problem, ProblemCode, TenantId, TokenId,
    api_types::{KeyHash, KeyKind, MintedToken, NewKey, Time, parse_key},
    storage::{
        audit::NewAuditEntry,
        state::{NewSecret, State, StateError},
    },
};

/// Where nobody counts changes of tokens.
const CACHE_TTL: Duration = Duration::from_secs(1);
const MAX_CACHED: usize = 1024;
/// How often an open stream checks that its token is still valid.
const TOKEN_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long an old secret may stay valid after a rotation.
pub const MAX_GRACE: Duration = Duration::from_hours(24);

/// An authenticated token.
#[derive(Debug, Clone)]
pub struct Identity {
    pub principal: Arc<Principal>,
    /// Hash of the presented key, to check later whether it is still valid.
    pub key: KeyHash,
    /// When this process had learned what was changed before.
    pub caught_up_at: Instant,
}

/// Why a request is not authenticated.
#[derive(Debug)]
pub enum AuthError {
    MissingKey,
    /// Not a key, or revoked.
    UnknownKey,
    Expired,
    /// The token may not be used from this address.
    AddressNotAllowed {
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

impl From<AuthError> for Problem {
    fn from(refusal: AuthError) -> Self {
        let unauthenticated = |message: &str| Problem::new(ProblemCode::Unauthenticated, message);
        match refusal {
            AuthError::MissingKey => unauthenticated("send a management token: `Authorization: Bearer hub_mgmt_...`"),
            AuthError::UnknownKey => unauthenticated("the token is unknown or was revoked; use another"),
            AuthError::Expired => unauthenticated("the token has expired; use another"),
            AuthError::AddressNotAllowed { .. } => {
                Problem::denied("the token may not be used from this address").with_reason("cidr")
            }
            AuthError::RuntimeKey { .. } => Problem::denied(
                "a tenant's runtime key is not for this interface; rotate it if it leaked, and use a management token",
            )
            .with_reason("runtime_key"),
            AuthError::ManagementToken => Problem::denied(
                "a management token is not for the private routes of tenants; use `/v1`",
            )
            .with_reason("management_token"),
            AuthError::State(error) => error.into(),
        }
    }
}

#[derive(Debug, Clone)]
struct CachedIdentity {
    principal: Arc<Principal>,
    /// When the grace period of an old secret ends.
    grace_until: Option<Time>,
    looked_up: Instant,
    /// How often tokens had been changed before it was looked up.
    token_changes: Option<u64>,
}

impl CachedIdentity {
    fn is_good(&self, token_changes: Option<u64>) -> bool {
        match token_changes {
            Some(_) => self.token_changes == token_changes,
            None => self.looked_up.elapsed() < CACHE_TTL,
        }
    }
}

#[derive(Default)]
struct AuthCache {
    identities: HashMap<KeyHash, CachedIdentity>,
    /// Incremented by each invalidation, so that a lookup that started before it is not cached.
    invalidations: u64,
    last_used: HashMap<TokenId, Time>,
}

/// Authenticates keys, and creates, rotates and revokes tokens.
pub struct Authenticator {
    state: Arc<dyn State>,
    cache: Mutex<AuthCache>,
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
            cache: Mutex::default(),
        }
    }

    /// Authenticates a management token that is used from this address.
    pub async fn authenticate(
        &self,
        key: Option<&str>,
        from: IpAddr,
    ) -> Result<Identity, AuthError> {
        let (kind, key) =
            parse_key(key.ok_or(AuthError::MissingKey)?).ok_or(AuthError::UnknownKey)?;
        if kind == KeyKind::Runtime {
            let tenant = self.state.tenant_of_key(&key).await;
            let tenant = tenant.map_err(AuthError::State)?;
            return Err(AuthError::RuntimeKey { tenant });
        }
        self.authenticate_hash(&key, from).await
    }

    /// Authenticates a runtime key. A management token is refused.
    pub async fn authenticate_tenant(&self, key: Option<&str>) -> Result<TenantId, AuthError> {
        let (kind, key) =
            parse_key(key.ok_or(AuthError::MissingKey)?).ok_or(AuthError::UnknownKey)?;
        if kind == KeyKind::Management {
            return Err(AuthError::ManagementToken);
        }
        let tenant = self.state.tenant_of_key(&key).await;
        tenant
            .map_err(AuthError::State)?
            .ok_or(AuthError::UnknownKey)
    }

    /// Authenticates a key by its hash: streams check every second whether their token is still valid.
    pub async fn authenticate_hash(
        &self,
        key: &KeyHash,
        from: IpAddr,
    ) -> Result<Identity, AuthError> {
        self.state.catch_up().await.map_err(AuthError::State)?;
        let caught_up_at = Instant::now();
        let known = match self.cached(key) {
            Some(known) => known,
            None => self.look_up(key).await?,
        };
        let now = Time::now();
        if known.principal.is_expired(now) {
            return Err(AuthError::Expired);
        }
        if known.grace_until.is_some_and(|until| until <= now) {
            return Err(AuthError::UnknownKey);
        }
        let token = known.principal.token.clone();
        if !known.principal.allows_address(from) {
            return Err(AuthError::AddressNotAllowed { token });
        }
        self.lock_cache().last_used.insert(token, now);
        Ok(Identity {
            principal: known.principal,
            key: *key,
            caught_up_at,
        })
    }

    /// Returns when a caller's token is revoked, expired or no longer allowed from its address.
    pub(crate) async fn wait_for_token_end(&self, caller: Option<&Caller>) {
        let Some((key, address)) = caller.and_then(|caller| Some((caller.key?, caller.address)))
        else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(TOKEN_CHECK_INTERVAL).await;
            match self.authenticate_hash(&key, address).await {
                // If the database is unavailable, the token stays valid.
                Ok(_) | Err(AuthError::State(_)) => {}
                Err(_) => return,
            }
        }
    }

    pub async fn mint(
        &self,
        by: &Principal,
        request: TokenRequest,
        entry: NewAuditEntry,
    ) -> Result<MintedToken, Problem> {
        check_request(by, &request)?;
        let key = NewKey::random(KeyKind::Management).map_err(|error| Problem::internal(&error))?;
        let id = TokenId::random().map_err(|error| Problem::internal(&error))?;
        let secret = NewSecret {
            hash: key.hash,
            last4: key.last4,
            grace_until: None,
        };
        let entry = entry.with_target(id.as_str());
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
        entry: NewAuditEntry,
    ) -> Result<MintedToken, Problem> {
        if grace > MAX_GRACE {
            return Err(Problem::invalid(
                "the old secret can stay valid for at most 86400 seconds",
            )
            .with_detail("grace", "too long"));
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
            .rotate_token(id, secret, entry.with_target(id.as_str()))
            .await;
        self.invalidate(id);
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
        entry: NewAuditEntry,
    ) -> Result<(), Problem> {
        let record = self.state.token(id).await?;
        let record = record.ok_or(StateError::NotFound { what: "token" })?;
        check_change(by, &record.token)?;
        let revoked = self
            .state
            .revoke_token(id, entry.with_target(id.as_str()))
            .await;
        self.invalidate(id);
        Ok(revoked?)
    }

    /// Stores when tokens were last used. Called periodically and at shutdown.
    pub async fn store_last_used(&self) -> Result<(), StateError> {
        let used: Vec<_> = std::mem::take(&mut self.lock_cache().last_used)
            .into_iter()
            .collect();
        if used.is_empty() {
            return Ok(());
        }
        self.state.touch_tokens(&used).await
    }

    fn cached(&self, key: &KeyHash) -> Option<CachedIdentity> {
        let token_changes = self.state.token_changes();
        let memory = self.lock_cache();
        let known = memory.identities.get(key)?;
        known.is_good(token_changes).then(|| known.clone())
    }

    async fn look_up(&self, key: &KeyHash) -> Result<CachedIdentity, AuthError> {
        let forgotten = self.lock_cache().invalidations;
        let looked_up = Instant::now();
        let token_changes = self.state.token_changes();
        let record = self
            .state
            .token_of_key(key)
            .await
            .map_err(AuthError::State)?;
        let record = record.ok_or(AuthError::UnknownKey)?;
        let until = match record.old {
            _ if record.hash == *key => None,
            Some((_, until)) => Some(until),
            None => return Err(AuthError::UnknownKey),
        };
        let known = CachedIdentity {
            principal: Arc::new(Principal::from(&record.token)),
            grace_until: until,
            looked_up,
            token_changes,
        };
        let mut memory = self.lock_cache();
        if memory.invalidations == forgotten {
            if memory.identities.len() >= MAX_CACHED {
                memory
                    .identities
                    .retain(|_, known| known.is_good(token_changes));
            }
            if memory.identities.len() >= MAX_CACHED && token_changes.is_some() {
                memory.identities.clear();
            }
            memory.identities.insert(*key, known.clone());
        }
        Ok(known)
    }

    fn invalidate(&self, id: &TokenId) {
        let mut memory = self.lock_cache();
        memory.invalidations += 1;
        memory
            .identities
            .retain(|_, known| known.principal.token != *id);
        memory.last_used.remove(id);
    }

    fn lock_cache(&self) -> MutexGuard<'_, AuthCache> {
        self.cache.lock()
    }
}
