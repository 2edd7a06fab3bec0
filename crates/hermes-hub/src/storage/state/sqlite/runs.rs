//! Runs, their events and the queues of all tenants in SQLite.

mod record;
mod update;

use std::collections::BTreeMap;

use async_trait::async_trait;
use sqlx::{QueryBuilder, Row, Sqlite};

use super::{
    Affected, SqliteState, commit, to_column,
    usage::{check_limits, count_ended, note_work},
};
use crate::{
    RunId, TenantId,
    api_types::{Run, RunStatus, StoredEvent, Time},
    storage::{
        audit::NewAuditEntry,
        state::{
            NewHubEvent, NewRun, Page, Paged, RunEventPage, RunQuery, RunQueueStore, RunRecord,
            RunStore, RunUpdate, RunUpdated, StateError,
            columns::{ColumnReader, json_list},
            records::{apply_change, check_status, record_from_row, requeue_record, run_from_row},
            usage::count_tool_calls,
        },
    },
};

pub(super) use record::{find_run, insert_run};
pub(super) use update::{add_events, store_run, void_pending};

/// Runs deleted in one transaction, so that others do not wait long.
const MAX_FORGOTTEN_RUNS: u32 = 200;

#[async_trait]
impl RunStore for SqliteState {
    async fn create_run(
        &self,
        run: NewRun,
        queue_depth: u32,
        entry: NewAuditEntry,
    ) -> Result<Run, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let waiting: i64 =
            sqlx::query_scalar("SELECT COUNT(*) FROM runs WHERE tenant = ?1 AND status = 'queued'")
                .bind(run.tenant.as_str())
                .fetch_one(&mut *write)
                .await?;
        if waiting >= i64::from(queue_depth) {
            return Err(StateError::TooMany {
                message: format!(
                    "{waiting} runs are already queued; try again when some have ended"
                ),
            });
        }
        check_limits(&mut write, &run.tenant).await?;
        insert_run(&mut write, &run).await?;
        self.append_effect(&mut write, entry).await?;
        let (_, record) = find_run(&mut write, &run.tenant, &run.id).await?;
        commit(write).await?;
        Ok(record.run)
    }

    async fn run(&self, tenant: &TenantId, id: &RunId) -> Result<Option<RunRecord>, StateError> {
        let mut connection = self.readers().acquire().await?;
        match find_run(&mut connection, tenant, id).await {
            Err(StateError::NotFound { .. }) => Ok(None),
            found => found.map(|(_, record)| Some(record)),
        }
    }

    async fn runs(&self, query: &RunQuery, page: &Page) -> Result<Paged<Run>, StateError> {
        let mut sql = QueryBuilder::<Sqlite>::new("SELECT * FROM runs WHERE TRUE");
        if let Some(tenant) = &query.tenant {
            sql.push(" AND tenant = ").push_bind(tenant.as_str());
        }
        if let Some(only) = json_list(query.only.as_deref())? {
            sql.push(" AND tenant IN (SELECT value FROM json_each(")
                .push_bind(only)
                .push("))");
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
        let rows = sql.build().fetch_all(self.readers()).await?;
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
        let mut sql = QueryBuilder::<Sqlite>::new(
            "SELECT status, COUNT(*) AS runs FROM runs WHERE ended_at IS NULL",
        );
        if let Some(tenant) = tenant {
            sql.push(" AND tenant = ").push_bind(tenant.as_str());
        }
        sql.push(" GROUP BY status");
        let rows = sql.build().fetch_all(self.readers()).await?;
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
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let (number, mut record) = find_run(&mut write, tenant, id).await?;
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
        // First the run, then its events: if the run has ended, all its events are stored.
        let row = sqlx::query(
            "SELECT number, status, last_event, (SELECT MIN(id) FROM run_events WHERE run = number) AS oldest
             FROM runs WHERE id = ?1 AND tenant = ?2",
        )
        .bind(id.as_str())
        .bind(tenant.as_str())
        .fetch_optional(self.readers())
        .await?
        .ok_or(record::NO_RUN)?;
        let number: i64 = row.try_get("number")?;
        let events = sqlx::query(
            "SELECT id, event, body, time FROM run_events WHERE run = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
        )
        .bind(number)
        .bind(to_column(after))
        .bind(most)
        .fetch_all(self.readers())
        .await?;
        let events: Vec<_> = events
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
        let mut forgotten = 0;
        loop {
            let mut write = self.begin_change(Affected::NoTenant).await?;
            let some = sqlx::query(
                "DELETE FROM runs WHERE number IN (SELECT number FROM runs WHERE ended_at < ?1 LIMIT ?2)",
            )
            .bind(before.millis())
            .bind(MAX_FORGOTTEN_RUNS)
            .execute(&mut *write)
            .await?
            .rows_affected();
            commit(write).await?;
            forgotten += some;
            if some < u64::from(MAX_FORGOTTEN_RUNS) {
                return Ok(forgotten);
            }
        }
    }
}

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
        let event = requeue_record(&mut record, reason, message)?;
        let events = add_events(&mut write, number, &mut record, vec![event]).await?;
        void_pending(&mut write, number).await?;
        store_run(&mut write, number, &mut record).await?;
        commit(write).await?;
        Ok(RunUpdated { record, events })
    }
}
