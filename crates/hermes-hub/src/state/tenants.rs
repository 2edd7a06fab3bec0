//! Tenants: their records, their access and their runtime keys.

use std::{collections::BTreeMap, path::PathBuf};

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::{Page, Paged, StateError, Usage};
use crate::{
    TenantId,
    audit::NewEntry,
    auth::{KeyHash, NewKey},
    seal::{Place, SealError, Sealed, SecretKey},
    shapes::{Access, AccessStatus, Condition, GroupMembership, RuntimeKey, TenantStatus, Time},
};

/// A tenant as it is stored: settings as they were given, before the defaults of its flavor.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantRecord {
    /// Its name.
    pub id: TenantId,
    /// Another one than that of any tenant before or after it with the same name.
    pub uid: String,
    /// Its name for people.
    pub display_name: String,
    /// How far it has come.
    pub status: TenantStatus,
    /// Whether it may do anything.
    pub access: Access,
    /// The preset of its defaults.
    pub flavor: String,
    /// What was given for its agent.
    pub agent: Map<String, Value>,
    /// What was given for its storage.
    pub storage: Map<String, Value>,
    /// What was given for its browser.
    pub browser: Map<String, Value>,
    /// Its groups, by name.
    pub groups: Vec<GroupMembership>,
    /// Free texts.
    pub labels: BTreeMap<String, String>,
    /// A home outside the data directory, which is never removed.
    pub linked_home: Option<PathBuf>,
    /// What is shown of its runtime key.
    pub runtime_key: RuntimeKey,
    /// What is known of its state.
    pub conditions: Vec<Condition>,
    /// Disk space of its home.
    pub used: Usage,
    /// Counts changes of its settings.
    pub generation: u64,
    /// The last one in force.
    pub observed_generation: u64,
    /// Counts what clients change, and nothing that the Hub finds out by itself; the ETag.
    pub revision: u64,
    /// When it was made.
    pub created_at: Time,
    /// When a client last changed it.
    pub updated_at: Time,
    /// When it was deleted.
    pub deleted_at: Option<Time>,
}

/// A tenant to be.
#[derive(Debug, Clone)]
pub struct NewTenant {
    /// Its name.
    pub id: TenantId,
    /// From [`new_uid`](crate::auth::new_uid), because secrets are sealed for it before it is stored.
    pub uid: String,
    /// Its name for people.
    pub display_name: String,
    /// `provisioning`, or `ready` for a home that is there.
    pub status: TenantStatus,
    /// The preset of its defaults.
    pub flavor: String,
    /// What was given for its agent.
    pub agent: Map<String, Value>,
    /// What was given for its storage.
    pub storage: Map<String, Value>,
    /// What was given for its browser.
    pub browser: Map<String, Value>,
    /// Its groups; each must exist.
    pub groups: Vec<GroupMembership>,
    /// Free texts.
    pub labels: BTreeMap<String, String>,
    /// A home outside the data directory.
    pub linked_home: Option<PathBuf>,
    /// Its runtime key.
    pub runtime_key: NewRuntimeKey,
    /// Its variables.
    pub env: Vec<super::NewVariable>,
}

/// A runtime key to be stored.
#[derive(Debug, Clone)]
pub struct NewRuntimeKey {
    /// To find the tenant by it.
    pub hash: KeyHash,
    /// To hand it to the tenant's agent.
    pub sealed: Sealed,
    /// To show.
    pub last4: String,
    /// Until when the one before works, too.
    pub grace_until: Option<Time>,
}

impl NewRuntimeKey {
    /// Seals a key for a tenant.
    pub fn seal(
        secret_key: &SecretKey,
        tenant_uid: &str,
        key: &NewKey,
        grace_until: Option<Time>,
    ) -> Result<Self, SealError> {
        Ok(Self {
            hash: key.hash,
            sealed: secret_key.seal(&Place::runtime_key(tenant_uid), key.secret.expose())?,
            last4: key.last4.clone(),
            grace_until,
        })
    }
}

/// New values for what is not `None`.
#[derive(Debug, Clone, Default)]
pub struct TenantChange {
    /// Its name for people.
    pub display_name: Option<String>,
    /// The preset of its defaults.
    pub flavor: Option<String>,
    /// What was given for its agent, all of it.
    pub agent: Option<Map<String, Value>>,
    /// What was given for its storage, all of it.
    pub storage: Option<Map<String, Value>>,
    /// What was given for its browser, all of it.
    pub browser: Option<Map<String, Value>>,
    /// All its groups.
    pub groups: Option<Vec<GroupMembership>>,
    /// All its labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// Variables to set.
    pub env: Vec<super::NewVariable>,
    /// Names of variables to unset.
    pub unset_env: Vec<String>,
    /// Who works with the settings, and so whether the change is in force with its commit.
    pub reach: Reach,
}

/// Whom a change of a tenant has to reach before it is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// An agent that is awake.
    #[default]
    Agent,
    /// Nobody beyond those whom changes before have yet to reach.
    Nobody,
    /// Nobody at all: there is no agent that could work with older settings.
    NoAgent,
}

