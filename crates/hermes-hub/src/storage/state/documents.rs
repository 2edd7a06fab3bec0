//! Documents for the whole Hub, with all their revisions.

use async_trait::async_trait;
use serde_json::Value;

use super::{Page, Paged, StateError};
use crate::{
    TenantId,
    api_types::{Time, vocabulary},
    storage::audit::NewAuditEntry,
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

#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub kind: DocumentKind,
    /// 1, 2, 3 and so on.
    pub revision: u64,
    pub content: Value,
    pub updated_at: Time,
    pub updated_by: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppliedCounts {
    pub applied: u64,
    pub pending: u64,
}

#[async_trait]
pub trait DocumentStore {
    /// The newest revision; `None` on a new Hub.
    async fn document(&self, kind: DocumentKind) -> Result<Option<Document>, StateError>;

    async fn document_revision(
        &self,
        kind: DocumentKind,
        revision: u64,
    ) -> Result<Option<Document>, StateError>;

    async fn document_revisions(
        &self,
        kind: DocumentKind,
        page: &Page,
    ) -> Result<Paged<Document>, StateError>;

    /// Writes a revision. With `expected`, only after that one; 0 means that there is none yet.
    async fn put_document(
        &self,
        kind: DocumentKind,
        content: Value,
        by: &str,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<Document, StateError>;

    /// Stores which revision a tenant's agent uses.
    async fn mark_applied(
        &self,
        tenant: &TenantId,
        kind: DocumentKind,
        revision: u64,
    ) -> Result<(), StateError>;

    /// How many tenants' agents use this revision or a later one.
    async fn applied(&self, kind: DocumentKind, revision: u64)
    -> Result<AppliedCounts, StateError>;
}
