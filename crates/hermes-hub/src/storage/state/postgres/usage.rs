//! Daily limits and usage in PostgreSQL.

use async_trait::async_trait;
use hermes_protocol::ChatRunUse;
use sqlx::{Postgres, QueryBuilder};

use super::{
    PostgresState, retention::MAX_DELETED, session::Sql, storable, to_column,
    write_group::GroupedWrite,
};
use crate::{
    RunId, TenantId,
    api_types::{LimitUse, Time, UsageDay},
    storage::{
        audit::NewAuditEntry,
        state::{
            LimitChange, NewHubEvent, RunRecord, StateError, UsageQuery, UsageStore, UsageSum,
            columns::ColumnReader,
            usage::{MAX_OPEN_CHAT_RUNS, key_column, limits_from_row, sum_from_row, summed_table},
        },
    },
};

/// Refuses a further run of a tenant that has reached a limit.
pub(super) async fn check_limits(
    write: &mut GroupedWrite,
    tenant: &TenantId,
) -> Result<(), StateError> {
    let today = UsageDay::of(Time::now());
    let used = limits_from_row(&write.one(select_limits(tenant, today)).await?, today)?;
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
    write: &mut GroupedWrite,
    tenant: &TenantId,
) -> Result<(), StateError> {
    add_to_day(write, tenant, 1, 0).await
}

async fn add_to_day(
    write: &mut GroupedWrite,
    tenant: &TenantId,
    runs: u64,
    tokens: u64,
) -> Result<(), StateError> {
    let add = sqlx::query(
        "INSERT INTO limit_days AS d (tenant, day, runs, tokens) VALUES ($1, $2, $3, $4)
         ON CONFLICT (tenant, day) DO UPDATE SET runs = d.runs + excluded.runs, tokens = d.tokens + excluded.tokens",
    )
    .bind(tenant.as_str())
    .bind(UsageDay::of(Time::now()).0)
    .bind(to_column(runs))
    .bind(to_column(tokens));
    write.execute(add).await.map(drop)
}

/// Adds tool calls to a run, and the model that answered, if it is known.
pub(super) async fn note_work(
    write: &mut GroupedWrite,
    number: i64,
    tool_calls: u64,
    model: Option<&str>,
) -> Result<(), StateError> {
    if tool_calls == 0 && model.is_none() {
        return Ok(());
    }
    let note = sqlx::query(
        "UPDATE runs SET tool_calls = tool_calls + $2, model = COALESCE($3, model) WHERE number = $1",
    )
    .bind(number)
    .bind(to_column(tool_calls))
    .bind(model.map(storable));
    write.execute(note).await.map(drop)
}

/// Counts a run that has ended, in the transaction of its end.
pub(super) async fn count_ended(
    write: &mut GroupedWrite,
    number: i64,
    record: &RunRecord,
) -> Result<(), StateError> {
    let usage = record.run.usage.unwrap_or_default();
    let count = sqlx::query(
        "INSERT INTO usage_days AS d
             (day, tenant, model, runs, tool_calls, input_tokens, output_tokens, cached_tokens)
         SELECT $2, tenant, COALESCE(model, ''), 1, tool_calls, $3, $4, $5 FROM runs WHERE number = $1
         ON CONFLICT (day, tenant, model) DO UPDATE SET runs = d.runs + 1,
             tool_calls = d.tool_calls + excluded.tool_calls,
             input_tokens = d.input_tokens + excluded.input_tokens,
             output_tokens = d.output_tokens + excluded.output_tokens,
             cached_tokens = d.cached_tokens + excluded.cached_tokens",
    )
    .bind(number)
    .bind(UsageDay::of(Time::now()).0)
    .bind(to_column(usage.input_tokens))
    .bind(to_column(usage.output_tokens))
    .bind(to_column(usage.cached_tokens));
    write.execute(count).await?;
    if usage.total_tokens > 0 {
        add_to_day(write, &record.run.tenant_id, 0, usage.total_tokens).await?;
    }
    Ok(())
}

