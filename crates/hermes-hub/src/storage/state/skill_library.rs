//! The Hub's own skills, from which tenants take; those that groups give to their members, and those that the Hub has put
//! into homes.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::{Page, Paged, StateError};
use crate::{GroupId, TenantId, api_types::Time, storage::audit::NewAuditEntry};

/// A skill of the library, without its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibrarySkillRecord {
    pub name: String,
    pub description: String,
    pub version: Option<String>,
    pub files: u64,
    /// Of all files together.
    pub bytes: u64,
    /// 1, 2, 3 and so on.
    pub revision: u64,
    pub updated_at: Time,
    pub updated_by: String,
}

#[derive(Debug, Clone)]
pub struct NewLibrarySkill {
    pub name: String,
    pub description: String,
    pub version: Option<String>,
    pub files: u64,
    pub bytes: u64,
    /// A `tar.zst` of its files.
    pub archive: Vec<u8>,
}

#[async_trait]
pub trait SkillLibraryStore {
    /// By name.
    async fn library_skills(&self, page: &Page) -> Result<Paged<LibrarySkillRecord>, StateError>;

    /// A skill and its archive.
    async fn library_skill(
        &self,
        name: &str,
    ) -> Result<Option<(LibrarySkillRecord, Vec<u8>)>, StateError>;

    /// Adds or replaces a skill. With `expected`, only that revision.
    async fn put_library_skill(
        &self,
        skill: NewLibrarySkill,
        by: &str,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<LibrarySkillRecord, StateError>;

    /// Removes a skill. With `expected`, only that revision.
    async fn delete_library_skill(
        &self,
        name: &str,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<(), StateError>;
}

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
