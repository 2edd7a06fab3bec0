//! Daily limits and usage in SQLite.

use async_trait::async_trait;
use hermes_protocol::ChatRunUse;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use super::{Affected, SqliteState, commit, to_column};
use crate::{
    RunId, TenantId,
    api_types::{LimitUse, RunUsage, Time, UsageDay},
    storage::{
        audit::NewAuditEntry,
        state::{
            LimitChange, NewHubEvent, RunRecord, StateError, UsageQuery, UsageStore, UsageSum,
            columns::{ColumnReader, json_list},
            usage::{MAX_OPEN_CHAT_RUNS, key_column, limits_from_row, sum_from_row, summed_table},
        },
    },
};

/// Days deleted in one transaction.
const MAX_FORGOTTEN_DAYS: u32 = 1000;

/// Refuses a further run of a tenant that has reached a limit.
pub(super) async fn check_limits(
    connection: &mut SqliteConnection,
    tenant: &TenantId,
) -> Result<(), StateError> {
    let used = read_limits(connection, tenant).await?;
    match used.reached(0) {
        None => Ok(()),
        Some(limit) => Err(StateError::DailyLimit {
            limit,
            resets_at: used.resets_at,
        }),
    }
}

/// Counts an accepted run.
pub(super) async fn count_accepted(
    write: &mut SqliteConnection,
    tenant: &TenantId,
) -> Result<(), StateError> {
    add_to_day(write, tenant, 1, 0).await
}

async fn add_to_day(
    write: &mut SqliteConnection,
    tenant: &TenantId,
    runs: u64,
    tokens: u64,
) -> Result<(), StateError> {
    sqlx::query(
        "INSERT INTO limit_days (tenant, day, runs, tokens) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (tenant, day) DO UPDATE SET runs = runs + excluded.runs, tokens = tokens + excluded.tokens",
    )
    .bind(tenant.as_str())
    .bind(UsageDay::of(Time::now()).0)
    .bind(to_column(runs))
    .bind(to_column(tokens))
    .execute(write)
    .await?;
    Ok(())
}

/// Adds tool calls to a run, and the model that answered, if it is known.
pub(super) async fn note_work(
    write: &mut SqliteConnection,
    number: i64,
    tool_calls: u64,
    model: Option<&str>,
) -> Result<(), StateError> {
    if tool_calls == 0 && model.is_none() {
        return Ok(());
    }
    sqlx::query(
        "UPDATE runs SET tool_calls = tool_calls + ?2, model = IFNULL(?3, model) WHERE number = ?1",
    )
    .bind(number)
    .bind(to_column(tool_calls))
    .bind(model)
    .execute(write)
    .await?;
    Ok(())
}

/// Counts a run that has ended, in the transaction of its end.
pub(super) async fn count_ended(
    write: &mut SqliteConnection,
    number: i64,
    record: &RunRecord,
) -> Result<(), StateError> {
    let usage = record.run.usage.unwrap_or_default();
    let RunUsage {
        input_tokens,
        output_tokens,
        total_tokens,
        cached_tokens,
    } = usage;
    sqlx::query(
        "INSERT INTO usage_days (day, tenant, model, runs, tool_calls, input_tokens, output_tokens, cached_tokens)
         SELECT ?2, tenant, IFNULL(model, ''), 1, tool_calls, ?3, ?4, ?5 FROM runs WHERE number = ?1
         ON CONFLICT (day, tenant, model) DO UPDATE SET runs = runs + 1, tool_calls = tool_calls + excluded.tool_calls,
             input_tokens = input_tokens + excluded.input_tokens,
             output_tokens = output_tokens + excluded.output_tokens,
             cached_tokens = cached_tokens + excluded.cached_tokens",
    )
    .bind(number)
    .bind(UsageDay::of(Time::now()).0)
    .bind(to_column(input_tokens))
    .bind(to_column(output_tokens))
    .bind(to_column(cached_tokens))
    .execute(&mut *write)
    .await?;
    if total_tokens > 0 {
        add_to_day(write, &record.run.tenant_id, 0, total_tokens).await?;
    }
    Ok(())
}

