//! A run with what it was asked and what it cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    JobId, Problem,
    api_types::{Run, Time},
    service::{
        call::Call,
        sessions::{redact_value, tenant_redactor},
        usage::price_run,
    },
    storage::state::RunRecord,
    tenants::runs::RunRequest,
};

/// A run with what it was asked.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunDetails {
    #[serde(flatten)]
    pub(crate) run: Run,
    /// What was asked, as the caller wrote it, without secrets. Absent for a job.
    pub(crate) input: Option<Value>,
    /// What the caller added to the system prompt.
    pub(crate) instructions: Option<String>,
    /// Earlier messages that the caller sent along.
    pub(crate) conversation_history: Option<Vec<Value>>,
    /// The session that it was to continue.
    pub(crate) session_id: Option<String>,
    /// The job whose run it is.
    #[schemars(with = "Option<String>")]
    pub(crate) job_id: Option<JobId>,
    /// The time limit in seconds.
    pub(crate) timeout_seconds: Option<u64>,
    /// When the agent began with it.
    pub(crate) started_at: Option<Time>,
    /// What its tokens cost, by `usage.prices` in hub.yaml; `null` if the model has no price there.
    pub(crate) cost: Option<f64>,
}

impl RunDetails {
    pub(super) async fn read(call: &Call, record: RunRecord) -> Result<Self, Problem> {
        let request = match &record.job {
            Some(_) => None,
            None => Some(asked(call, record.request).await?),
        };
        let cost = price_run(&record.run, &call.hub.settings().usage_prices);
        let (input, request) = match request {
            Some(mut request) => (Some(request.input.take()), request),
            None => (None, RunRequest::default()),
        };
        Ok(Self {
            input,
            instructions: request.instructions,
            conversation_history: request.conversation_history,
            session_id: request.session_id,
            job_id: record.job,
            timeout_seconds: record.timeout_seconds,
            started_at: record.started_at,
            cost,
            run: record.run,
        })
    }
}

/// What the caller sent, without secrets of the tenant.
async fn asked(call: &Call, mut stored: Value) -> Result<RunRequest, Problem> {
    redact_value(&tenant_redactor(call).await?, &mut stored);
    RunRequest::from_stored(stored).map_err(|error| Problem::internal(&error))
}
