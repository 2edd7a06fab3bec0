//! Skills of the library that groups give to their members, and those that the Hub has put into homes.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::StateError;
use crate::{GroupId, TenantId, storage::audit::NewAuditEntry};

/// Skills by name, with their revisions in the library.
pub type SkillRevisions = BTreeMap<String, u64>;

#[async_trait]
pub trait ProvidedSkillStore {
    /// The skills of a group, by name.
    async fn group_skills(&self, group: &GroupId) -> Result<Vec<String>, StateError>;

    async fn set_group_skills(
        &self,
        group: &GroupId,
        names: &[String],
        entry: NewAuditEntry,
    ) -> Result<(), StateError>;

    /// The skills that a tenant gets from its groups, by name.
    async fn skills_of_groups_of(&self, tenant: &TenantId) -> Result<Vec<String>, StateError>;

    /// Those of these skills that the library has.
    async fn library_revisions(&self, names: &[String]) -> Result<SkillRevisions, StateError>;

    /// What the Hub has put into a tenant's home.
    async fn provided_skills(&self, tenant: &TenantId) -> Result<SkillRevisions, StateError>;

    /// Records that a skill was put into a home, or removed from it if there is no revision.
    async fn record_provided_skill(
        &self,
        tenant: &TenantId,
        name: &str,
        revision: Option<u64>,
    ) -> Result<(), StateError>;
}
