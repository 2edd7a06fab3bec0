//! Operations on files, and disk space, in SQLite.

use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::{Affected, SqliteState, audit, commit, idempotency::mark_progress, to_column};
use crate::{
    GroupId, TenantId,
    api_types::{AuditPhase, Via},
    storage::{
        audit::NewAuditEntry,
        state::{
            FileOperation, FileOperationStore, FileOutcome, NewFileOperation, SpaceReservation,
            StateError, StorageUsage, TotalUsage, UnfinishedOperation, UsageOwner,
            columns::ColumnReader,
            records::{KeyProgress, check_in_progress, check_room, owner_key},
        },
    },
};

/// Whose record shows the space that an owner takes.
fn affected(owner: Option<&UsageOwner>) -> Affected<'_> {
    match owner {
        Some(UsageOwner::Tenant(id)) => Affected::Tenant(id),
        Some(UsageOwner::Group(_)) | None => Affected::NoTenant,
    }
}

async fn store_usage(
    write: &mut SqliteConnection,
    owner: &UsageOwner,
    usage: StorageUsage,
) -> Result<(), StateError> {
    let (kind, owner) = owner_key(owner);
    sqlx::query(
        "INSERT INTO usage (kind, owner, bytes, files) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (kind, owner) DO UPDATE SET bytes = excluded.bytes, files = excluded.files",
    )
    .bind(kind)
    .bind(owner)
    .bind(to_column(usage.bytes))
    .bind(to_column(usage.files))
    .execute(write)
    .await?;
    Ok(())
}

/// Refuses what the owner has no room for, counting the room kept for operations under way.
async fn check_quota(
    write: &mut SqliteConnection,
    reserve: &SpaceReservation,
) -> Result<(), StateError> {
    let (kind, owner) = owner_key(&reserve.owner);
    let row = sqlx::query(
        "SELECT SUM(bytes) AS bytes, SUM(files) AS files FROM (
             SELECT bytes, files FROM usage WHERE kind = ?1 AND owner = ?2
             UNION ALL SELECT bytes, files FROM intents WHERE kind = ?1 AND owner = ?2)",
    )
    .bind(kind)
    .bind(owner)
    .fetch_one(write)
    .await?;
    check_room(
        reserve,
        row.optional_count("bytes")?,
        row.optional_count("files")?,
    )
}

impl SqliteState {
    /// Ends an operation, in the transaction of its outcome.
    async fn end_file_operation(
        &self,
        write: &mut SqliteConnection,
        intent: &FileOperation,
    ) -> Result<(), StateError> {
        let ended =
            sqlx::query("DELETE FROM intents WHERE chain = ?1 AND seq = ?2 AND settled = 0")
                .bind(&self.node)
                .bind(to_column(intent.seq))
                .execute(write)
                .await?;
        check_in_progress(ended.rows_affected())
    }
}

#[async_trait]
impl FileOperationStore for SqliteState {
    async fn begin_file_operation(
        &self,
        intent: NewFileOperation,
    ) -> Result<FileOperation, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        if let Some(reserve) = &intent.reserve {
            check_quota(&mut write, reserve).await?;
        }
        if let Some(key) = &intent.entry.idempotency {
            mark_progress(&mut write, key, KeyProgress::Begun).await?;
        }
        let phase = Some(AuditPhase::Intent);
        let seq = self
            .append_entry(&mut write, intent.entry, phase, None)
            .await?;
        let reserve = intent.reserve.as_ref();
        let owner = reserve.map(|reserve| owner_key(&reserve.owner));
        sqlx::query(
            "INSERT INTO intents (chain, seq, kind, owner, bytes, files, change) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )
        .bind(&self.node)
        .bind(to_column(seq))
        .bind(owner.map(|(kind, _)| kind))
        .bind(owner.map(|(_, owner)| owner))
        .bind(reserve.map_or(0, |reserve| to_column(reserve.bytes)))
        .bind(reserve.map_or(0, |reserve| to_column(reserve.files)))
        .bind(serde_json::to_string(&intent.change)?)
        .execute(&mut *write)
        .await?;
        commit(write).await?;
        Ok(FileOperation { seq })
    }

    async fn finish_file_operation(
        &self,
        intent: FileOperation,
        effect: FileOutcome,
    ) -> Result<(), StateError> {
        let mut write = self
            .begin_change(affected(effect.used.as_ref().map(|(owner, _)| owner)))
            .await?;
        self.end_file_operation(&mut write, &intent).await?;
        if let Some((owner, usage)) = &effect.used {
            store_usage(&mut write, owner, *usage).await?;
        }
        // A failed request may be sent again.
        let is_done = effect.entry.status < 400;
        let key = effect.entry.idempotency.clone().filter(|_| is_done);
        let phase = Some(AuditPhase::Done);
        self.append_entry(&mut write, effect.entry, phase, Some(intent.seq))
            .await?;
        if let Some(key) = key {
            mark_progress(&mut write, &key, KeyProgress::Effected).await?;
        }
        commit(write).await
    }

