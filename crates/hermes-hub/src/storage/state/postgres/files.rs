//! Operations on files, and disk space, in PostgreSQL.

use async_trait::async_trait;

use super::{PostgresState, audit::entry_from_row, to_column, write_group::GroupedWrite};
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

async fn store_usage(
    write: &mut GroupedWrite,
    owner: &UsageOwner,
    usage: StorageUsage,
) -> Result<(), StateError> {
    let (kind, owner) = owner_key(owner);
    let upsert = sqlx::query(
        "INSERT INTO usage (kind, owner, bytes, files) VALUES ($1, $2, $3, $4)
         ON CONFLICT (kind, owner) DO UPDATE SET bytes = excluded.bytes, files = excluded.files",
    )
    .bind(kind)
    .bind(owner)
    .bind(to_column(usage.bytes))
    .bind(to_column(usage.files));
    write.execute(upsert).await?;
    Ok(())
}

/// Refuses what the owner has no room for. The owner is locked, so that nodes do not give the same room twice.
async fn check_quota(
    write: &mut GroupedWrite,
    reserve: &SpaceReservation,
) -> Result<(), StateError> {
    let lock = match &reserve.owner {
        UsageOwner::Tenant(id) => {
            sqlx::query("SELECT id FROM tenants WHERE id = $1 FOR NO KEY UPDATE").bind(id.as_str())
        }
        UsageOwner::Group(id) => {
            sqlx::query("SELECT id FROM share_groups WHERE id = $1 FOR NO KEY UPDATE")
                .bind(id.as_str())
        }
    };
    write.optional(lock).await?;
    let (kind, owner) = owner_key(&reserve.owner);
    let query = sqlx::query(
        "SELECT SUM(bytes)::bigint AS bytes, SUM(files)::bigint AS files FROM (
             SELECT bytes, files FROM usage WHERE kind = $1 AND owner = $2
             UNION ALL SELECT bytes, files FROM intents WHERE kind = $1 AND owner = $2) AS taken",
    )
    .bind(kind)
    .bind(owner);
    let row = write.one(query).await?;
    check_room(
        reserve,
        row.optional_count("bytes")?,
        row.optional_count("files")?,
    )
}

#[async_trait]
impl FileOperationStore for PostgresState {
    async fn begin_file_operation(
        &self,
        intent: NewFileOperation,
    ) -> Result<FileOperation, StateError> {
        let mut write = self.begin_change().await?;
        if let Some(reserve) = &intent.reserve {
            check_quota(&mut write, reserve).await?;
        }
        if let Some(key) = &intent.entry.idempotency {
            self.mark_progress(&mut write, key, KeyProgress::Begun)
                .await?;
        }
        let phase = Some(AuditPhase::Intent);
        let seq = self
            .append_entry(&mut write, intent.entry, phase, None)
            .await?;
        let reserve = intent.reserve.as_ref();
        let owner = reserve.map(|reserve| owner_key(&reserve.owner));
        let insert = sqlx::query(
            "INSERT INTO intents (chain, seq, kind, owner, bytes, files, change) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(&self.node)
        .bind(to_column(seq))
        .bind(owner.map(|(kind, _)| kind))
        .bind(owner.map(|(_, owner)| owner))
        .bind(reserve.map_or(0, |reserve| to_column(reserve.bytes)))
        .bind(reserve.map_or(0, |reserve| to_column(reserve.files)))
        .bind(serde_json::to_string(&intent.change)?);
        write.execute(insert).await?;
        write.commit().await?;
        Ok(FileOperation { seq })
    }

    async fn finish_file_operation(
        &self,
        intent: FileOperation,
        effect: FileOutcome,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        let delete =
            sqlx::query("DELETE FROM intents WHERE chain = $1 AND seq = $2 AND NOT settled")
                .bind(&self.node)
                .bind(to_column(intent.seq));
        check_in_progress(write.execute(delete).await?)?;
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
            self.mark_progress(&mut write, &key, KeyProgress::Effected)
                .await?;
        }
        write.commit().await
    }

    async fn unfinished_file_operations(&self) -> Result<Vec<UnfinishedOperation>, StateError> {
        let query =
            sqlx::query("SELECT seq, change, settled FROM intents WHERE chain = $1 ORDER BY seq")
                .bind(&self.node);
        let rows = self.read().await?.rows(query).await?;
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
        let mut write = self.begin_change().await?;
        let begun = sqlx::query("SELECT text, hash FROM audit WHERE chain = $1 AND seq = $2")
            .bind(&self.node)
            .bind(to_column(intent.seq));
        let row = write.optional(begun).await?;
        let update = sqlx::query(
            "UPDATE intents SET settled = TRUE, bytes = 0, files = 0
             WHERE chain = $1 AND seq = $2 AND NOT settled",
        )
        .bind(&self.node)
        .bind(to_column(intent.seq));
        check_in_progress(write.execute(update).await?)?;
        let mut entry = NewAuditEntry::by_hub("settle");
        if let Some(row) = row {
            let begun = entry_from_row(&row)?;
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
        write.commit().await
    }

    async fn forget_file_operation(&self, intent: FileOperation) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        let delete = sqlx::query("DELETE FROM intents WHERE chain = $1 AND seq = $2 AND settled")
            .bind(&self.node)
            .bind(to_column(intent.seq));
        write.execute(delete).await?;
        write.commit().await
    }

    async fn usage(&self, owner: &UsageOwner) -> Result<StorageUsage, StateError> {
        let (kind, owner) = owner_key(owner);
        let query = sqlx::query("SELECT bytes, files FROM usage WHERE kind = $1 AND owner = $2")
            .bind(kind)
            .bind(owner);
        let row = self.read().await?.optional(query).await?;
        row.map_or(Ok(StorageUsage::default()), |row| usage_from_row(&row))
    }

    async fn total_usage(&self) -> Result<TotalUsage, StateError> {
        let query = sqlx::query(
            "SELECT kind, SUM(bytes)::bigint AS bytes, SUM(files)::bigint AS files FROM usage GROUP BY kind",
        );
        let rows = self.read().await?.rows(query).await?;
        let mut total = TotalUsage::default();
        for row in rows {
            let used = usage_from_row(&row)?;
            match row.text("kind")?.as_str() {
                "tenant" => total.tenants = used,
                _ => total.groups = used,
            }
        }
        Ok(total)
    }

    async fn usages(&self, most: u32) -> Result<Vec<(UsageOwner, StorageUsage)>, StateError> {
        let query = sqlx::query(
            "SELECT kind, owner, bytes, files FROM usage ORDER BY bytes DESC, owner LIMIT $1",
        )
        .bind(i64::from(most));
        let rows = self.read().await?.rows(query).await?;
        rows.iter()
            .map(|row| {
                let owner = match row.text("kind")?.as_str() {
                    "tenant" => UsageOwner::Tenant(row.id("owner", TenantId::parse)?),
                    _ => UsageOwner::Group(row.id("owner", GroupId::parse)?),
                };
                Ok((owner, usage_from_row(row)?))
            })
            .collect()
    }

    async fn set_usage(&self, owner: &UsageOwner, usage: StorageUsage) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        store_usage(&mut write, owner, usage).await?;
        write.commit().await
    }
}

fn usage_from_row(row: &impl ColumnReader) -> Result<StorageUsage, StateError> {
    Ok(StorageUsage {
        bytes: row.count("bytes")?,
        files: row.count("files")?,
    })
}
