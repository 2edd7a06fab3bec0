//! The holder of a token and its rights.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    Problem, TenantId, TokenId,
    api_types::{Cidr, KeyHash, Scope, Scopes, Time, Token},
};

/// The holder of a management token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    pub token: TokenId,
    pub name: String,
    /// What it may do.
    pub scopes: Scopes,
    /// All tenants, if absent.
    pub tenants: Option<Arc<[TenantId]>>,
    pub expires_at: Option<Time>,
    pub cidrs: Arc<[Cidr]>,
}

impl From<&Token> for Principal {
    fn from(token: &Token) -> Self {
        Self {
            token: token.id.clone(),
            name: token.name.clone(),
            scopes: Scopes::granted(token.role, &token.scopes),
            tenants: token.tenants.as_deref().map(Into::into),
            expires_at: token.expires_at,
            cidrs: token.cidrs.as_slice().into(),
        }
    }
}

impl Principal {
    /// Requires a scope; the error names it.
    pub fn require(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.contains(scope) {
            return Ok(());
        }
        Err(Problem::denied(format!(
            "this token lacks the scope `{scope}`; use one that has it"
        ))
        .with_reason("scope"))
    }

    pub fn covers_tenant(&self, tenant: &TenantId) -> bool {
        self.tenants
            .as_deref()
            .is_none_or(|tenants| tenants.contains(tenant))
    }

    /// Refuses tokens that are limited to some tenants.
    pub fn require_whole_hub(&self) -> Result<(), Problem> {
        if self.tenants.is_none() {
            return Ok(());
        }
        Err(Problem::denied(
            "this token is for some tenants, and this changes the whole Hub; use a token without a list of tenants",
        )
        .with_reason("tenants"))
    }

    pub fn visible_tenants(&self) -> Option<Vec<TenantId>> {
        self.tenants.as_deref().map(<[TenantId]>::to_vec)
    }

    pub fn allows_address(&self, address: IpAddr) -> bool {
        self.cidrs.is_empty() || self.cidrs.iter().any(|cidr| cidr.contains(address))
    }

    pub fn is_expired(&self, now: Time) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Checks that the other has no rights beyond this one: scopes, tenants, expiry and addresses. The error names the
    /// field.
    pub fn check_encloses(&self, other: &Self) -> Result<(), &'static str> {
        if !other.scopes.is_subset_of(self.scopes) {
            return Err("scopes");
        }
        let tenants = match (&self.tenants, &other.tenants) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(others)) => others.iter().all(|tenant| own.contains(tenant)),
        };
        if !tenants {
            return Err("tenants");
        }
        let time = match (self.expires_at, other.expires_at) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(other)) => other <= own,
        };
        if !time {
            return Err("expiresAt");
        }
        let covers_addresses = self.cidrs.is_empty()
            || (!other.cidrs.is_empty()
                && other
                    .cidrs
                    .iter()
                    .all(|cidr| self.cidrs.iter().any(|own| cidr.is_within(own))));
        if covers_addresses {
            Ok(())
        } else {
            Err("cidrs")
        }
    }
}

/// The authenticated sender of a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Arc<Principal>,
    /// Hash of the presented token.
    pub(crate) key: Option<KeyHash>,
    /// Hash of the cookie of a person whom an identity provider has signed in: they have no token.
    pub(crate) session: Option<KeyHash>,
    pub(crate) address: IpAddr,
    /// When this process had learned what was changed before the request.
    pub(crate) caught_up_at: Option<Instant>,
}

/// What lasts longer than that looks again.
const CURRENT_FOR: Duration = Duration::from_secs(1);

/// What a tenant's own agent may do: use the shares of its groups.
pub(crate) const AGENT_SCOPES: [Scope; 2] = [Scope::SharesRead, Scope::SharesWrite];

impl Caller {
    /// The caller on routes that need no token.
    pub(crate) fn anonymous() -> Self {
        Self::local(Principal {
            token: TokenId::anonymous(),
            name: "nobody".into(),
            scopes: Scopes::default(),
            tenants: Some([].into()),
            expires_at: None,
            cidrs: [].into(),
        })
    }

    /// A tenant's own agent.
    pub(crate) fn agent_of(tenant: &TenantId) -> Self {
        Self::local(Principal {
            token: TokenId::for_tenant(tenant),
            name: tenant.to_string(),
            scopes: AGENT_SCOPES.into_iter().collect(),
            tenants: Some([tenant.clone()].into()),
            expires_at: None,
            cidrs: [].into(),
        })
    }

    /// Whether this process knows what was changed before the request.
    pub(crate) fn is_caught_up(&self) -> bool {
        self.caught_up_at
            .is_some_and(|time| time.elapsed() < CURRENT_FOR)
    }

    fn local(principal: Principal) -> Self {
        Self {
            principal: Arc::new(principal),
            key: None,
            session: None,
            address: Ipv4Addr::LOCALHOST.into(),
            caught_up_at: None,
        }
    }
}
