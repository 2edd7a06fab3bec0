//! What the first page of the console shows, in SQLite.

use async_trait::async_trait;
use sqlx::{QueryBuilder, Sqlite};

use super::{SqliteState, row::json_list};
use crate::{
    TenantId,
    api_types::{TenantStatus, Time},
    storage::state::{
        EndedRun, OverviewStore, StateError, TroubledTenant,
        overview::{
            RUNS_OF_A_TENANT, TENANTS_WITH_RUNS, count_from_row, ended_from_row, in_trouble,
            troubled_from_row,
        },
    },
};

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

    async fn troubled_tenants(
        &self,
        only: Option<&[TenantId]>,
        most: u32,
    ) -> Result<Vec<TroubledTenant>, StateError> {
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
        let mut sql = QueryBuilder::<Sqlite>::new(
            "SELECT runs.id AS id, tenant, status, created_at, ended_at, usage, error FROM ",
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
            .push_bind(most);
        let rows = sql.build().fetch_all(self.readers()).await?;
        rows.iter().map(ended_from_row).collect()
    }
}
