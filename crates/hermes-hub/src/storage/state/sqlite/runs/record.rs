//! Reading and inserting a run's row.

use sqlx::{SqliteConnection, sqlite::SqliteRow};

use super::super::{row::ColumnReader, to_column};
use crate::{
    JobId, RunId, TenantId,
    api_types::{Run, RunStatus, RunTrigger, Time, ids::AgentRunId},
    storage::state::{NewRun, RunRecord, StateError},
};

pub(super) const NO_RUN: StateError = StateError::NotFound { what: "run" };

pub(in super::super) fn run_from_row(row: &SqliteRow) -> Result<Run, StateError> {
    Ok(Run {
        run_id: row.id("id", RunId::parse)?,
        tenant_id: row.id("tenant", TenantId::parse)?,
        status: row.word("status", RunStatus::from_word)?,
        trigger: row.word("cause", RunTrigger::from_word)?,
        attempt: u32::try_from(row.count("attempt")?).map_err(StateError::broken)?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
        last_event_id: row.count("last_event")?,
        output: row.optional_text("output")?,
        usage: row.optional_json("usage")?,
        error: row.optional_json("error")?,
        metadata: row.json("metadata")?,
    })
}

pub(in super::super) fn record_from_row(row: &SqliteRow) -> Result<RunRecord, StateError> {
    let job = row.optional_text("job")?;
    Ok(RunRecord {
        run: run_from_row(row)?,
        request: row.json("request")?,
        job: job
            .map(|job| JobId::parse(&job).map_err(StateError::broken))
            .transpose()?,
        timeout_seconds: row.optional_count("timeout_seconds")?,
        retry_interrupted: row.flag("retry_interrupted")?,
        called_tool: row.flag("called_tool")?,
        agent_run: row.optional_text("agent_run")?.map(AgentRunId),
        agent_sequence: row.count("agent_sequence")?,
        node: row.optional_text("node")?,
        started_at: row.optional_time("started_at")?,
    })
}

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
    .execute(write)
    .await?;
    Ok(())
}
