//! Runs and their events in PostgreSQL.

mod update;

use std::collections::BTreeMap;

use async_trait::async_trait;
use sqlx::{Postgres, QueryBuilder};

use super::{
    PostgresState,
    retention::MAX_DELETED_WITH_OTHERS,
    to_column,
    usage::{check_limits, count_accepted, count_ended, note_work},
    write_group::GroupedWrite,
};
use crate::{
    JobId, RunId, TenantId,
    api_types::{Run, RunStatus, StoredEvent, Time},
    storage::{
        audit::NewAuditEntry,
        state::{
            NewHubEvent, NewRun, Page, Paged, RunEventPage, RunQuery, RunRecord, RunStore,
            RunUpdate, RunUpdated, StateError,
            columns::ColumnReader,
            records::{apply_change, check_status, record_from_row, run_from_row},
            usage::count_tool_calls,
        },
    },
};

pub(super) use update::{add_events, store_run, void_pending};

const NO_RUN: StateError = StateError::NotFound { what: "run" };

/// A run and its number. Other nodes do not change it until the end of the write.
pub(super) async fn lock_run(
    write: &mut GroupedWrite,
    tenant: &TenantId,
    id: &RunId,
) -> Result<(i64, RunRecord), StateError> {
    let query = sqlx::query("SELECT * FROM runs WHERE id = $1 AND tenant = $2 FOR NO KEY UPDATE")
        .bind(id.as_str())
        .bind(tenant.as_str());
    let row = write.optional(query).await?.ok_or(NO_RUN)?;
    Ok((to_column(row.count("number")?), record_from_row(&row)?))
}

/// Adds a run to its tenant's queue.
pub(super) async fn insert_run(write: &mut GroupedWrite, run: &NewRun) -> Result<Run, StateError> {
    let insert = sqlx::query(
        "INSERT INTO runs (id, tenant, status, cause, job, request, metadata, timeout_seconds, retry_interrupted,
             created_at, updated_at)
         VALUES ($1, $2, 'queued', $3, $4, $5, $6, $7, $8, $9, $9) RETURNING *",
    )
    .bind(run.id.as_str())
    .bind(run.tenant.as_str())
    .bind(run.trigger.as_str())
    .bind(run.job.as_ref().map(JobId::as_str))
    .bind(run.request.to_string())
    .bind(serde_json::to_string(&run.metadata)?)
    .bind(run.timeout_seconds.map(to_column))
    .bind(run.retry_interrupted)
    .bind(Time::now().millis());
    let made = run_from_row(&write.one(insert).await?)?;
    count_accepted(write, &run.tenant).await?;
    Ok(made)
}

#[async_trait]
impl RunStore for PostgresState {
    async fn create_run(
        &self,
        run: NewRun,
        queue_depth: u32,
        entry: NewAuditEntry,
    ) -> Result<Run, StateError> {
        let mut write = self.begin_change().await?;
        let count = sqlx::query(
            "SELECT COUNT(*) AS waiting FROM runs WHERE tenant = $1 AND status = 'queued'",
        )
        .bind(run.tenant.as_str());
        let waiting = write.one(count).await?.count("waiting")?;
        if waiting >= u64::from(queue_depth) {
            return Err(StateError::TooMany {
                message: format!(
                    "{waiting} runs are already queued; try again when some have ended"
                ),
            });
        }
        check_limits(&mut write, &run.tenant).await?;
        let made = insert_run(&mut write, &run).await?;
        self.append_effect(&mut write, entry).await?;
        write.commit().await?;
        Ok(made)
    }

    async fn run(&self, tenant: &TenantId, id: &RunId) -> Result<Option<RunRecord>, StateError> {
        let query = sqlx::query("SELECT * FROM runs WHERE id = $1 AND tenant = $2")
            .bind(id.as_str())
            .bind(tenant.as_str());
        let row = self.read().await?.optional(query).await?;
        row.map(|row| record_from_row(&row)).transpose()
    }

    async fn runs(&self, query: &RunQuery, page: &Page) -> Result<Paged<Run>, StateError> {
        let mut sql = QueryBuilder::<Postgres>::new("SELECT * FROM runs WHERE TRUE");
        if let Some(tenant) = &query.tenant {
            sql.push(" AND tenant = ").push_bind(tenant.as_str());
        }
        if let Some(only) = &query.only {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            sql.push(" AND tenant = ANY(").push_bind(only).push(")");
        }
        if let Some(status) = query.status {
            sql.push(" AND status = ").push_bind(status.as_str());
        }
        if let Some(trigger) = query.trigger {
            sql.push(" AND cause = ").push_bind(trigger.as_str());
        }
        if let Some(job) = &query.job {
            sql.push(" AND job = ").push_bind(job.as_str());
        }
        if let Some(model) = &query.model {
            sql.push(" AND model = ").push_bind(model.as_str());
        }
        // Runs are numbered as they are requested: with a bound on the number, the order needs no sorting.
        if let Some(since) = query.since {
            sql.push(" AND number >= (SELECT number FROM runs WHERE created_at >= ")
                .push_bind(since.millis())
                .push(" ORDER BY created_at, number LIMIT 1)");
        }
        if let Some(until) = query.until {
            sql.push(" AND number <= (SELECT number FROM runs WHERE created_at < ")
                .push_bind(until.millis())
                .push(" ORDER BY created_at DESC, number DESC LIMIT 1)");
        }
        if let Some([last]) = page.cursor_key::<1>()? {
            let last: i64 = last.parse().map_err(|_| StateError::BadCursor)?;
            sql.push(" AND number < ").push_bind(last);
        }
        sql.push(" ORDER BY number DESC LIMIT ")
            .push_bind(page.fetch_limit());
        let rows = self.read().await?.rows(sql.build()).await?;
        let runs: Vec<_> = rows
            .iter()
            .map(|row| Ok::<_, StateError>((row.count("number")?, run_from_row(row)?)))
            .collect::<Result<_, _>>()?;
        Ok(Paged::from_fetched(runs, page, |(number, _)| [number.to_string()]).map(|(_, run)| run))
    }

