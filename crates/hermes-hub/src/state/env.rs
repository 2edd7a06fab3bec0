//! Variables of a tenant's environment. Values are encrypted by the caller.

use async_trait::async_trait;

use super::StateError;
use crate::{
    TenantId,
    audit::NewEntry,
    auth::last4,
    seal::{Place, SealError, Sealed, SecretKey},
    shapes::EnvVariable,
};

#[derive(Debug, Clone)]
pub struct NewVariable {
    pub name: String,
    pub sealed: Sealed,
    /// The end of its value, if the value is long enough.
    pub last4: Option<String>,
}

impl NewVariable {
    pub fn seal(
        key: &SecretKey,
        tenant_uid: &str,
        name: &str,
        value: &str,
    ) -> Result<Self, SealError> {
        Ok(Self {
            name: name.to_owned(),
            sealed: key.seal(&Place::variable(tenant_uid, name), value)?,
            last4: last4(value),
        })
    }
}

#[async_trait]
pub trait Env {
    /// By name, without values.
    async fn env(&self, tenant: &TenantId) -> Result<Vec<EnvVariable>, StateError>;

    /// With encrypted values, for the agent.
    async fn sealed_env(&self, tenant: &TenantId) -> Result<Vec<(String, Sealed)>, StateError>;

    /// Tenants that have variables.
    async fn env_owners(&self) -> Result<Vec<TenantId>, StateError>;

    async fn set_env(
        &self,
        tenant: &TenantId,
        variable: NewVariable,
        entry: NewEntry,
    ) -> Result<(), StateError>;

    /// Returns whether it existed.
    async fn unset_env(
        &self,
        tenant: &TenantId,
        name: &str,
        entry: NewEntry,
    ) -> Result<bool, StateError>;
}
