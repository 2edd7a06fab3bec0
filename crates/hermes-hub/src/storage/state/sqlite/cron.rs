//! The scheduler's state in SQLite.

use async_trait::async_trait;
use sqlx::{QueryBuilder, Row, Sqlite, SqliteConnection};

use super::{Affected, SqliteState, WriteTransaction, commit, runs::insert_run, to_column};
use crate::{
    JobId, RunId, TenantId,
    api_types::Time,
    storage::state::{
        CronStore, DueJob, FileVersion, Fire, FireOutcome, JobDueTime, JobFile, JobSelection,
        NewFire, NextJobTime, Page, Paged, StateError,
        columns::{ColumnReader, json_list},
        cron::{last_shown_job, page_next_jobs},
    },
};

async fn upsert_job_time(
    write: &mut SqliteConnection,
    tenant: &TenantId,
    time: &JobDueTime,
) -> Result<(), StateError> {
    sqlx::query(
        "INSERT INTO job_times (tenant, job, next, schedule_hash) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (tenant, job) DO UPDATE SET next = excluded.next, schedule_hash = excluded.schedule_hash",
    )
    .bind(tenant.as_str())
    .bind(time.job.as_str())
    .bind(time.next.map(Time::millis))
    .bind(&time.schedule_hash)
    .execute(write)
    .await?;
    Ok(())
}

impl SqliteState {
    async fn record_fire(
        &self,
        write: &mut WriteTransaction<'_>,
        fire: NewFire,
    ) -> Result<FireOutcome, StateError> {
        let (run, skipped) = match &fire.outcome {
            Ok(run) => (Some(run.id.as_str()), None),
            Err(reason) => (None, Some(reason.as_str())),
        };
        let fired = sqlx::query(
            "INSERT INTO fires (tenant, job, due, fired_at, run, skipped) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (tenant, job, due) DO NOTHING",
        )
        .bind(fire.tenant.as_str())
        .bind(fire.job.as_str())
        .bind(fire.due.millis())
        .bind(Time::now().millis())
        .bind(run)
        .bind(skipped)
        .execute(&mut **write)
        .await?
        .rows_affected();
        // Only forward: a later time that was set meanwhile is kept.
        sqlx::query("UPDATE job_times SET next = ?4 WHERE tenant = ?1 AND job = ?2 AND next <= ?3")
            .bind(fire.tenant.as_str())
            .bind(fire.job.as_str())
            .bind(fire.due.millis())
            .bind(fire.next.map(Time::millis))
            .execute(&mut **write)
            .await?;
        if fired == 0 {
            return Ok(FireOutcome::AlreadyFired);
        }
        if let Ok(run) = &fire.outcome {
            insert_run(write, run).await?;
        }
        self.append_effect(write, fire.entry).await?;
        Ok(FireOutcome::Fired)
    }
}