/// What the Hub found out about a tenant, in what is not `None`.
#[derive(Debug, Clone, Default)]
pub struct Observation {
    /// How far it has come.
    pub status: Option<TenantStatus>,
    /// Conditions by type; others stay.
    pub conditions: Vec<Condition>,
    /// The settings that are in force now.
    pub observed_generation: Option<u64>,
}

/// A change of access.
#[derive(Debug, Clone)]
pub struct NewAccess {
    /// Whether it may.
    pub status: AccessStatus,
    /// For its users.
    pub message: Option<String>,
    /// For operators.
    pub reason: Option<String>,
    /// Which token.
    pub by: String,
}

/// Which tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TenantFilter {
    /// All that are not deleted.
    #[default]
    Present,
    /// Those in one state.
    Status(TenantStatus),
    /// Those deleted before a moment.
    DeletedBefore(Time),
}

/// Which tenants, seen by whom.
#[derive(Debug, Clone, Default)]
pub struct TenantQuery {
    /// In which state.
    pub filter: TenantFilter,
    /// These only: what a token covers.
    pub only: Option<Vec<TenantId>>,
    /// A part of the id or the name for people.
    pub text: Option<String>,
}

/// Where a tenant lives: what rounds over all of them need, and no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantHome {
    /// Its name.
    pub id: TenantId,
    /// Its home, if that lies outside the data directory.
    pub linked_home: Option<PathBuf>,
    /// How far it has come.
    pub status: TenantStatus,
    /// Whether it may do anything.
    pub access: AccessStatus,
}

impl TenantRecord {
    /// Whether it is deleted and its time to be restored is over.
    pub fn is_deleted_for_good(&self) -> bool {
        self.deleted_at.is_some_and(|time| time.millis() == 0)
    }
}

/// For how long a deletion can be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// For some days.
    Restorable,
    /// Its time is over at once: it is to be purged, by the next Hub if this one does not get that far.
    ForGood,
}

/// Tenants.
#[async_trait]
pub trait Tenants {
    /// Makes one. [`StateError::Exists`] also while a deleted one holds the name.
    async fn create_tenant(
        &self,
        tenant: NewTenant,
        entry: NewEntry,
    ) -> Result<TenantRecord, StateError>;

    /// One of them, deleted ones too.
    async fn tenant(&self, id: &TenantId) -> Result<Option<TenantRecord>, StateError>;

    /// Some of them, by name.
    async fn tenants(
        &self,
        query: &TenantQuery,
        page: &Page,
    ) -> Result<Paged<TenantRecord>, StateError>;

    /// The homes of those that are not deleted, by name, behind this one.
    async fn tenant_homes(
        &self,
        after: Option<&TenantId>,
        most: u32,
    ) -> Result<Vec<TenantHome>, StateError>;

    /// How many there are in each state.
    async fn count_tenants(&self) -> Result<Vec<(TenantStatus, u64)>, StateError>;

    /// Changes one that is not deleted. With `expected`, only from that revision.
    async fn update_tenant(
        &self,
        id: &TenantId,
        change: TenantChange,
        expected: Option<u64>,
        entry: NewEntry,
    ) -> Result<TenantRecord, StateError>;

    /// Writes down what the Hub found; nobody did this, so no entry.
    async fn observe_tenant(
        &self,
        id: &TenantId,
        observation: Observation,
    ) -> Result<TenantRecord, StateError>;

    /// Writes down that the settings of this generation are in force: one statement that shares its commit with others.
    async fn observe_generation(&self, id: &TenantId, generation: u64) -> Result<(), StateError>;

    /// Lets it do things, or not.
    async fn set_access(
        &self,
        id: &TenantId,
        access: NewAccess,
        entry: NewEntry,
    ) -> Result<Access, StateError>;

    /// Hides it. One that is deleted already stays so, with its time to be restored over if it is meant for good.
    async fn delete_tenant(
        &self,
        id: &TenantId,
        deletion: Deletion,
        expected: Option<u64>,
        entry: NewEntry,
    ) -> Result<TenantRecord, StateError>;

    /// Takes a deletion back.
    async fn restore_tenant(
        &self,
        id: &TenantId,
        entry: NewEntry,
    ) -> Result<TenantRecord, StateError>;

    /// Forgets one that is deleted and all that belongs to it: variables, memberships, runs, times of jobs.
    async fn purge_tenant(&self, id: &TenantId, entry: NewEntry) -> Result<(), StateError>;

    /// Gives it another runtime key.
    async fn set_runtime_key(
        &self,
        id: &TenantId,
        key: NewRuntimeKey,
        entry: NewEntry,
    ) -> Result<RuntimeKey, StateError>;

    /// Its runtime key, for its agent.
    async fn runtime_key(&self, id: &TenantId) -> Result<Option<Sealed>, StateError>;

    /// Whose runtime key this is.
    async fn tenant_of_key(&self, hash: &KeyHash) -> Result<Option<TenantId>, StateError>;
}