    async fn unfinished_file_operations(&self) -> Result<Vec<UnfinishedOperation>, StateError> {
        let rows =
            sqlx::query("SELECT seq, change, settled FROM intents WHERE chain = ?1 ORDER BY seq")
                .bind(&self.node)
                .fetch_all(self.readers())
                .await?;
        let unfinished = rows.iter().map(|row| {
            let change = row.optional_text("change")?;
            Ok(UnfinishedOperation {
                operation: FileOperation {
                    seq: row.count("seq")?,
                },
                // What cannot be read must not keep the Hub from starting.
                change: change.and_then(|change| serde_json::from_str(&change).ok()),
                is_settled: row.flag("settled")?,
            })
        });
        unfinished.collect()
    }

    async fn settle_file_operation(
        &self,
        intent: FileOperation,
        phase: AuditPhase,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let row = sqlx::query("SELECT text, hash FROM audit WHERE chain = ?1 AND seq = ?2")
            .bind(&self.node)
            .bind(to_column(intent.seq))
            .fetch_optional(&mut *write)
            .await?;
        let settled = sqlx::query(
            "UPDATE intents SET settled = 1, bytes = 0, files = 0 WHERE chain = ?1 AND seq = ?2 AND settled = 0",
        )
        .bind(&self.node)
        .bind(to_column(intent.seq))
        .execute(&mut *write)
        .await?;
        check_in_progress(settled.rows_affected())?;
        let mut entry = NewAuditEntry::by_hub("settle");
        if let Some(row) = row {
            let begun = audit::entry_from_row(&row)?;
            entry = NewAuditEntry::new(begun.actor, Via::Hub, begun.action);
            entry.tenant = begun.tenant;
            entry.target = begun.target;
            entry.request_id = begun.request_id;
        }
        if phase == AuditPhase::Interrupted {
            entry.status = 500;
        }
        self.append_entry(&mut write, entry, Some(phase), Some(intent.seq))
            .await?;
        commit(write).await
    }

    async fn forget_file_operation(&self, intent: FileOperation) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        sqlx::query("DELETE FROM intents WHERE chain = ?1 AND seq = ?2 AND settled = 1")
            .bind(&self.node)
            .bind(to_column(intent.seq))
            .execute(&mut *write)
            .await?;
        commit(write).await
    }

    async fn usage(&self, owner: &UsageOwner) -> Result<StorageUsage, StateError> {
        let (kind, owner) = owner_key(owner);
        let row = sqlx::query("SELECT bytes, files FROM usage WHERE kind = ?1 AND owner = ?2")
            .bind(kind)
            .bind(owner)
            .fetch_optional(self.readers())
            .await?;
        row.map_or(Ok(StorageUsage::default()), |row| {
            Ok(StorageUsage {
                bytes: row.count("bytes")?,
                files: row.count("files")?,
            })
        })
    }

    async fn total_usage(&self) -> Result<TotalUsage, StateError> {
        let rows = sqlx::query(
            "SELECT kind, SUM(bytes) AS bytes, SUM(files) AS files FROM usage GROUP BY kind",
        )
        .fetch_all(self.readers())
        .await?;
        let mut total = TotalUsage::default();
        for row in rows {
            let used = StorageUsage {
                bytes: row.count("bytes")?,
                files: row.count("files")?,
            };
            match row.text("kind")?.as_str() {
                "tenant" => total.tenants = used,
                _ => total.groups = used,
            }
        }
        Ok(total)
    }

    async fn usages(&self, most: u32) -> Result<Vec<(UsageOwner, StorageUsage)>, StateError> {
        let rows = sqlx::query(
            "SELECT kind, owner, bytes, files FROM usage ORDER BY bytes DESC, owner LIMIT ?1",
        )
        .bind(most)
        .fetch_all(self.readers())
        .await?;
        rows.iter()
            .map(|row| {
                let owner = match row.text("kind")?.as_str() {
                    "tenant" => UsageOwner::Tenant(row.id("owner", TenantId::parse)?),
                    _ => UsageOwner::Group(row.id("owner", GroupId::parse)?),
                };
                let used = StorageUsage {
                    bytes: row.count("bytes")?,
                    files: row.count("files")?,
                };
                Ok((owner, used))
            })
            .collect()
    }

    async fn set_usage(&self, owner: &UsageOwner, usage: StorageUsage) -> Result<(), StateError> {
        let mut write = self.begin_change(affected(Some(owner))).await?;
        store_usage(&mut write, owner, usage).await?;
        commit(write).await
    }
}