#[async_trait]
impl CronStore for SqliteState {
    async fn record_fires(&self, fires: Vec<NewFire>) -> Result<Vec<FireOutcome>, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let mut outcomes = Vec::with_capacity(fires.len());
        for fire in fires {
            outcomes.push(self.record_fire(&mut write, fire).await?);
        }
        commit(write).await?;
        Ok(outcomes)
    }

    async fn due_jobs(&self, now: Time, most: u32) -> Result<Vec<DueJob>, StateError> {
        let rows = sqlx::query(
            "SELECT j.tenant, j.job, j.next,
                 (SELECT MAX(f.due) FROM fires f WHERE f.tenant = j.tenant AND f.job = j.job) AS last_fired,
                 EXISTS (SELECT 1 FROM runs r WHERE r.tenant = j.tenant AND r.ended_at IS NULL AND r.job = j.job)
                     AS under_way
             FROM job_times j JOIN tenants t ON t.id = j.tenant
             WHERE j.next <= ?1 AND t.deleted_at IS NULL ORDER BY j.next LIMIT ?2",
        )
        .bind(now.millis())
        .bind(most)
        .fetch_all(self.readers())
        .await?;
        rows.iter()
            .map(|row| {
                Ok(DueJob {
                    tenant: row.id("tenant", TenantId::parse)?,
                    job: row.id("job", JobId::parse)?,
                    due: row.time("next")?,
                    last_fired: row.optional_time("last_fired")?,
                    is_active: row.flag("under_way")?,
                })
            })
            .collect()
    }

    async fn next_due(&self) -> Result<Option<Time>, StateError> {
        let row = sqlx::query(
            "SELECT j.next FROM job_times j JOIN tenants t ON t.id = j.tenant
             WHERE j.next IS NOT NULL AND t.deleted_at IS NULL ORDER BY j.next LIMIT 1",
        )
        .fetch_optional(self.readers())
        .await?;
        row.map(|row| row.time("next")).transpose()
    }

    async fn next_jobs(
        &self,
        selection: JobSelection,
        only: Option<&[TenantId]>,
        page: &Page,
    ) -> Result<Paged<NextJobTime>, StateError> {
        let mut sql = QueryBuilder::<Sqlite>::new(
            "SELECT j.tenant, j.job, j.next FROM job_times j CROSS JOIN tenants t ON t.id = j.tenant
             WHERE t.deleted_at IS NULL",
        );
        if selection == JobSelection::Upcoming {
            sql.push(" AND j.next IS NOT NULL");
        }
        if let Some(only) = json_list(only)? {
            sql.push(" AND j.tenant IN (SELECT value FROM json_each(")
                .push_bind(only)
                .push("))");
        }
        if let Some((next, tenant, job)) = last_shown_job(page)? {
            match selection {
                JobSelection::Upcoming => sql
                    .push(" AND (j.next, j.tenant, j.job) > (")
                    .push_bind(next)
                    .push(", "),
                JobSelection::All => sql.push(" AND (j.tenant, j.job) > ("),
            };
            sql.push_bind(tenant).push(", ").push_bind(job).push(")");
        }
        sql.push(match selection {
            JobSelection::Upcoming => " ORDER BY j.next, j.tenant, j.job LIMIT ",
            JobSelection::All => " ORDER BY j.tenant, j.job LIMIT ",
        })
        .push_bind(page.fetch_limit());
        let rows = sql.build().fetch_all(self.readers()).await?;
        page_next_jobs(&rows, page)
    }

    async fn job_times(&self, tenant: &TenantId) -> Result<Vec<JobDueTime>, StateError> {
        let rows = sqlx::query(
            "SELECT job, next, schedule_hash FROM job_times WHERE tenant = ?1 ORDER BY job",
        )
        .bind(tenant.as_str())
        .fetch_all(self.readers())
        .await?;
        rows.iter()
            .map(|row| {
                Ok(JobDueTime {
                    job: row.id("job", JobId::parse)?,
                    next: row.optional_time("next")?,
                    schedule_hash: row.text("schedule_hash")?,
                })
            })
            .collect()
    }

    async fn set_job_times(
        &self,
        tenant: &TenantId,
        times: &[JobDueTime],
    ) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let jobs: Vec<_> = times.iter().map(|time| time.job.as_str()).collect();
        sqlx::query(
            "DELETE FROM job_times WHERE tenant = ?1 AND job NOT IN (SELECT value FROM json_each(?2))",
        )
        .bind(tenant.as_str())
        .bind(serde_json::to_string(&jobs)?)
        .execute(&mut *write)
        .await?;
        for time in times {
            upsert_job_time(&mut write, tenant, time).await?;
        }
        commit(write).await
    }

    async fn replace_job_time(
        &self,
        tenant: &TenantId,
        due: Time,
        time: &JobDueTime,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        sqlx::query(
            "UPDATE job_times SET next = ?4, schedule_hash = ?5 WHERE tenant = ?1 AND job = ?2 AND next = ?3",
        )
        .bind(tenant.as_str())
        .bind(time.job.as_str())
        .bind(due.millis())
        .bind(time.next.map(Time::millis))
        .bind(&time.schedule_hash)
        .execute(&mut *write)
        .await?;
        commit(write).await
    }

    async fn job_files(&self) -> Result<Vec<(TenantId, JobFile)>, StateError> {
        let rows = sqlx::query("SELECT tenant, modified, size, readable FROM job_files")
            .fetch_all(self.readers())
            .await?;
        rows.iter()
            .map(|row| {
                let modified: Option<i64> = row.try_get("modified")?;
                let size = row.optional_count("size")?;
                let file = JobFile {
                    version: modified
                        .zip(size)
                        .map(|(modified, size)| FileVersion { modified, size }),
                    is_readable: row.flag("readable")?,
                };
                Ok((row.id("tenant", TenantId::parse)?, file))
            })
            .collect()
    }

    async fn set_job_file(
        &self,
        tenant: &TenantId,
        file: Option<JobFile>,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        match file {
            None => {
                sqlx::query("DELETE FROM job_files WHERE tenant = ?1")
                    .bind(tenant.as_str())
                    .execute(&mut *write)
                    .await?;
            }
            Some(file) => {
                sqlx::query(
                    "INSERT INTO job_files (tenant, modified, size, readable)
                     SELECT id, ?2, ?3, ?4 FROM tenants WHERE id = ?1
                     ON CONFLICT (tenant) DO UPDATE SET modified = excluded.modified, size = excluded.size,
                         readable = excluded.readable",
                )
                .bind(tenant.as_str())
                .bind(file.version.map(|version| version.modified))
                .bind(file.version.map(|version| to_column(version.size)))
                .bind(file.is_readable)
                .execute(&mut *write)
                .await?;
            }
        }
        commit(write).await
    }

    async fn fires(
        &self,
        tenant: &TenantId,
        job: &JobId,
        page: &Page,
    ) -> Result<Paged<Fire>, StateError> {
        let last: i64 = match page.cursor_key::<1>()? {
            Some([last]) => last.parse().map_err(|_| StateError::BadCursor)?,
            None => i64::MAX,
        };
        let rows = sqlx::query(
            "SELECT due, fired_at, run, skipped FROM fires WHERE tenant = ?1 AND job = ?2 AND due < ?3
             ORDER BY due DESC LIMIT ?4",
        )
        .bind(tenant.as_str())
        .bind(job.as_str())
        .bind(last)
        .bind(page.fetch_limit())
        .fetch_all(self.readers())
        .await?;
        let fires: Vec<_> = rows
            .iter()
            .map(|row| {
                let run = row.optional_text("run")?;
                Ok::<_, StateError>(Fire {
                    due: row.time("due")?,
                    fired_at: row.time("fired_at")?,
                    run: run
                        .map(|run| RunId::parse(&run).map_err(StateError::broken))
                        .transpose()?,
                    skipped: row.optional_text("skipped")?,
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Paged::from_fetched(fires, page, |fire| {
            [fire.due.millis().to_string()]
        }))
    }

    async fn forget_fires(&self, before: Time) -> Result<u64, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let forgotten = sqlx::query("DELETE FROM fires WHERE due < ?1")
            .bind(before.millis())
            .execute(&mut *write)
            .await?
            .rows_affected();
        commit(write).await?;
        Ok(forgotten)
    }
}
