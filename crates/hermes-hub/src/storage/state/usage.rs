//! Daily limits of tenants, and what runs used, by day, tenant and model.

use async_trait::async_trait;
use hermes_protocol::ChatRunUse;

use super::{StateError, columns::ColumnReader};
use crate::{
    RunId, TenantId,
    api_types::{LimitUse, StoredEvent, TenantLimits, UsageDay, UsageGroup},
    storage::audit::NewAuditEntry,
};

/// `None` leaves a limit unchanged, `Some(None)` removes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitChange {
    pub runs_per_day: Option<Option<u64>>,
    pub tokens_per_day: Option<Option<u64>>,
}

#[derive(Debug, Clone)]
pub struct UsageQuery {
    pub by: UsageGroup,
    pub first: UsageDay,
    /// Included.
    pub last: UsageDay,
    /// Only these tenants, which the token covers.
    pub only: Option<Vec<TenantId>>,
}

/// What runs of one group and one model used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageSum {
    /// The tenant, the model, or the number of the day.
    pub key: String,
    /// Empty where the agent did not say.
    pub model: String,
    pub runs: u64,
    pub tool_calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Those of the input that came from a cache.
    pub cached_tokens: u64,
}

#[async_trait]
pub trait UsageStore {
    /// A tenant's limits, and what counts against them today.
    async fn limits(&self, tenant: &TenantId) -> Result<LimitUse, StateError>;

    async fn set_limits(
        &self,
        tenant: &TenantId,
        change: LimitChange,
        entry: NewAuditEntry,
    ) -> Result<LimitUse, StateError>;

    /// What was used, by group and model, in the order of the groups.
    async fn run_usage(&self, query: &UsageQuery) -> Result<Vec<UsageSum>, StateError>;

    /// Tenants that have ever used something, deleted ones included, by id.
    async fn tenants_with_usage(
        &self,
        after: Option<&TenantId>,
        most: u32,
    ) -> Result<Vec<TenantId>, StateError>;

    /// Counts a run that an agent begins in a chat, once; refused above a limit.
    async fn begin_chat_run(&self, tenant: &TenantId, run: &RunId) -> Result<(), StateError>;

    /// Runs of chats that have begun and whose use is not known, oldest first.
    async fn open_chat_runs(&self, tenant: &TenantId) -> Result<Vec<RunId>, StateError>;

    /// Adds what a run of a chat used, once: one that is not open is left alone.
    async fn end_chat_run(
        &self,
        tenant: &TenantId,
        run: &RunId,
        used: &ChatRunUse,
    ) -> Result<(), StateError>;

    /// Deletes what counted against limits before this day, and runs of chats that began before it and were never ended.
    async fn forget_limit_days(&self, before: UsageDay) -> Result<u64, StateError>;
}

/// How many tools were called in these events of a run.
pub(super) fn count_tool_calls(events: &[StoredEvent]) -> u64 {
    let calls = events.iter().filter(|event| event.event == "tool.started");
    calls.count() as u64
}

/// Runs of chats that are listed at once; the others are listed when these are ended.
pub(super) const MAX_OPEN_CHAT_RUNS: u32 = 1000;

/// What usage is summed up by, as text. `tenant` is the expression for its column.
pub(super) fn key_column(by: UsageGroup, tenant: &'static str) -> &'static str {
    match by {
        UsageGroup::Tenant => tenant,
        UsageGroup::Model => "model",
        UsageGroup::Day => "CAST(day AS TEXT)",
    }
}

/// The table with the rows to add up. What all tenants used is kept by day and model; what each of them used is needed
/// only for the question which tenant it was.
pub(super) fn summed_table(query: &UsageQuery) -> &'static str {
    match (query.by, &query.only) {
        (UsageGroup::Day | UsageGroup::Model, None) => "usage_totals",
        (UsageGroup::Tenant, _) | (_, Some(_)) => "usage_days",
    }
}

pub(super) fn sum_from_row(row: &impl ColumnReader) -> Result<UsageSum, StateError> {
    Ok(UsageSum {
        key: row.text("key")?,
        model: row.text("model")?,
        runs: row.count("runs")?,
        tool_calls: row.count("tool_calls")?,
        input_tokens: row.count("input_tokens")?,
        output_tokens: row.count("output_tokens")?,
        cached_tokens: row.count("cached_tokens")?,
    })
}

pub(super) fn limits_from_row(
    row: &impl ColumnReader,
    today: UsageDay,
) -> Result<LimitUse, StateError> {
    Ok(LimitUse {
        limits: TenantLimits {
            runs_per_day: row.optional_count("runs_per_day")?,
            tokens_per_day: row.optional_count("tokens_per_day")?,
        },
        runs_today: row.count("runs")?,
        tokens_today: row.count("tokens")?,
        resets_at: today.next().start(),
    })
}
