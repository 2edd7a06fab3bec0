//! What the first page of the console shows, in PostgreSQL.

use async_trait::async_trait;
use sqlx::{Postgres, QueryBuilder};

use super::PostgresState;
use crate::{
    TenantId,
    api_types::{TenantStatus, Time},
    storage::state::{
        EndedRun, OverviewStore, StateError, TenantWithConditions,
        overview::{
            RUNS_OF_A_TENANT, TENANTS_WITH_RUNS, count_from_row, ended_from_row, in_trouble,
            troubled_from_row,
        },
    },
};

fn texts(tenants: &[TenantId]) -> Vec<String> {
    tenants.iter().map(ToString::to_string).collect()
}

#[async_trait]
impl OverviewStore for PostgresState {
    async fn tenant_counts(
        &self,
        only: Option<&[TenantId]>,
    ) -> Result<Vec<(TenantStatus, u64)>, StateError> {
        let mut sql =
            QueryBuilder::<Postgres>::new("SELECT status, COUNT(*) AS tenants FROM tenants");
        if let Some(only) = only {
            sql.push(" WHERE id = ANY(")
                .push_bind(texts(only))
                .push(")");
        }
        sql.push(" GROUP BY status");
        let rows = self.read().await?.rows(sql.build()).await?;
        rows.iter().map(count_from_row).collect()
    }

    async fn tenants_with_conditions(
        &self,
        only: Option<&[TenantId]>,
        most: u32,
    ) -> Result<Vec<TenantWithConditions>, StateError> {
        let mut sql = QueryBuilder::<Postgres>::new(concat!(
            "SELECT id, display_name, conditions FROM tenants WHERE ",
            in_trouble!("strpos"),
            " AND deleted_at IS NULL"
        ));
        if let Some(only) = only {
            sql.push(" AND id = ANY(").push_bind(texts(only)).push(")");
        }
        sql.push(" ORDER BY id LIMIT ").push_bind(i64::from(most));
        let rows = self.read().await?.rows(sql.build()).await?;
        rows.iter().map(troubled_from_row).collect()
    }

    async fn ended_runs(
        &self,
        only: Option<&[TenantId]>,
        since: Time,
        most: u32,
    ) -> Result<Vec<EndedRun>, StateError> {
        let mut sql = QueryBuilder::<Postgres>::new(
            "SELECT id, tenant, status, created_at, ended_at, usage, error FROM ",
        );
        match only.map(|only| &only[..only.len().min(TENANTS_WITH_RUNS)]) {
            // The last ones of each tenant: nobody waits for a look at the runs of others.
            Some(only) => sql
                .push("unnest(")
                .push_bind(texts(only))
                .push("::TEXT[]) AS asked (wanted) CROSS JOIN LATERAL (SELECT * FROM runs WHERE tenant = asked.wanted ORDER BY number DESC LIMIT ")
                .push_bind(i64::from(RUNS_OF_A_TENANT))
                .push(") AS last_runs"),
            None => sql.push("runs"),
        };
        sql.push(" WHERE ended_at IS NOT NULL AND ended_at >= ")
            .push_bind(since.millis())
            .push(" ORDER BY ended_at DESC LIMIT ")
            .push_bind(i64::from(most));
        let rows = self.read().await?.rows(sql.build()).await?;
        rows.iter().map(ended_from_row).collect()
    }
}