fn select_limits(tenant: &TenantId, today: UsageDay) -> Sql<'_> {
    sqlx::query(
        "SELECT l.runs_per_day, l.tokens_per_day, COALESCE(d.runs, 0) AS runs, COALESCE(d.tokens, 0) AS tokens
         FROM (SELECT $1::TEXT AS tenant) AS asked LEFT JOIN tenant_limits l ON l.tenant = asked.tenant
             LEFT JOIN limit_days d ON d.tenant = asked.tenant AND d.day = $2",
    )
    .bind(tenant.as_str())
    .bind(today.0)
}

#[async_trait]
impl UsageStore for PostgresState {
    async fn limits(&self, tenant: &TenantId) -> Result<LimitUse, StateError> {
        let today = UsageDay::of(Time::now());
        let row = self.read().await?.one(select_limits(tenant, today)).await?;
        limits_from_row(&row, today)
    }

    async fn set_limits(
        &self,
        tenant: &TenantId,
        change: LimitChange,
        entry: NewAuditEntry,
    ) -> Result<LimitUse, StateError> {
        let today = UsageDay::of(Time::now());
        let mut write = self.begin_change().await?;
        let mut used = limits_from_row(&write.one(select_limits(tenant, today)).await?, today)?;
        let limits = &mut used.limits;
        limits.runs_per_day = change.runs_per_day.unwrap_or(limits.runs_per_day);
        limits.tokens_per_day = change.tokens_per_day.unwrap_or(limits.tokens_per_day);
        let store = sqlx::query(
            "INSERT INTO tenant_limits (tenant, runs_per_day, tokens_per_day, updated_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (tenant) DO UPDATE SET runs_per_day = excluded.runs_per_day,
                 tokens_per_day = excluded.tokens_per_day, updated_at = excluded.updated_at",
        )
        .bind(tenant.as_str())
        .bind(limits.runs_per_day.map(to_column))
        .bind(limits.tokens_per_day.map(to_column))
        .bind(Time::now().millis());
        write.execute(store).await?;
        self.append_effect(&mut write, entry).await?;
        let events = [NewHubEvent::limits_changed(tenant)];
        self.commit_with(write, &events).await?;
        Ok(used)
    }

    async fn run_usage(&self, query: &UsageQuery) -> Result<Vec<UsageSum>, StateError> {
        let mut sql = QueryBuilder::<Postgres>::new("SELECT ");
        sql.push(key_column(query.by, "tenant COLLATE \"C\""))
            .push(
                " AS key, model, SUM(runs)::BIGINT AS runs, SUM(tool_calls)::BIGINT AS tool_calls,
                     SUM(input_tokens)::BIGINT AS input_tokens, SUM(output_tokens)::BIGINT AS output_tokens,
                     SUM(cached_tokens)::BIGINT AS cached_tokens FROM ",
            )
            .push(summed_table(query))
            .push(" WHERE day BETWEEN ");
        sql.push_bind(query.first.0)
            .push(" AND ")
            .push_bind(query.last.0);
        if let Some(only) = &query.only {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            sql.push(" AND tenant COLLATE \"C\" = ANY(")
                .push_bind(only)
                .push(")");
        }
        sql.push(" GROUP BY 1, 2 HAVING SUM(runs) > 0 ORDER BY 1, 2");
        let rows = self.read().await?.rows(sql.build()).await?;
        rows.iter().map(sum_from_row).collect()
    }

