//! Documents and their revisions in SQLite.

use async_trait::async_trait;
use serde_json::Value;

use super::{Affected, SqliteState, commit, to_column};
use crate::{
    TenantId,
    api_types::Time,
    storage::{
        audit::NewAuditEntry,
        state::{
            AppliedCounts, Document, DocumentKind, DocumentStore, Page, Paged, StateError,
            columns::ColumnReader, records::document_from_row,
        },
    },
};

#[async_trait]
impl DocumentStore for SqliteState {
    async fn document(&self, kind: DocumentKind) -> Result<Option<Document>, StateError> {
        let row =
            sqlx::query("SELECT * FROM documents WHERE kind = ?1 ORDER BY revision DESC LIMIT 1")
                .bind(kind.as_str())
                .fetch_optional(self.readers())
                .await?;
        row.map(|row| document_from_row(&row)).transpose()
    }

    async fn document_revision(
        &self,
        kind: DocumentKind,
        revision: u64,
    ) -> Result<Option<Document>, StateError> {
        let row = sqlx::query("SELECT * FROM documents WHERE kind = ?1 AND revision = ?2")
            .bind(kind.as_str())
            .bind(to_column(revision))
            .fetch_optional(self.readers())
            .await?;
        row.map(|row| document_from_row(&row)).transpose()
    }

    async fn document_revisions(
        &self,
        kind: DocumentKind,
        page: &Page,
    ) -> Result<Paged<Document>, StateError> {
        let last: i64 = match page.cursor_key::<1>()? {
            Some([last]) => last.parse().map_err(|_| StateError::BadCursor)?,
            None => i64::MAX,
        };
        let rows = sqlx::query(
            "SELECT * FROM documents WHERE kind = ?1 AND revision < ?2 ORDER BY revision DESC LIMIT ?3",
        )
        .bind(kind.as_str())
        .bind(last)
        .bind(page.fetch_limit())
        .fetch_all(self.readers())
        .await?;
        let documents: Vec<_> = rows
            .iter()
            .map(document_from_row)
            .collect::<Result<_, _>>()?;
        Ok(Paged::from_fetched(documents, page, |document| {
            [document.revision.to_string()]
        }))
    }

    async fn put_document(
        &self,
        kind: DocumentKind,
        content: Value,
        by: &str,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<Document, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let last: i64 =
            sqlx::query_scalar("SELECT IFNULL(MAX(revision), 0) FROM documents WHERE kind = ?1")
                .bind(kind.as_str())
                .fetch_one(&mut *write)
                .await?;
        if expected.is_some_and(|expected| to_column(expected) != last) {
            return Err(StateError::Changed { what: "document" });
        }
        let document = Document {
            kind,
            revision: u64::try_from(last + 1).map_err(StateError::broken)?,
            content,
            updated_at: Time::now(),
            updated_by: by.to_owned(),
        };
        sqlx::query(
            "INSERT INTO documents (kind, revision, content, updated_at, updated_by) VALUES (?1, ?2, ?3, ?4, ?5)",
        )
        .bind(kind.as_str())
        .bind(to_column(document.revision))
        .bind(document.content.to_string())
        .bind(document.updated_at.millis())
        .bind(by)
        .execute(&mut *write)
        .await?;
        self.append_effect(&mut write, entry).await?;
        commit(write).await?;
        Ok(document)
    }

    async fn mark_applied(
        &self,
        tenant: &TenantId,
        kind: DocumentKind,
        revision: u64,
    ) -> Result<(), StateError> {
        let known: Option<i64> =
            sqlx::query_scalar("SELECT revision FROM applied WHERE kind = ?1 AND tenant = ?2")
                .bind(kind.as_str())
                .bind(tenant.as_str())
                .fetch_optional(self.readers())
                .await?;
        if known == Some(to_column(revision)) {
            return Ok(());
        }
        let mut write = self.begin_change(Affected::NoTenant).await?;
        sqlx::query(
            "INSERT INTO applied (kind, tenant, revision) SELECT ?1, id, ?3 FROM tenants WHERE id = ?2
             ON CONFLICT (kind, tenant) DO UPDATE SET revision = excluded.revision",
        )
        .bind(kind.as_str())
        .bind(tenant.as_str())
        .bind(to_column(revision))
        .execute(&mut *write)
        .await?;
        commit(write).await
    }

    async fn applied(
        &self,
        kind: DocumentKind,
        revision: u64,
    ) -> Result<AppliedCounts, StateError> {
        let row = sqlx::query(
            // From indexes alone: the rows of deleted tenants, which are few, are taken off.
            "SELECT (SELECT COUNT(*) FROM tenants WHERE status <> 'deleted') AS tenants,
                 (SELECT COUNT(*) FROM applied WHERE kind = ?1 AND revision >= ?2)
                 - (SELECT COUNT(*) FROM tenants t CROSS JOIN applied a
                    ON a.kind = ?1 AND a.tenant = t.id AND a.revision >= ?2 WHERE t.status = 'deleted') AS applied",
        )
        .bind(kind.as_str())
        .bind(to_column(revision))
        .fetch_one(self.readers())
        .await?;
        let applied = row.count("applied")?;
        Ok(AppliedCounts {
            applied,
            pending: row.count("tenants")?.saturating_sub(applied),
        })
    }
}
