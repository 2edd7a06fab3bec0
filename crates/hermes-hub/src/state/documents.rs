//! Documents that hold for the whole Hub, with all their revisions.

use async_trait::async_trait;
use serde_json::Value;

use super::{Page, Paged, StateError};
use crate::{
    TenantId,
    audit::NewEntry,
    shapes::{Time, vocabulary},
};

vocabulary! {
    /// Which document.
    DocumentKind {
        /// What agents may do.
        Policy = "agent-policy",
        /// Settings whose change alters running tenants.
        TenantImpact = "tenant-impact",
        /// A text before every tenant's own; a JSON string.
        Specialization = "agent-specialization",
    }
}

/// A revision of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Which document.
    pub kind: DocumentKind,
    /// 1, 2, 3 and so on.
    pub revision: u64,
    /// Its content.
    pub content: Value,
    /// When it was written.
    pub updated_at: Time,
    /// By which token.
    pub updated_by: String,
}

/// How many tenants a revision has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// These work with it.
    pub applied: u64,
    /// These do not yet.
    pub pending: u64,
}

/// Documents.
#[async_trait]
pub trait Documents {
    /// The newest revision; none on a fresh Hub.
    async fn document(&self, kind: DocumentKind) -> Result<Option<Document>, StateError>;

    /// One revision.
    async fn document_revision(
        &self,
        kind: DocumentKind,
        revision: u64,
    ) -> Result<Option<Document>, StateError>;

    /// All revisions, newest first.
    async fn document_revisions(
        &self,
        kind: DocumentKind,
        page: &Page,
    ) -> Result<Paged<Document>, StateError>;

    /// Writes a revision. With `expected`, only after that one; 0 means before the first.
    async fn put_document(
        &self,
        kind: DocumentKind,
        content: Value,
        by: &str,
        expected: Option<u64>,
        entry: NewEntry,
    ) -> Result<Document, StateError>;

    /// Writes down which revision a tenant works with.
    async fn mark_applied(
        &self,
        tenant: &TenantId,
        kind: DocumentKind,
        revision: u64,
    ) -> Result<(), StateError>;

    /// How many tenants work with a revision or a later one.
    async fn applied(&self, kind: DocumentKind, revision: u64) -> Result<Applied, StateError>;
}
