//! Checkpoints of homes in PostgreSQL.

use async_trait::async_trait;
use sqlx::{Row, postgres::PgRow};

use super::{session::OwnSessions, to_column};
use crate::{
    api_types::Time,
    storage::state::{
        CheckpointId, CheckpointRow, CheckpointStore, LEASE_LOST, LeaseEpoch, NewCheckpoint,
        StateError,
    },
};

#[derive(Debug, Clone)]
pub(super) struct PostgresCheckpoints {
    pub(super) sessions: OwnSessions,
    pub(super) node: String,
}

fn count_of(row: &PgRow, column: &str) -> Result<u64, StateError> {
    let count: i64 = row.try_get(column)?;
    Ok(u64::try_from(count).unwrap_or(0))
}

fn checkpoint_of(row: &PgRow) -> Result<CheckpointRow, StateError> {
    Ok(CheckpointRow {
        id: CheckpointId {
            epoch: LeaseEpoch(count_of(row, "epoch")?),
            seq: count_of(row, "seq")?,
        },
        node: row.try_get("node")?,
        manifest_sha256: row.try_get("manifest_sha256")?,
        files: count_of(row, "files")?,
        bytes: count_of(row, "bytes")?,
        created_at: Time::from_millis(row.try_get("created_ms")?),
    })
}

impl PostgresCheckpoints {
    async fn newest(
        &self,
        tenant_uid: &str,
        most: Option<i64>,
    ) -> Result<Vec<CheckpointRow>, StateError> {
        let found = sqlx::query(
            "SELECT epoch, seq, node, manifest_sha256, files, bytes,
                 (extract(epoch FROM created_at) * 1000)::bigint AS created_ms
             FROM checkpoints WHERE tenant_uid = $1 ORDER BY epoch DESC, seq DESC LIMIT $2",
        );
        let mut session = self.sessions.read().await?;
        let rows = session.rows(found.bind(tenant_uid).bind(most)).await?;
        rows.iter().map(checkpoint_of).collect()
    }
}

#[async_trait]
impl CheckpointStore for PostgresCheckpoints {
    async fn checkpoints(&self, tenant_uid: &str) -> Result<Vec<CheckpointRow>, StateError> {
        self.newest(tenant_uid, None).await
    }

    async fn latest_checkpoint(
        &self,
        tenant_uid: &str,
    ) -> Result<Option<CheckpointRow>, StateError> {
        Ok(self.newest(tenant_uid, Some(1)).await?.into_iter().next())
    }

    async fn record_checkpoint(&self, checkpoint: &NewCheckpoint) -> Result<(), StateError> {
        let mut session = self.sessions.write().await?;
        // Until this ends, nobody can take the lease.
        let lease = sqlx::query(
            "SELECT 1 FROM leases WHERE tenant = $1 AND node = $2 AND epoch = $3 AND expires_at > clock_timestamp()
             FOR KEY SHARE",
        );
        let lease = lease
            .bind(checkpoint.tenant.as_str())
            .bind(&self.node)
            .bind(to_column(checkpoint.id.epoch.0));
        if session.optional(lease).await?.is_none() {
            return Err(StateError::Conflict {
                reason: LEASE_LOST,
                message: format!(
                    "this node does not hold the lease of the tenant `{}`",
                    checkpoint.tenant
                ),
            });
        }
        let recorded = sqlx::query(
            "INSERT INTO checkpoints (tenant_uid, epoch, seq, node, manifest_sha256, files, bytes)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (tenant_uid, epoch, seq) DO NOTHING",
        );
        let recorded = recorded
            .bind(&checkpoint.tenant_uid)
            .bind(to_column(checkpoint.id.epoch.0))
            .bind(to_column(checkpoint.id.seq))
            .bind(&self.node)
            .bind(&checkpoint.manifest_sha256)
            .bind(to_column(checkpoint.files))
            .bind(to_column(checkpoint.bytes));
        session.execute(recorded).await?;
        session.commit().await
    }

    async fn forget_checkpoints(
        &self,
        tenant_uid: &str,
        ids: &[CheckpointId],
    ) -> Result<(), StateError> {
        let epochs: Vec<i64> = ids.iter().map(|id| to_column(id.epoch.0)).collect();
        let seqs: Vec<i64> = ids.iter().map(|id| to_column(id.seq)).collect();
        let mut session = self.sessions.write().await?;
        let forgotten = sqlx::query(
            "DELETE FROM checkpoints USING unnest($2::bigint[], $3::bigint[]) AS gone (epoch, seq)
             WHERE checkpoints.tenant_uid = $1 AND checkpoints.epoch = gone.epoch AND checkpoints.seq = gone.seq",
        );
        session
            .execute(forgotten.bind(tenant_uid).bind(epochs).bind(seqs))
            .await?;
        session.commit().await
    }

    async fn abandoned_checkpoints(&self) -> Result<Vec<String>, StateError> {
        let found = sqlx::query(
            "SELECT DISTINCT tenant_uid FROM checkpoints
             WHERE NOT EXISTS (SELECT 1 FROM tenants WHERE tenants.uid = checkpoints.tenant_uid)",
        );
        let rows = self.sessions.read().await?.rows(found).await?;
        let uids = rows.iter().map(|row| row.try_get("tenant_uid"));
        Ok(uids.collect::<Result<_, _>>()?)
    }
}
