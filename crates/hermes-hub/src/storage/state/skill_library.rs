//! The Hub's own skills, from which tenants take.

use async_trait::async_trait;

use super::{Page, Paged, StateError};
use crate::{api_types::Time, storage::audit::NewAuditEntry};

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