    async fn tenants_with_usage(
        &self,
        after: Option<&TenantId>,
        most: u32,
    ) -> Result<Vec<TenantId>, StateError> {
        // From one tenant to the next, without a look at the rows of its days.
        let query = sqlx::query(
            "WITH RECURSIVE known AS (
                 (SELECT tenant FROM usage_days WHERE tenant COLLATE \"C\" > $1 ORDER BY tenant COLLATE \"C\" LIMIT 1)
                 UNION ALL
                 SELECT (SELECT u.tenant FROM usage_days u WHERE u.tenant COLLATE \"C\" > known.tenant
                         ORDER BY u.tenant COLLATE \"C\" LIMIT 1) FROM known WHERE known.tenant IS NOT NULL
             ) SELECT tenant FROM known WHERE tenant IS NOT NULL LIMIT $2",
        )
        .bind(after.map_or("", TenantId::as_str))
        .bind(i64::from(most));
        let rows = self.read().await?.rows(query).await?;
        rows.iter()
            .map(|row| row.id("tenant", TenantId::parse))
            .collect()
    }

    async fn begin_chat_run(&self, tenant: &TenantId, run: &RunId) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        let insert = sqlx::query(
            "INSERT INTO chat_runs (tenant, id, day, begun_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (tenant, id) DO NOTHING",
        )
        .bind(tenant.as_str())
        .bind(run.as_str())
        .bind(UsageDay::of(Time::now()).0)
        .bind(Time::now().millis());
        if write.execute(insert).await? == 0 {
            return Ok(());
        }
        check_limits(&mut write, tenant).await?;
        count_accepted(&mut write, tenant).await?;
        write.commit().await
    }

    async fn open_chat_runs(&self, tenant: &TenantId) -> Result<Vec<RunId>, StateError> {
        let query = sqlx::query(
            "SELECT id FROM chat_runs WHERE tenant = $1 ORDER BY begun_at, id LIMIT $2",
        )
        .bind(tenant.as_str())
        .bind(i64::from(MAX_OPEN_CHAT_RUNS));
        let rows = self.read().await?.rows(query).await?;
        rows.iter().map(|row| row.id("id", RunId::parse)).collect()
    }

    async fn end_chat_run(
        &self,
        tenant: &TenantId,
        run: &RunId,
        used: &ChatRunUse,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        let delete = sqlx::query("DELETE FROM chat_runs WHERE tenant = $1 AND id = $2")
            .bind(tenant.as_str())
            .bind(run.as_str());
        if write.execute(delete).await? == 0 {
            return Ok(());
        }
        let count = sqlx::query(
            "INSERT INTO usage_days AS d
                 (day, tenant, model, runs, tool_calls, input_tokens, output_tokens, cached_tokens)
             VALUES ($1, $2, $3, 1, $4, $5, $6, $7)
             ON CONFLICT (day, tenant, model) DO UPDATE SET runs = d.runs + 1,
                 tool_calls = d.tool_calls + excluded.tool_calls,
                 input_tokens = d.input_tokens + excluded.input_tokens,
                 output_tokens = d.output_tokens + excluded.output_tokens,
                 cached_tokens = d.cached_tokens + excluded.cached_tokens",
        )
        .bind(UsageDay::of(Time::now()).0)
        .bind(tenant.as_str())
        .bind(storable(used.model.as_deref().unwrap_or_default()))
        .bind(to_column(used.tool_calls))
        .bind(to_column(used.input_tokens))
        .bind(to_column(used.output_tokens))
        .bind(to_column(used.cached_tokens));
        write.execute(count).await?;
        if used.total_tokens > 0 {
            add_to_day(&mut write, tenant, 0, used.total_tokens).await?;
        }
        write.commit().await
    }

    async fn forget_limit_days(&self, before: UsageDay) -> Result<u64, StateError> {
        // Few are under way at a time, so there are never many.
        let lost = sqlx::query("DELETE FROM chat_runs WHERE day < $1").bind(before.0);
        let mut write = self.begin_change().await?;
        write.execute(lost).await?;
        write.commit().await?;
        let delete = "DELETE FROM limit_days WHERE ctid = ANY(ARRAY(
                SELECT ctid FROM limit_days WHERE day < $1 ORDER BY day LIMIT $2)) AND day < $1";
        self.delete_in_parts(delete, before.0, MAX_DELETED).await
    }
}