    async fn count_runs(
        &self,
        tenant: Option<&TenantId>,
    ) -> Result<BTreeMap<RunStatus, u64>, StateError> {
        let mut sql = QueryBuilder::<Postgres>::new(
            "SELECT status, COUNT(*) AS runs FROM runs WHERE ended_at IS NULL",
        );
        if let Some(tenant) = tenant {
            sql.push(" AND tenant = ").push_bind(tenant.as_str());
        }
        sql.push(" GROUP BY status");
        let rows = self.read().await?.rows(sql.build()).await?;
        rows.iter()
            .map(|row| {
                Ok((
                    row.word("status", RunStatus::from_word)?,
                    row.count("runs")?,
                ))
            })
            .collect()
    }

    async fn update_run(
        &self,
        tenant: &TenantId,
        id: &RunId,
        update: RunUpdate,
    ) -> Result<RunUpdated, StateError> {
        let mut write = self.begin_change().await?;
        // What somebody asks for is written by any node.
        if update.entry.is_none() {
            self.fence(&mut write, tenant).await?;
        }
        let (number, mut record) = lock_run(&mut write, tenant, id).await?;
        check_status(&record, &update.allowed_from)?;
        let events = add_events(&mut write, number, &mut record, update.events).await?;
        let mut news = Vec::new();
        for asked in update.new_approvals {
            let is_new = update::add_approval(&mut write, number, &record, &asked).await?;
            if is_new && asked.carried.is_none() {
                news.push(NewHubEvent::approval_waiting(&record, &asked));
            }
            if let Some(carried) = asked.carried.filter(|_| is_new) {
                update::carry_decision(&mut write, &carried.from, &asked.id).await?;
                self.append_effect(&mut write, carried.entry).await?;
            }
        }
        let model = update.change.model.as_deref();
        note_work(&mut write, number, count_tool_calls(&events), model).await?;
        apply_change(&mut record, update.change);
        store_run(&mut write, number, &mut record).await?;
        if record.run.status.is_final() {
            count_ended(&mut write, number, &record).await?;
            news.push(NewHubEvent::run_ended(&record));
        }
        if let Some(entry) = update.entry {
            self.append_effect(&mut write, entry).await?;
        }
        self.commit_with(write, &news).await?;
        Ok(RunUpdated { record, events })
    }

    async fn run_events(
        &self,
        tenant: &TenantId,
        id: &RunId,
        after: u64,
        most: u32,
    ) -> Result<RunEventPage, StateError> {
        let mut session = self.read().await?;
        // First the run, then its events: if the run has ended, all its events are stored.
        let run = sqlx::query(
            "SELECT number, status, last_event, (SELECT MIN(id) FROM run_events WHERE run = number) AS oldest
             FROM runs WHERE id = $1 AND tenant = $2",
        )
        .bind(id.as_str())
        .bind(tenant.as_str());
        let row = session.optional(run).await?.ok_or(NO_RUN)?;
        let events = sqlx::query(
            "SELECT id, event, body, time FROM run_events WHERE run = $1 AND id > $2 ORDER BY id LIMIT $3",
        )
        .bind(to_column(row.count("number")?))
        .bind(to_column(after))
        .bind(i64::from(most));
        let events: Vec<_> = session
            .rows(events)
            .await?
            .iter()
            .map(|row| {
                Ok::<_, StateError>(StoredEvent {
                    id: row.count("id")?,
                    event: row.text("event")?,
                    run_id: id.clone(),
                    time: row.time("time")?,
                    body: row.json("body")?,
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(RunEventPage {
            oldest: row.optional_count("oldest")?,
            status: row.word("status", RunStatus::from_word)?,
            last: row.count("last_event")?,
            events,
        })
    }

    async fn forget_runs(&self, before: Time) -> Result<u64, StateError> {
        let delete = "DELETE FROM runs WHERE number = ANY(ARRAY(
                SELECT number FROM runs WHERE ended_at < $1 ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED))";
        self.delete_in_parts(delete, before.millis(), MAX_DELETED_WITH_OTHERS)
            .await
    }
}
