//! What is going on in the whole Hub, in one reply: tenants by state, what needs somebody, and the runs of the last day.
//!
//! Its cost does not grow with the number of tenants.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NoInput;
use crate::{
    Problem, RunId, TenantId,
    api_types::{Condition, ConditionStatus, RunStatus, Scope, TenantStatus, Time},
    service::call::{Call, Reply},
    storage::state::{EndedRun, NEAR_QUOTA, TenantWithConditions},
};

const MAX_TROUBLED: u32 = 50;
const MAX_RUNS: u32 = 500;
const MAX_FAILED_RUNS: usize = 20;
const WINDOW: Duration = Duration::from_hours(24);
/// The parts of the window in which runs are counted.
const STEPS: usize = 24;
const MAX_MESSAGE_CHARS: usize = 300;

/// What is going on in the Hub.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HubOverview {
    /// Tenants by state.
    pub(crate) tenants: Vec<TenantCount>,
    /// What needs somebody, of the first 50 tenants that have something.
    pub(crate) troubles: Vec<TenantAlert>,
    /// The last runs that failed within a day; absent without `runs:read`.
    pub(crate) failed_runs: Option<Vec<FailedRun>>,
    /// The runs of the last day; absent without `runs:read`.
    pub(crate) activity: Option<Activity>,
}

/// How many tenants are in a state.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct TenantCount {
    /// The state.
    pub(crate) status: TenantStatus,
    /// How many.
    pub(crate) count: u64,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TroubleKind")]
pub(crate) enum TenantAlertKind {
    /// The agent dies or does not start.
    Agent,
    /// An MCP server waits for a login.
    Login,
    /// A bot hears nothing.
    Platform,
    /// The disk space is used, or nearly.
    Quota,
}

/// Something of a tenant that needs somebody.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TenantTrouble")]
pub(crate) struct TenantAlert {
    /// What it is.
    pub(crate) kind: TenantAlertKind,
    /// The tenant.
    pub(crate) tenant_id: TenantId,
    /// Its display name.
    pub(crate) display_name: String,
    /// What is wrong, and what helps.
    pub(crate) message: String,
    /// Since when.
    pub(crate) since: Time,
}

/// A run that failed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FailedRun {
    /// The run.
    pub(crate) run_id: RunId,
    /// Its tenant.
    pub(crate) tenant_id: TenantId,
    /// Why it failed.
    pub(crate) message: String,
    /// When.
    pub(crate) ended_at: Time,
}

/// Runs over time. If there are many, the window is as long as the last 500 reach.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Activity {
    /// The begin of the window.
    pub(crate) since: Time,
    /// Its parts, oldest first.
    pub(crate) steps: Vec<ActivityStep>,
}

/// The runs that ended in one part of the window.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ActivityStep {
    /// When it begins, in milliseconds since 1970.
    pub(crate) at: i64,
    /// Runs that ended.
    pub(crate) runs: u64,
    /// Those that failed.
    pub(crate) failed: u64,
    /// Tokens that they used.
    pub(crate) tokens: u64,
    /// How long the middle one took, from request to end.
    pub(crate) median_millis: Option<u64>,
}

pub(crate) async fn get(call: Call, _: NoInput) -> Result<Reply, Problem> {
    let state = call.hub.state();
    let only = call.principal().visible_tenants();
    let only = only.as_deref();
    let counts = state.tenant_counts(only).await?;
    let troubled = state.tenants_with_conditions(only, MAX_TROUBLED).await?;
    let now = Time::now();
    let mut reply = HubOverview {
        tenants: counts
            .into_iter()
            .map(|(status, count)| TenantCount { status, count })
            .collect(),
        troubles: troubled.iter().flat_map(alerts_of).collect(),
        failed_runs: None,
        activity: None,
    };
    if call.principal().scopes.contains(Scope::RunsRead) {
        let runs = state.ended_runs(only, now.before(WINDOW), MAX_RUNS).await?;
        reply.failed_runs = Some(failed_runs(&runs));
        reply.activity = Some(count_activity(&runs, now, MAX_RUNS as usize));
    }
    Reply::json(&reply)
}

fn alerts_of(tenant: &TenantWithConditions) -> Vec<TenantAlert> {
    let found = tenant.conditions.iter().filter_map(|condition| {
        Some(TenantAlert {
            kind: trouble_kind(condition)?,
            tenant_id: tenant.id.clone(),
            display_name: tenant.display_name.clone(),
            message: cut(&condition.message),
            since: condition.last_transition_time,
        })
    });
    found.collect()
}

fn trouble_kind(condition: &Condition) -> Option<TenantAlertKind> {
    let is_bad = condition.status == ConditionStatus::False;
    match condition.kind.as_str() {
        "AgentHealthy" if is_bad => Some(TenantAlertKind::Agent),
        "LoginsValid" if is_bad => Some(TenantAlertKind::Login),
        "PlatformsConnected" if is_bad => Some(TenantAlertKind::Platform),
        "StorageWithinQuota" if is_bad || condition.reason == NEAR_QUOTA => {
            Some(TenantAlertKind::Quota)
        }
        _ => None,
    }
}

