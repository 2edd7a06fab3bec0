//! Tenants: their records, their access and their runtime keys.

use std::{collections::BTreeMap, path::PathBuf};

use async_trait::async_trait;
use hermes_config::Secret;
use serde_json::{Map, Value};

use super::{Page, Paged, StateError, StorageUsage};
use crate::{
    Problem, TenantId,
    api_types::{
        AccessStatus, Condition, GroupMembership, KeyHash, KeyKind, NewKey, RuntimeKeyInfo,
        TenantAccess, TenantStatus, Time,
    },
    storage::{
        audit::NewAuditEntry,
        encryption::{EncryptedSecret, EncryptionContext, EncryptionError, SecretKey},
    },
};

/// A stored tenant: its own settings, without the defaults of its flavor.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantRecord {
    pub id: TenantId,
    /// Unique, also among tenants that had the same name.
    pub uid: String,
    pub display_name: String,
    pub status: TenantStatus,
    pub access: TenantAccess,
    pub flavor: String,
    pub agent: Map<String, Value>,
    pub storage: Map<String, Value>,
    pub browser: Map<String, Value>,
    /// By name.
    pub groups: Vec<GroupMembership>,
    pub labels: BTreeMap<String, String>,
    /// A home outside the data directory; never removed.
    pub linked_home: Option<PathBuf>,
    pub runtime_key: RuntimeKeyInfo,
    pub conditions: Vec<Condition>,
    pub used: StorageUsage,
    /// Incremented with each change of its settings.
    pub generation: u64,
    /// The generation that its agent uses.
    pub observed_generation: u64,
    /// The `ETag`: incremented with each change by a client, but not by observations of the Hub.
    pub revision: u64,
    pub created_at: Time,
    /// Last change by a client.
    pub updated_at: Time,
    pub deleted_at: Option<Time>,
}

#[derive(Debug, Clone)]
pub struct NewTenant {
    pub id: TenantId,
    /// From [`new_uid`](crate::api_types::new_uid), because secrets are encrypted for it before it is stored.
    pub uid: String,
    pub display_name: String,
    /// `provisioning`, or `ready` for an existing home.
    pub status: TenantStatus,
    pub flavor: String,
    pub agent: Map<String, Value>,
    pub storage: Map<String, Value>,
    pub browser: Map<String, Value>,
    /// Each must exist.
    pub groups: Vec<GroupMembership>,
    pub labels: BTreeMap<String, String>,
    pub linked_home: Option<PathBuf>,
    pub runtime_key: NewRuntimeKey,
    pub env: Vec<super::NewVariable>,
}

#[derive(Debug, Clone)]
pub struct NewRuntimeKey {
    pub hash: KeyHash,
    pub encrypted: EncryptedSecret,
    pub last4: String,
    /// End of the grace period of the previous one.
    pub grace_until: Option<Time>,
}

impl NewRuntimeKey {
    /// Generates a key for the tenant with this uid: the secret for its agent, and the record to store.
    pub fn generate(
        secret_key: &SecretKey,
        tenant_uid: &str,
    ) -> Result<(Secret<String>, Self), Problem> {
        let key = NewKey::random(KeyKind::Runtime).map_err(|error| Problem::internal(&error))?;
        let record = Self::encrypt(secret_key, tenant_uid, &key, None)
            .map_err(|error| Problem::internal(&error))?;
        Ok((key.secret, record))
    }

    pub fn encrypt(
        secret_key: &SecretKey,
        tenant_uid: &str,
        key: &NewKey,
        grace_until: Option<Time>,
    ) -> Result<Self, EncryptionError> {
        Ok(Self {
            hash: key.hash,
            encrypted: secret_key.encrypt(
                &EncryptionContext::runtime_key(tenant_uid),
                key.secret.expose(),
            )?,
            last4: key.last4.clone(),
            grace_until,
        })
    }
}

/// `None` leaves a value unchanged.
#[derive(Debug, Clone, Default)]
pub struct TenantChange {
    pub display_name: Option<String>,
    pub flavor: Option<String>,
    /// Replaces all of its agent's settings.
    pub agent: Option<Map<String, Value>>,
    /// Replaces all of its storage settings.
    pub storage: Option<Map<String, Value>>,
    /// Replaces all of its browser settings.
    pub browser: Option<Map<String, Value>>,
    pub groups: Option<Vec<GroupMembership>>,
    pub labels: Option<BTreeMap<String, String>>,
    pub env: Vec<super::NewVariable>,
    pub unset_env: Vec<String>,
    /// Whether the change is effective with its commit.
    pub propagation: Propagation,
}

/// How a change of a tenant becomes effective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Propagation {
    /// When a running agent has applied it.
    #[default]
    ViaAgent,
    /// It concerns no agent: effective once earlier changes are.
    NotNeeded,
    /// At once: no agent is running with older settings.
    NoAgent,
}

