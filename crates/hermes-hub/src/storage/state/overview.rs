//! What the first page of the console shows of all tenants. Each question is bounded, however many tenants there are.

use async_trait::async_trait;

use super::{StateError, columns::ColumnReader};
use crate::{
    RunId, TenantId,
    api_types::{Condition, RunError, RunStatus, RunUsage, TenantStatus, Time},
};

/// The same words as in the index `tenants_in_trouble`, which is used only then.
macro_rules! in_trouble {
    ($find:literal) => {
        concat!(
            "(",
            $find,
            "(conditions, '\"type\":\"AgentHealthy\",\"status\":\"False\"') > 0 OR ",
            $find,
            "(conditions, '\"type\":\"LoginsValid\",\"status\":\"False\"') > 0 OR ",
            $find,
            "(conditions, '\"type\":\"PlatformsConnected\",\"status\":\"False\"') > 0 OR ",
            $find,
            "(conditions, '\"type\":\"StorageWithinQuota\",\"status\":\"False\"') > 0 OR ",
            $find,
            "(conditions, '\"reason\":\"near_quota\"') > 0)"
        )
    };
}
pub(super) use in_trouble;

/// Runs of one tenant that are looked at, where only some tenants are asked for.
pub(super) const RUNS_OF_A_TENANT: u32 = 100;
/// Tenants whose runs are looked at then.
pub(super) const TENANTS_WITH_RUNS: usize = 100;

/// A tenant with a condition that somebody should look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantWithConditions {
    pub id: TenantId,
    pub display_name: String,
    pub conditions: Vec<Condition>,
}

/// A run that has ended, without its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedRun {
    pub id: RunId,
    pub tenant: TenantId,
    pub status: RunStatus,
    pub created_at: Time,
    pub ended_at: Time,
    pub usage: Option<RunUsage>,
    pub error: Option<RunError>,
}

/// `only` names the tenants that the token covers.
#[async_trait]
pub trait OverviewStore {
    /// Tenants by state, deleted ones included.
    async fn tenant_counts(
        &self,
        only: Option<&[TenantId]>,
    ) -> Result<Vec<(TenantStatus, u64)>, StateError>;

    /// Tenants whose agent dies, whose logins or platforms do not work, or whose disk space is nearly used, by id.
    async fn tenants_with_conditions(
        &self,
        only: Option<&[TenantId]>,
        most: u32,
    ) -> Result<Vec<TenantWithConditions>, StateError>;

    /// The last runs that ended, newest first.
    async fn ended_runs(
        &self,
        only: Option<&[TenantId]>,
        since: Time,
        most: u32,
    ) -> Result<Vec<EndedRun>, StateError>;
}

pub(super) fn count_from_row(row: &impl ColumnReader) -> Result<(TenantStatus, u64), StateError> {
    Ok((
        row.word("status", TenantStatus::from_word)?,
        row.count("tenants")?,
    ))
}

pub(super) fn troubled_from_row(
    row: &impl ColumnReader,
) -> Result<TenantWithConditions, StateError> {
    Ok(TenantWithConditions {
        id: row.id("id", TenantId::parse)?,
        display_name: row.text("display_name")?,
        conditions: row.json("conditions")?,
    })
}

pub(super) fn ended_from_row(row: &impl ColumnReader) -> Result<EndedRun, StateError> {
    Ok(EndedRun {
        id: row.id("id", RunId::parse)?,
        tenant: row.id("tenant", TenantId::parse)?,
        status: row.word("status", RunStatus::from_word)?,
        created_at: row.time("created_at")?,
        ended_at: row.time("ended_at")?,
        usage: row.optional_json("usage")?,
        error: row.optional_json("error")?,
    })
}