fn failed_runs(runs: &[EndedRun]) -> Vec<FailedRun> {
    let failed = runs.iter().filter(|run| run.status == RunStatus::Failed);
    let shown = failed.take(MAX_FAILED_RUNS).map(|run| FailedRun {
        run_id: run.id.clone(),
        tenant_id: run.tenant.clone(),
        message: run
            .error
            .as_ref()
            .map_or_else(String::new, |error| cut(&error.message)),
        ended_at: run.ended_at,
    });
    shown.collect()
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_MESSAGE_CHARS).collect()
}

/// Runs come newest first. `most` of them mean that there were more.
fn count_activity(runs: &[EndedRun], now: Time, most: usize) -> Activity {
    let day = now.before(WINDOW).millis();
    let oldest = runs.last().map_or(day, |run| run.ended_at.millis());
    let since = if runs.len() < most { day } else { oldest };
    let parts = i64::try_from(STEPS).unwrap_or(i64::MAX);
    let length = ((now.millis() - since) / parts).max(1);
    let mut steps: Vec<(ActivityStep, Vec<u64>)> = (0..parts)
        .map(|part| {
            let at = since + part * length;
            let step = ActivityStep {
                at,
                ..ActivityStep::default()
            };
            (step, Vec::new())
        })
        .collect();
    for run in runs {
        let part = (run.ended_at.millis() - since) / length;
        let part = usize::try_from(part).unwrap_or(0).min(STEPS - 1);
        let (step, took) = &mut steps[part];
        step.runs += 1;
        step.failed += u64::from(run.status == RunStatus::Failed);
        step.tokens += run.usage.map_or(0, |usage| usage.total_tokens);
        let millis = run.ended_at.millis() - run.created_at.millis();
        took.push(u64::try_from(millis).unwrap_or(0));
    }
    let steps = steps.into_iter().map(|(mut step, mut took)| {
        took.sort_unstable();
        step.median_millis = took.get(took.len() / 2).copied();
        step
    });
    Activity {
        since: Time::from_millis(since),
        steps: steps.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_types::{RunError, RunUsage};

    const HOUR: i64 = 60 * 60 * 1000;

    fn ended(at: i64, took: i64, status: RunStatus) -> EndedRun {
        EndedRun {
            id: RunId::random().unwrap(),
            tenant: TenantId::parse("acme").unwrap(),
            status,
            created_at: Time::from_millis(at - took),
            ended_at: Time::from_millis(at),
            usage: Some(RunUsage {
                total_tokens: 10,
                ..RunUsage::default()
            }),
            error: Some(RunError {
                code: "x".into(),
                message: "long ".repeat(1000),
            }),
        }
    }

    #[test]
    fn runs_are_counted_in_the_hour_in_which_they_ended() {
        let now = Time::from_millis(100 * HOUR);
        let runs = [
            ended(100 * HOUR - 1, 3000, RunStatus::Failed),
            ended(100 * HOUR - 2, 1000, RunStatus::Completed),
            ended(100 * HOUR - 3, 2000, RunStatus::Completed),
            ended(77 * HOUR - 1, 500, RunStatus::Cancelled),
        ];
        let activity = count_activity(&runs, now, 1000);
        assert_eq!(activity.since.millis(), 76 * HOUR);
        assert_eq!(activity.steps.len(), STEPS);
        let last = &activity.steps[23];
        assert_eq!((last.runs, last.failed, last.tokens), (3, 1, 30));
        assert_eq!(last.median_millis, Some(2000));
        assert_eq!(activity.steps[0].runs, 1);
        assert_eq!(activity.steps[1], step_at(77 * HOUR));
    }

    fn step_at(at: i64) -> ActivityStep {
        ActivityStep {
            at,
            ..ActivityStep::default()
        }
    }

    #[test]
    fn the_window_is_as_long_as_the_runs_reach_where_there_are_many() {
        let now = Time::from_millis(100 * HOUR);
        let runs = [
            ended(100 * HOUR, 1, RunStatus::Completed),
            ended(99 * HOUR, 1, RunStatus::Completed),
        ];
        let activity = count_activity(&runs, now, 2);
        assert_eq!(activity.since.millis(), 99 * HOUR);
        let counted: u64 = activity.steps.iter().map(|step| step.runs).sum();
        assert_eq!(counted, 2, "none is lost at the edges");
    }

    #[test]
    fn a_failed_run_is_shown_with_the_begin_of_its_message() {
        let runs = [
            ended(1, 1, RunStatus::Completed),
            ended(1, 1, RunStatus::Failed),
        ];
        let failed = failed_runs(&runs);
        assert_eq!(failed.len(), 1);
        assert_eq!(failed[0].message.len(), MAX_MESSAGE_CHARS);
    }
}
