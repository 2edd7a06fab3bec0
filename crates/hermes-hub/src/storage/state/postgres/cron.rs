//! The scheduler's state in PostgreSQL.

use async_trait::async_trait;
use sqlx::{Postgres, QueryBuilder};

use super::{
    PostgresState, retention::MAX_DELETED, runs::insert_run, to_column, write_group::GroupedWrite,
};
use crate::{
    JobId, RunId, TenantId,
    api_types::Time,
    storage::state::{
        CronStore, DueJob, FileVersion, Fire, FireOutcome, JobDueTime, JobFile, JobSelection,
        LEASE_LOST, NewFire, NextJobTime, Page, Paged, StateError,
        columns::ColumnReader,
        cron::{last_shown_job, page_next_jobs},
    },
};

async fn upsert_job_time(
    write: &mut GroupedWrite,
    tenant: &TenantId,
    time: &JobDueTime,
) -> Result<(), StateError> {
    let upsert = sqlx::query(
        "INSERT INTO job_times (tenant, job, next, schedule_hash) VALUES ($1, $2, $3, $4)
         ON CONFLICT (tenant, job) DO UPDATE SET next = excluded.next, schedule_hash = excluded.schedule_hash",
    )
    .bind(tenant.as_str())
    .bind(time.job.as_str())
    .bind(time.next.map(Time::millis))
    .bind(&time.schedule_hash);
    write.execute(upsert).await?;
    Ok(())
}