impl Propagation {
    /// As statements name it.
    pub(super) fn as_word(self) -> &'static str {
        match self {
            Self::ViaAgent => "agent",
            Self::NotNeeded => "nobody",
            Self::NoAgent => "no agent",
        }
    }
}

/// What the Hub observed about a tenant; `None` is unchanged.
#[derive(Debug, Clone, Default)]
pub struct TenantObservation {
    pub status: Option<TenantStatus>,
    /// By type; others are kept.
    pub conditions: Vec<Condition>,
    pub observed_generation: Option<u64>,
}

#[derive(Debug, Clone)]
pub struct AccessChange {
    pub status: AccessStatus,
    pub message: Option<String>,
    pub reason: Option<String>,
    pub by: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TenantFilter {
    #[default]
    Present,
    Status(TenantStatus),
    DeletedBefore(Time),
}

#[derive(Debug, Clone, Default)]
pub struct TenantQuery {
    pub filter: TenantFilter,
    /// Only these tenants, which the token covers.
    pub only: Option<Vec<TenantId>>,
    /// A part of the id or the display name.
    pub text: Option<String>,
    pub flavor: Option<String>,
    /// A label that they have, with this value if one is given.
    pub label: Option<(String, Option<String>)>,
}

/// A tenant's home, for scans of all tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantHome {
    pub id: TenantId,
    /// A home outside the data directory.
    pub linked_home: Option<PathBuf>,
    pub status: TenantStatus,
    pub access: AccessStatus,
}

impl TenantRecord {
    /// Whether it is deleted and no longer restorable.
    pub fn is_deleted_for_good(&self) -> bool {
        self.deleted_at.is_some_and(|time| time.millis() == 0)
    }
}

/// Whether a deletion can be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantDeletion {
    Restorable,
    /// It is purged at once, or by the next start if the Hub stops before.
    Permanent,
}

#[async_trait]
pub trait TenantStore {
    /// Creates one. [`StateError::Exists`] also while a deleted one has the name.
    async fn create_tenant(
        &self,
        tenant: NewTenant,
        entry: NewAuditEntry,
    ) -> Result<TenantRecord, StateError>;

    /// Also finds deleted ones.
    async fn tenant(&self, id: &TenantId) -> Result<Option<TenantRecord>, StateError>;

    /// By name.
    async fn tenants(
        &self,
        query: &TenantQuery,
        page: &Page,
    ) -> Result<Paged<TenantRecord>, StateError>;

    /// The homes of tenants that are not deleted, by name, after this one.
    async fn tenant_homes(
        &self,
        after: Option<&TenantId>,
        most: u32,
    ) -> Result<Vec<TenantHome>, StateError>;

    async fn count_tenants(&self) -> Result<Vec<(TenantStatus, u64)>, StateError>;

    /// Changes a tenant that is not deleted. With `expected`, only from that revision.
    async fn update_tenant(
        &self,
        id: &TenantId,
        change: TenantChange,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<TenantRecord, StateError>;

    /// Stores an observation, without an audit entry.
    async fn observe_tenant(
        &self,
        id: &TenantId,
        observation: TenantObservation,
    ) -> Result<TenantRecord, StateError>;

    /// Writes down that the settings of this generation are in force: one statement that shares its commit with others.
    async fn observe_generation(&self, id: &TenantId, generation: u64) -> Result<(), StateError>;

    /// Lets it do things, or not.
    async fn set_access(
        &self,
        id: &TenantId,
        access: AccessChange,
        entry: NewAuditEntry,
    ) -> Result<TenantAccess, StateError>;

    /// Marks it as deleted. An already deleted one becomes unrestorable if `deletion` is permanent.
    async fn delete_tenant(
        &self,
        id: &TenantId,
        deletion: TenantDeletion,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<TenantRecord, StateError>;

    async fn restore_tenant(
        &self,
        id: &TenantId,
        entry: NewAuditEntry,
    ) -> Result<TenantRecord, StateError>;

    /// Deletes the record of a deleted tenant and all that belongs to it: variables, memberships, runs, due times.
    async fn purge_tenant(&self, id: &TenantId, entry: NewAuditEntry) -> Result<(), StateError>;

    async fn set_runtime_key(
        &self,
        id: &TenantId,
        key: NewRuntimeKey,
        entry: NewAuditEntry,
    ) -> Result<RuntimeKeyInfo, StateError>;

    /// The encrypted runtime key, for its agent.
    async fn runtime_key(&self, id: &TenantId) -> Result<Option<EncryptedSecret>, StateError>;

    async fn tenant_of_key(&self, hash: &KeyHash) -> Result<Option<TenantId>, StateError>;
}

/// A label as the stored JSON has it. A quotation mark within a name or value is escaped there, so that nothing else has
/// this text.
pub(super) fn label_text(name: &str, value: Option<&str>) -> Result<String, StateError> {
    let name = serde_json::to_string(name)?;
    Ok(match value {
        Some(value) => format!("{name}:{}", serde_json::to_string(value)?),
        None => format!("{name}:"),
    })
}
