//! The queues of all tenants in PostgreSQL.

use async_trait::async_trait;
use sqlx::Row;

use super::{
    PostgresState,
    runs::{add_events, lock_run, store_run, void_pending},
};
use crate::{
    RunId, TenantId,
    storage::state::{
        RunQueueStore, RunRecord, RunUpdated, StateError,
        columns::ColumnReader,
        records::{record_from_row, requeue_record},
    },
};

#[async_trait]
impl RunQueueStore for PostgresState {
    async fn claim_run(
        &self,
        tenant: &TenantId,
        most: u32,
    ) -> Result<Option<RunRecord>, StateError> {
        let waiting = sqlx::query(
            "SELECT EXISTS (SELECT 1 FROM runs WHERE tenant = $1 AND status = 'queued')",
        )
        .bind(tenant.as_str());
        let is_waiting: bool = self.read().await?.one(waiting).await?.try_get(0)?;
        if !is_waiting {
            return Ok(None);
        }
        let mut write = self.begin_change().await?;
        self.fence(&mut write, tenant).await?;
        let claim = sqlx::query(
            "UPDATE runs SET status = 'running', node = $3, started_at = hub_now(), updated_at = hub_now()
             WHERE number = (SELECT number FROM runs WHERE tenant = $1 AND status = 'queued'
                     ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED)
                 AND $2 > (SELECT COUNT(*) FROM runs WHERE tenant = $1 AND ended_at IS NULL AND status <> 'queued')
             RETURNING *",
        )
        .bind(tenant.as_str())
        .bind(i64::from(most))
        .bind(&self.node);
        let row = write.optional(claim).await?;
        let claimed = row.map(|row| record_from_row(&row)).transpose()?;
        write.commit().await?;
        Ok(claimed)
    }

    async fn waiting_tenants(&self, most: u32) -> Result<Vec<TenantId>, StateError> {
        let query = sqlx::query(
            "SELECT tenant FROM runs JOIN leases USING (tenant)
             WHERE status = 'queued' AND leases.node = $2 GROUP BY tenant ORDER BY MIN(number) LIMIT $1",
        )
        .bind(i64::from(most))
        .bind(&self.node);
        let rows = self.read().await?.rows(query).await?;
        rows.iter()
            .map(|row| row.id("tenant", TenantId::parse))
            .collect()
    }

    async fn claimed_runs(&self) -> Result<Vec<RunRecord>, StateError> {
        let query = sqlx::query(
            "SELECT * FROM runs WHERE ended_at IS NULL AND status <> 'queued' AND node = $1 ORDER BY number",
        )
        .bind(&self.node);
        let rows = self.read().await?.rows(query).await?;
        rows.iter().map(record_from_row).collect()
    }

    async fn requeue_run(
        &self,
        tenant: &TenantId,
        id: &RunId,
        reason: &str,
        message: Option<String>,
    ) -> Result<RunUpdated, StateError> {
        let mut write = self.begin_change().await?;
        self.fence(&mut write, tenant).await?;
        let (number, mut record) = lock_run(&mut write, tenant, id).await?;
        let event = requeue_record(&mut record, reason, message)?;
        let events = add_events(&mut write, number, &mut record, vec![event]).await?;
        void_pending(&mut write, number).await?;
        store_run(&mut write, number, &mut record).await?;
        write.commit().await?;
        Ok(RunUpdated { record, events })
    }
}