impl PostgresState {
    async fn record_fire(
        &self,
        write: &mut GroupedWrite,
        fire: NewFire,
    ) -> Result<FireOutcome, StateError> {
        let (run, skipped) = match &fire.outcome {
            Ok(run) => (Some(run.id.as_str()), None),
            Err(reason) => (None, Some(reason.as_str())),
        };
        let insert = sqlx::query(
            "INSERT INTO fires (tenant, job, due, fired_at, run, skipped) VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (tenant, job, due) DO NOTHING",
        )
        .bind(fire.tenant.as_str())
        .bind(fire.job.as_str())
        .bind(fire.due.millis())
        .bind(Time::now().millis())
        .bind(run)
        .bind(skipped);
        let fired = write.execute(insert).await?;
        // Only forward: a later time that was set meanwhile is kept.
        let advance = sqlx::query(
            "UPDATE job_times SET next = $4 WHERE tenant = $1 AND job = $2 AND next <= $3",
        )
        .bind(fire.tenant.as_str())
        .bind(fire.job.as_str())
        .bind(fire.due.millis())
        .bind(fire.next.map(Time::millis));
        write.execute(advance).await?;
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
impl CronStore for PostgresState {
    async fn record_fires(&self, fires: Vec<NewFire>) -> Result<Vec<FireOutcome>, StateError> {
        let mut write = self.begin_change().await?;
        let mut fenced: Option<(TenantId, bool)> = None;
        let mut outcomes = Vec::with_capacity(fires.len());
        for fire in fires {
            let is_held = match &fenced {
                Some((tenant, is_held)) if *tenant == fire.tenant => *is_held,
                _ => match self.fence(&mut write, &fire.tenant).await {
                    Ok(()) => true,
                    Err(StateError::Conflict { reason, .. }) if reason == LEASE_LOST => false,
                    Err(error) => return Err(error),
                },
            };
            fenced = Some((fire.tenant.clone(), is_held));
            outcomes.push(if is_held {
                self.record_fire(&mut write, fire).await?
            } else {
                FireOutcome::LeaseLost
            });
        }
        write.commit().await?;
        Ok(outcomes)
    }

    // Scalar subqueries, and not joins: the server begins with the few jobs by their time, and not with all tenants, of
    // which it may believe that they are fewer.
    async fn due_jobs(&self, now: Time, most: u32) -> Result<Vec<DueJob>, StateError> {
        let query = sqlx::query(
            "SELECT j.tenant, j.job, j.next,
                 (SELECT MAX(f.due) FROM fires f WHERE f.tenant = j.tenant AND f.job = j.job) AS last_fired,
                 EXISTS (SELECT 1 FROM runs r WHERE r.tenant = j.tenant AND r.ended_at IS NULL AND r.job = j.job)
                     AS under_way
             FROM job_times j
             WHERE j.next <= $1 AND (SELECT l.node FROM leases l WHERE l.tenant = j.tenant) = $3
                 AND (SELECT t.deleted_at IS NULL FROM tenants t WHERE t.id = j.tenant)
             ORDER BY j.next LIMIT $2",
        )
        .bind(now.millis())
        .bind(i64::from(most))
        .bind(&self.node);
        let rows = self.read().await?.rows(query).await?;
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
        let query = sqlx::query(
            "SELECT j.next FROM job_times j
             WHERE j.next IS NOT NULL AND EXISTS (SELECT 1 FROM leases WHERE node = $1)
                 AND (SELECT l.node FROM leases l WHERE l.tenant = j.tenant) = $1
                 AND (SELECT t.deleted_at IS NULL FROM tenants t WHERE t.id = j.tenant)
             ORDER BY j.next LIMIT 1",
        )
        .bind(&self.node);
        let row = self.read().await?.optional(query).await?;
        row.map(|row| row.time("next")).transpose()
    }

    async fn next_jobs(
        &self,
        selection: JobSelection,
        only: Option<&[TenantId]>,
        page: &Page,
    ) -> Result<Paged<NextJobTime>, StateError> {
        let mut sql = QueryBuilder::<Postgres>::new(
            "SELECT j.tenant, j.job, j.next FROM job_times j JOIN tenants t ON t.id = j.tenant
             WHERE t.deleted_at IS NULL",
        );
        if selection == JobSelection::Upcoming {
            sql.push(" AND j.next IS NOT NULL");
        }
        if let Some(only) = only {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            sql.push(" AND j.tenant = ANY(").push_bind(only).push(")");
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
        let rows = self.read().await?.rows(sql.build()).await?;
        page_next_jobs(&rows, page)
    }

    async fn job_times(&self, tenant: &TenantId) -> Result<Vec<JobDueTime>, StateError> {
        let query = sqlx::query(
            "SELECT job, next, schedule_hash FROM job_times WHERE tenant = $1 ORDER BY job",
        )
        .bind(tenant.as_str());
        let rows = self.read().await?.rows(query).await?;
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
        let mut write = self.begin_change().await?;
        self.fence(&mut write, tenant).await?;
        let jobs: Vec<String> = times.iter().map(|time| time.job.to_string()).collect();
        let delete = sqlx::query("DELETE FROM job_times WHERE tenant = $1 AND job <> ALL($2)")
            .bind(tenant.as_str())
            .bind(jobs);
        write.execute(delete).await?;
        for time in times {
            upsert_job_time(&mut write, tenant, time).await?;
        }
        write.commit().await
    }

    async fn replace_job_time(
        &self,
        tenant: &TenantId,
        due: Time,
        time: &JobDueTime,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        self.fence(&mut write, tenant).await?;
        let update = sqlx::query(
            "UPDATE job_times SET next = $4, schedule_hash = $5 WHERE tenant = $1 AND job = $2 AND next = $3",
        )
        .bind(tenant.as_str())
        .bind(time.job.as_str())
        .bind(due.millis())
        .bind(time.next.map(Time::millis))
        .bind(&time.schedule_hash);
        write.execute(update).await?;
        write.commit().await
    }

    async fn job_files(&self) -> Result<Vec<(TenantId, JobFile)>, StateError> {
        let query = sqlx::query("SELECT tenant, modified, size, readable FROM job_files");
        let rows = self.read().await?.rows(query).await?;
        rows.iter()
            .map(|row| {
                let modified = row.optional_integer("modified")?;
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
        let mut write = self.begin_change().await?;
        self.fence(&mut write, tenant).await?;
        let query = match file {
            None => sqlx::query("DELETE FROM job_files WHERE tenant = $1").bind(tenant.as_str()),
            Some(file) => sqlx::query(
                "INSERT INTO job_files (tenant, modified, size, readable)
                 SELECT id, $2, $3, $4 FROM tenants WHERE id = $1
                 ON CONFLICT (tenant) DO UPDATE SET modified = excluded.modified, size = excluded.size,
                     readable = excluded.readable",
            )
            .bind(tenant.as_str())
            .bind(file.version.map(|version| version.modified))
            .bind(file.version.map(|version| to_column(version.size)))
            .bind(file.is_readable),
        };
        write.execute(query).await?;
        write.commit().await
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
        let query = sqlx::query(
            "SELECT due, fired_at, run, skipped FROM fires WHERE tenant = $1 AND job = $2 AND due < $3
             ORDER BY due DESC LIMIT $4",
        )
        .bind(tenant.as_str())
        .bind(job.as_str())
        .bind(last)
        .bind(page.fetch_limit());
        let rows = self.read().await?.rows(query).await?;
        let fires: Vec<_> = rows
            .iter()
            .map(|row| {
                Ok::<_, StateError>(Fire {
                    due: row.time("due")?,
                    fired_at: row.time("fired_at")?,
                    run: row.optional_id("run", RunId::parse)?,
                    skipped: row.optional_text("skipped")?,
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Paged::from_fetched(fires, page, |fire| {
            [fire.due.millis().to_string()]
        }))
    }

    async fn forget_fires(&self, before: Time) -> Result<u64, StateError> {
        let delete = "DELETE FROM fires WHERE ctid = ANY(ARRAY(
                SELECT ctid FROM fires WHERE due < $1 ORDER BY due LIMIT $2)) AND due < $1";
        self.delete_in_parts(delete, before.millis(), MAX_DELETED)
            .await
    }
}
