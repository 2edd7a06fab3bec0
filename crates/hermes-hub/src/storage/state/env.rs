//! Variables of a tenant's environment. Values are encrypted by the caller.

use async_trait::async_trait;

use super::StateError;
use crate::{
    TenantId,
    api_types::{EnvVariable, last4},
    storage::{
        audit::NewAuditEntry,
        encryption::{EncryptedSecret, EncryptionContext, EncryptionError, SecretKey},
    },
};

#[derive(Debug, Clone)]
pub struct NewVariable {
    pub name: String,
    pub encrypted: EncryptedSecret,
    /// The end of its value, if the value is long enough.
    pub last4: Option<String>,
}

impl NewVariable {
    pub fn encrypt(
        key: &SecretKey,
        tenant_uid: &str,
        name: &str,
        value: &str,
    ) -> Result<Self, EncryptionError> {
        Ok(Self {
            name: name.to_owned(),
            encrypted: key.encrypt(&EncryptionContext::variable(tenant_uid, name), value)?,
            last4: last4(value),
        })
    }
}

#[async_trait]
pub trait EnvStore {
    /// By name, without values.
    async fn env(&self, tenant: &TenantId) -> Result<Vec<EnvVariable>, StateError>;

    /// With encrypted values, for the agent.
    async fn encrypted_env(
        &self,
        tenant: &TenantId,
    ) -> Result<Vec<(String, EncryptedSecret)>, StateError>;

    /// Tenants that have variables.
    async fn env_owners(&self) -> Result<Vec<TenantId>, StateError>;

    async fn set_env(
        &self,
        tenant: &TenantId,
        variable: NewVariable,
        entry: NewAuditEntry,
    ) -> Result<(), StateError>;

    /// Returns whether it existed.
    async fn unset_env(
        &self,
        tenant: &TenantId,
        name: &str,
        entry: NewAuditEntry,
    ) -> Result<bool, StateError>;
}
