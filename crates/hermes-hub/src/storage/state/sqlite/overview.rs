//! What the first page of the console shows, in SQLite.

use std::cmp::Reverse;

use async_trait::async_trait;
use serde::Deserialize;
use sqlx::{QueryBuilder, Sqlite};

use super::SqliteState;
use crate::{
    RunId, TenantId,
    api_types::{RunError, RunStatus, RunUsage, TenantStatus, Time},
    storage::state::{
        EndedRun, OverviewStore, StateError, TenantWithConditions,
        columns::json_list,
        overview::{
            RUNS_OF_A_TENANT, TENANTS_WITH_RUNS, count_from_row, in_trouble, troubled_from_row,
        },
    },
};

/// Id, tenant, status, begin, end, usage and error of a run.
#[derive(Deserialize)]
struct EndedRunColumns(
    RunId,
    TenantId,
    RunStatus,
    i64,
    i64,
    Option<RunUsage>,
    Option<RunError>,
);

impl From<EndedRunColumns> for EndedRun {
    fn from(columns: EndedRunColumns) -> Self {
        let EndedRunColumns(id, tenant, status, created_at, ended_at, usage, error) = columns;
        Self {
            id,
            tenant,
            status,
            created_at: Time::from_millis(created_at),
            ended_at: Time::from_millis(ended_at),
            usage,
            error,
        }
    }
}

#[async_trait]
impl OverviewStore for SqliteState {
    async fn tenant_counts(
        &self,
        only: Option<&[TenantId]>,
    ) -> Result<Vec<(TenantStatus, u64)>, StateError> {
        let mut sql =
            QueryBuilder::<Sqlite>::new("SELECT status, COUNT(*) AS tenants FROM tenants");
        if let Some(only) = json_list(only)? {
            sql.push(" WHERE id IN (SELECT value FROM json_each(")
                .push_bind(only)
                .push("))");
        }
        sql.push(" GROUP BY status");
        let rows = sql.build().fetch_all(self.readers()).await?;
        rows.iter().map(count_from_row).collect()
    }

    async fn tenants_with_conditions(
        &self,
        only: Option<&[TenantId]>,
        most: u32,
    ) -> Result<Vec<TenantWithConditions>, StateError> {
        let mut sql = QueryBuilder::<Sqlite>::new(concat!(
            "SELECT id, display_name, conditions FROM tenants WHERE ",
            in_trouble!("instr"),
            " AND deleted_at IS NULL"
        ));
        if let Some(only) = json_list(only)? {
            sql.push(" AND id IN (SELECT value FROM json_each(")
                .push_bind(only)
                .push("))");
        }
        sql.push(" ORDER BY id LIMIT ").push_bind(most);
        let rows = sql.build().fetch_all(self.readers()).await?;
        rows.iter().map(troubled_from_row).collect()
    }

    async fn ended_runs(
        &self,
        only: Option<&[TenantId]>,
        since: Time,
        most: u32,
    ) -> Result<Vec<EndedRun>, StateError> {
        // As one value: to pass hundreds of rows from the thread of the database takes longer than to find them.
        let mut sql = QueryBuilder::<Sqlite>::new(
            "SELECT json_group_array(json_array(id, tenant, status, created_at, ended_at, json(usage), json(error)))
             FROM (SELECT runs.id AS id, tenant, status, created_at, ended_at, usage, error FROM ",
        );
        let only = only.map(|only| &only[..only.len().min(TENANTS_WITH_RUNS)]);
        match json_list(only)? {
            // The last ones of each tenant: nobody waits for a look at the runs of others.
            Some(only) => sql
                .push("json_each(")
                .push_bind(only)
                .push(") AS asked JOIN runs ON number IN (SELECT number FROM runs WHERE tenant = asked.value ORDER BY number DESC LIMIT ")
                .push_bind(RUNS_OF_A_TENANT)
                .push(")"),
            None => sql.push("runs"),
        };
        sql.push(" WHERE ended_at IS NOT NULL AND ended_at >= ")
            .push_bind(since.millis())
            .push(" ORDER BY ended_at DESC LIMIT ")
            .push_bind(most)
            .push(")");
        let found: String = sql.build_query_scalar().fetch_one(self.readers()).await?;
        let found: Vec<EndedRunColumns> = serde_json::from_str(&found)?;
        let mut runs: Vec<EndedRun> = found.into_iter().map(EndedRun::from).collect();
        // The order of what is joined to one value is not promised.
        runs.sort_by_key(|run| Reverse(run.ended_at));
        Ok(runs)
    }
}