async fn read_limits(
    connection: &mut SqliteConnection,
    tenant: &TenantId,
) -> Result<LimitUse, StateError> {
    let today = UsageDay::of(Time::now());
    let row = sqlx::query(
        "SELECT l.runs_per_day, l.tokens_per_day, IFNULL(d.runs, 0) AS runs, IFNULL(d.tokens, 0) AS tokens
         FROM (SELECT ?1 AS tenant) AS asked LEFT JOIN tenant_limits l ON l.tenant = asked.tenant
             LEFT JOIN limit_days d ON d.tenant = asked.tenant AND d.day = ?2",
    )
    .bind(tenant.as_str())
    .bind(today.0)
    .fetch_one(connection)
    .await?;
    limits_from_row(&row, today)
}

#[async_trait]
impl UsageStore for SqliteState {
    async fn limits(&self, tenant: &TenantId) -> Result<LimitUse, StateError> {
        let mut connection = self.readers().acquire().await?;
        read_limits(&mut connection, tenant).await
    }

    async fn set_limits(
        &self,
        tenant: &TenantId,
        change: LimitChange,
        entry: NewAuditEntry,
    ) -> Result<LimitUse, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let mut used = read_limits(&mut write, tenant).await?;
        let limits = &mut used.limits;
        limits.runs_per_day = change.runs_per_day.unwrap_or(limits.runs_per_day);
        limits.tokens_per_day = change.tokens_per_day.unwrap_or(limits.tokens_per_day);
        sqlx::query(
            "INSERT INTO tenant_limits (tenant, runs_per_day, tokens_per_day, updated_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (tenant) DO UPDATE SET runs_per_day = excluded.runs_per_day,
                 tokens_per_day = excluded.tokens_per_day, updated_at = excluded.updated_at",
        )
        .bind(tenant.as_str())
        .bind(limits.runs_per_day.map(to_column))
        .bind(limits.tokens_per_day.map(to_column))
        .bind(Time::now().millis())
        .execute(&mut *write)
        .await?;
        self.append_effect(&mut write, entry).await?;
        let events = [NewHubEvent::limits_changed(tenant)];
        self.commit_with(write, &events).await?;
        Ok(used)
    }

    async fn run_usage(&self, query: &UsageQuery) -> Result<Vec<UsageSum>, StateError> {
        let mut sql = QueryBuilder::<Sqlite>::new("SELECT ");
        sql.push(key_column(query.by, "tenant"))
            .push(
                " AS key, model, SUM(runs) AS runs, SUM(tool_calls) AS tool_calls,
                     SUM(input_tokens) AS input_tokens, SUM(output_tokens) AS output_tokens,
                     SUM(cached_tokens) AS cached_tokens FROM ",
            )
            .push(summed_table(query))
            .push(" WHERE day BETWEEN ");
        sql.push_bind(query.first.0)
            .push(" AND ")
            .push_bind(query.last.0);
        if let Some(only) = json_list(query.only.as_deref())? {
            sql.push(" AND tenant IN (SELECT value FROM json_each(")
                .push_bind(only)
                .push("))");
        }
        sql.push(" GROUP BY 1, 2 HAVING SUM(runs) > 0 ORDER BY 1, 2");
        let rows = sql.build().fetch_all(self.readers()).await?;
        rows.iter().map(sum_from_row).collect()
    }

    async fn tenants_with_usage(
        &self,
        after: Option<&TenantId>,
        most: u32,
    ) -> Result<Vec<TenantId>, StateError> {
        // From one tenant to the next, without a look at the rows of its days.
        let rows = sqlx::query(
            "WITH RECURSIVE known (tenant) AS (
                 SELECT MIN(tenant) FROM usage_days WHERE tenant > ?1
                 UNION ALL
                 SELECT (SELECT MIN(tenant) FROM usage_days WHERE tenant > known.tenant) FROM known
                 WHERE known.tenant IS NOT NULL
             ) SELECT tenant FROM known WHERE tenant IS NOT NULL LIMIT ?2",
        )
        .bind(after.map_or("", TenantId::as_str))
        .bind(most)
        .fetch_all(self.readers())
        .await?;
        rows.iter()
            .map(|row| row.id("tenant", TenantId::parse))
            .collect()
    }

    async fn begin_chat_run(&self, tenant: &TenantId, run: &RunId) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let known = sqlx::query("SELECT 1 FROM chat_runs WHERE tenant = ?1 AND id = ?2")
            .bind(tenant.as_str())
            .bind(run.as_str())
            .fetch_optional(&mut *write)
            .await?;
        if known.is_some() {
            return Ok(());
        }
        check_limits(&mut write, tenant).await?;
        sqlx::query("INSERT INTO chat_runs (tenant, id, day, begun_at) VALUES (?1, ?2, ?3, ?4)")
            .bind(tenant.as_str())
            .bind(run.as_str())
            .bind(UsageDay::of(Time::now()).0)
            .bind(Time::now().millis())
            .execute(&mut *write)
            .await?;
        count_accepted(&mut write, tenant).await?;
        commit(write).await
    }

    async fn open_chat_runs(&self, tenant: &TenantId) -> Result<Vec<RunId>, StateError> {
        let rows = sqlx::query(
            "SELECT id FROM chat_runs WHERE tenant = ?1 ORDER BY begun_at, id LIMIT ?2",
        )
        .bind(tenant.as_str())
        .bind(MAX_OPEN_CHAT_RUNS)
        .fetch_all(self.readers())
        .await?;
        rows.iter().map(|row| row.id("id", RunId::parse)).collect()
    }

    async fn end_chat_run(
        &self,
        tenant: &TenantId,
        run: &RunId,
        used: &ChatRunUse,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let ended = sqlx::query("DELETE FROM chat_runs WHERE tenant = ?1 AND id = ?2")
            .bind(tenant.as_str())
            .bind(run.as_str())
            .execute(&mut *write)
            .await?;
        if ended.rows_affected() == 0 {
            return Ok(());
        }
        sqlx::query(
            "INSERT INTO usage_days (day, tenant, model, runs, tool_calls, input_tokens, output_tokens, cached_tokens)
             VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7)
             ON CONFLICT (day, tenant, model) DO UPDATE SET runs = runs + 1,
                 tool_calls = tool_calls + excluded.tool_calls,
                 input_tokens = input_tokens + excluded.input_tokens,
                 output_tokens = output_tokens + excluded.output_tokens,
                 cached_tokens = cached_tokens + excluded.cached_tokens",
        )
        .bind(UsageDay::of(Time::now()).0)
        .bind(tenant.as_str())
        .bind(used.model.as_deref().unwrap_or_default())
        .bind(to_column(used.tool_calls))
        .bind(to_column(used.input_tokens))
        .bind(to_column(used.output_tokens))
        .bind(to_column(used.cached_tokens))
        .execute(&mut *write)
        .await?;
        if used.total_tokens > 0 {
            add_to_day(&mut write, tenant, 0, used.total_tokens).await?;
        }
        commit(write).await
    }

    async fn forget_limit_days(&self, before: UsageDay) -> Result<u64, StateError> {
        let mut forgotten = 0;
        let mut write = self.begin_change(Affected::NoTenant).await?;
        sqlx::query("DELETE FROM chat_runs WHERE day < ?1")
            .bind(before.0)
            .execute(&mut *write)
            .await?;
        commit(write).await?;
        loop {
            let mut write = self.begin_change(Affected::NoTenant).await?;
            let some = sqlx::query(
                "DELETE FROM limit_days WHERE (tenant, day) IN
                     (SELECT tenant, day FROM limit_days WHERE day < ?1 LIMIT ?2)",
            )
            .bind(before.0)
            .bind(MAX_FORGOTTEN_DAYS)
            .execute(&mut *write)
            .await?
            .rows_affected();
            commit(write).await?;
            forgotten += some;
            if some < u64::from(MAX_FORGOTTEN_DAYS) {
                return Ok(forgotten);
            }
        }
    }
}
