//! Reading and inserting a run's row.

use sqlx::SqliteConnection;

use super::super::{to_column, usage::count_accepted};
use crate::{
    JobId, RunId, TenantId,
    api_types::Time,
    storage::state::{
        NewRun, RunRecord, StateError, columns::ColumnReader, records::record_from_row,
    },
};

pub(super) const NO_RUN: StateError = StateError::NotFound { what: "run" };

pub(in super::super) async fn find_run(
    connection: &mut SqliteConnection,
    tenant: &TenantId,
    id: &RunId,
) -> Result<(i64, RunRecord), StateError> {
    let row = sqlx::query("SELECT * FROM runs WHERE id = ?1 AND tenant = ?2")
        .bind(id.as_str())
        .bind(tenant.as_str())
        .fetch_optional(connection)
        .await?
        .ok_or(NO_RUN)?;
    Ok((to_column(row.count("number")?), record_from_row(&row)?))
}

/// Adds a run to its tenant's queue.
pub(in super::super) async fn insert_run(
    write: &mut SqliteConnection,
    run: &NewRun,
) -> Result<(), StateError> {
    sqlx::query(
        "INSERT INTO runs (id, tenant, status, cause, job, request, metadata, timeout_seconds, retry_interrupted,
             created_at, updated_at)
         VALUES (?1, ?2, 'queued', ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)",
    )
    .bind(run.id.as_str())
    .bind(run.tenant.as_str())
    .bind(run.trigger.as_str())
    .bind(run.job.as_ref().map(JobId::as_str))
    .bind(run.request.to_string())
    .bind(serde_json::to_string(&run.metadata)?)
    .bind(run.timeout_seconds.map(to_column))
    .bind(run.retry_interrupted)
    .bind(Time::now().millis())
    .execute(&mut *write)
    .await?;
    count_accepted(write, &run.tenant).await
}
