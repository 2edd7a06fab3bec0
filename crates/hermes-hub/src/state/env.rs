//! Variables of a tenant's environment. Their values are sealed before they come here.

use async_trait::async_trait;

use super::StateError;
use crate::{
    TenantId,
    audit::NewEntry,
    auth::last4,
    seal::{Place, SealError, Sealed, SecretKey},
    shapes::EnvVariable,
};

/// A variable to be set.
#[derive(Debug, Clone)]
pub struct NewVariable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub sealed: Sealed,
    /// The end of its value, where that tells little of it.
    pub last4: Option<String>,
}

impl NewVariable {
    /// Seals a value for a tenant.
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

/// Variables.
#[async_trait]
pub trait Env {
    /// Those of a tenant, by name, without values.
    async fn env(&self, tenant: &TenantId) -> Result<Vec<EnvVariable>, StateError>;

    /// Those of a tenant, for its agent.
    async fn sealed_env(&self, tenant: &TenantId) -> Result<Vec<(String, Sealed)>, StateError>;

    /// The tenants that have any.
    async fn env_owners(&self) -> Result<Vec<TenantId>, StateError>;

    /// Sets one.
    async fn set_env(
        &self,
        tenant: &TenantId,
        variable: NewVariable,
        entry: NewEntry,
    ) -> Result<(), StateError>;

    /// Removes one; tells whether it was there.
    async fn unset_env(
        &self,
        tenant: &TenantId,
        name: &str,
        entry: NewEntry,
    ) -> Result<bool, StateError>;
}
