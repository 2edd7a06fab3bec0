//! The queues of all tenants in SQLite.

use async_trait::async_trait;
use hermes_protocol::RunEvent;

use super::{
    Affected, SqliteState, commit,
    row::ColumnReader,
    runs::{add_events, find_run, record_from_row, store_run, void_pending},
};
use crate::{
    RunId, TenantId,
    api_types::{RunStatus, Time},
    storage::state::{NewEvent, RunQueueStore, RunRecord, RunUpdated, StateError},
};

#[async_trait]
impl RunQueueStore for SqliteState {
    async fn claim_run(
        &self,
        tenant: &TenantId,
        most: u32,
    ) -> Result<Option<RunRecord>, StateError> {
        let waiting: bool = sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM runs WHERE tenant = ?1 AND status = 'queued')",
        )
        .bind(tenant.as_str())
        .fetch_one(self.readers())
        .await?;
        if !waiting {
            return Ok(None);
        }
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let row = sqlx::query(
            "UPDATE runs SET status = 'running', node = ?3, started_at = ?4, updated_at = ?4
             WHERE number = (SELECT MIN(number) FROM runs WHERE tenant = ?1 AND status = 'queued')
                 AND ?2 > (SELECT COUNT(*) FROM runs WHERE tenant = ?1 AND ended_at IS NULL AND status <> 'queued')
             RETURNING *",
        )
        .bind(tenant.as_str())
        .bind(most)
        .bind(&self.node)
        .bind(Time::now().millis())
        .fetch_optional(&mut *write)
        .await?;
        let claimed = row.map(|row| record_from_row(&row)).transpose()?;
        commit(write).await?;
        Ok(claimed)
    }

    async fn waiting_tenants(&self, most: u32) -> Result<Vec<TenantId>, StateError> {
        let rows = sqlx::query(
            "SELECT tenant FROM runs WHERE status = 'queued' GROUP BY tenant ORDER BY MIN(number) LIMIT ?1",
        )
        .bind(most)
        .fetch_all(self.readers())
        .await?;
        rows.iter()
            .map(|row| row.id("tenant", TenantId::parse))
            .collect()
    }

    async fn claimed_runs(&self) -> Result<Vec<RunRecord>, StateError> {
        let rows = sqlx::query(
            "SELECT * FROM runs WHERE ended_at IS NULL AND status <> 'queued' AND node = ?1 ORDER BY number",
        )
        .bind(&self.node)
        .fetch_all(self.readers())
        .await?;
        rows.iter().map(record_from_row).collect()
    }

    async fn requeue_run(
        &self,
        tenant: &TenantId,
        id: &RunId,
        reason: &str,
        message: Option<String>,
    ) -> Result<RunUpdated, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let (number, mut record) = find_run(&mut write, tenant, id).await?;
        if !matches!(
            record.run.status,
            RunStatus::Running | RunStatus::WaitingForApproval
        ) {
            return Err(StateError::Conflict {
                reason: "run_status",
                message: format!("the run is {}, not running", record.run.status),
            });
        }
        record.run.attempt += 1;
        record.run.status = RunStatus::Queued;
        record.called_tool = false;
        record.agent_run = None;
        record.agent_sequence = 0;
        record.node = None;
        record.started_at = None;
        let event = NewEvent {
            event: RunEvent::Requeued {
                attempt: record.run.attempt,
                reason: reason.to_owned(),
                message,
            },
            agent_sequence: None,
        };
        let events = add_events(&mut write, number, &mut record, vec![event]).await?;
        void_pending(&mut write, number).await?;
        store_run(&mut write, number, &mut record).await?;
        commit(write).await?;
        Ok(RunUpdated { record, events })
    }
}
