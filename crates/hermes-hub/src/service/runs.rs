//! Runs of a tenant's agent, and what they wait for.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use hermes_protocol::{ApprovalChoice, DecisionConflict, FormAnswer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

mod details;

pub(crate) use details::RunDetails;

use super::page_request;
use crate::{
    ApprovalId, Hub, Problem, RunId, TenantId,
    api_types::{Approval, Run, RunStatus, RunTrigger, Time, Via},
    auth::Caller,
    service::call::{Call, Reply, ReplyBody},
    storage::state::{ApprovalQuery, RunQuery, RunRecord},
    tenants::runs::{DecisionRequest, RunEventStream, RunRequest, RunStreamItem},
};

const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// A run to start.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateRun {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// A text, or messages ending with the user's turn.
    input: Value,
    /// Added to the system prompt.
    instructions: Option<String>,
    /// The session to continue.
    session_id: Option<String>,
    /// Earlier messages.
    conversation_history: Option<Vec<Value>>,
    /// Values to store with the run.
    metadata: Option<Map<String, Value>>,
    /// The time limit in seconds.
    timeout_seconds: Option<u64>,
    /// Whether to retry it if it is interrupted during a tool call.
    retry_interrupted: Option<bool>,
}

/// A filter of runs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListRuns {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// Only those in this state.
    status: Option<RunStatus>,
    /// Only those with this cause.
    trigger: Option<RunTrigger>,
    /// Only those that this model answered.
    model: Option<String>,
    /// Only those requested at this time or later.
    since: Option<Time>,
    /// Only those requested before this time.
    until: Option<Time>,
    /// How many at most, 1 to 500.
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// A filter of the runs of all tenants.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListAllRuns {
    /// Only those in this state.
    status: Option<RunStatus>,
    /// Only those with this cause.
    trigger: Option<RunTrigger>,
    /// Only those that this model answered.
    model: Option<String>,
    /// Only those requested at this time or later.
    since: Option<Time>,
    /// Only those requested before this time.
    until: Option<Time>,
    /// How many at most, 1 to 500.
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// Runs, newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunList {
    runs: Vec<Run>,
    next_cursor: Option<String>,
}

/// A run of a tenant.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunRef {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The run's id.
    run_id: RunId,
}

/// Events of a run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WatchRun {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The run's id.
    run_id: RunId,
    /// The last event that was seen.
    after: Option<u64>,
}

/// A run that is being stopped.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunStopped {
    run_id: RunId,
    status: RunStatus,
}

/// A decision on an approval of a run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecideRun {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The run's id.
    run_id: RunId,
    /// `once`, `session`, `always` or `deny`.
    choice: String,
    /// Which approval; the oldest if absent.
    approval_id: Option<ApprovalId>,
    /// Whether to decide on all pending approvals of the run.
    all: Option<bool>,
    /// The reason, which the agent sees.
    reason: Option<String>,
    /// The answers of a form, by the names of its fields; with `once`.
    content: Option<Map<String, Value>>,
    /// Whether a form is left without a decision; with `deny`.
    cancel: Option<bool>,
}

/// The decision.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ApprovalList {
    approvals: Vec<Approval>,
}

/// A page of approvals.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListApprovals {
    /// How many at most, 1 to 500.
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// Pending approvals, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalInbox {
    approvals: Vec<Approval>,
    next_cursor: Option<String>,
}

/// A decision on an approval.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RespondApproval {
    /// The approval's id.
    approval_id: ApprovalId,
    /// `once`, `session`, `always` or `deny`.
    choice: String,
    /// The reason, which the agent sees.
    reason: Option<String>,
    /// The answers of a form, by the names of its fields; with `once`.
    content: Option<Map<String, Value>>,
    /// Whether a form is left without a decision; with `deny`.
    cancel: Option<bool>,
}

pub(crate) async fn create(call: Call, input: CreateRun) -> Result<Reply, Problem> {
    let request = RunRequest {
        input: input.input,
        instructions: input.instructions,
        session_id: input.session_id,
        conversation_history: input.conversation_history,
        metadata: input.metadata.unwrap_or_default(),
        timeout_seconds: input.timeout_seconds,
        retry_interrupted: input.retry_interrupted.unwrap_or(false),
    };
    let trigger = if call.via == Via::Mcp {
        RunTrigger::Mcp
    } else {
        RunTrigger::Api
    };
    call.hub.check_quota(call.tenant()?).await?;
    let run = call
        .hub
        .runs()
        .create(call.tenant_id()?, request, trigger, call.entry.clone())
        .await?;
    Ok(Reply::json(&run)?.status(202))
}

pub(crate) async fn list(call: Call, input: ListRuns) -> Result<Reply, Problem> {
    let query = RunQuery {
        tenant: Some(call.tenant_id()?.clone()),
        status: input.status,
        trigger: input.trigger,
        model: input.model,
        since: input.since,
        until: input.until,
        ..RunQuery::default()
    };
    reply_runs(&call, &query, input.limit, input.cursor).await
}

pub(crate) async fn list_all(call: Call, input: ListAllRuns) -> Result<Reply, Problem> {
    let query = RunQuery {
        only: call.principal().visible_tenants(),
        status: input.status,
        trigger: input.trigger,
        model: input.model,
        since: input.since,
        until: input.until,
        ..RunQuery::default()
    };
    reply_runs(&call, &query, input.limit, input.cursor).await
}

async fn reply_runs(
    call: &Call,
    query: &RunQuery,
    limit: Option<u32>,
    cursor: Option<String>,
) -> Result<Reply, Problem> {
    let page = page_request(limit, cursor)?;
    let found = call.hub.state().runs(query, &page).await?;
    Reply::json(&RunList {
        runs: found.items,
        next_cursor: found.next,
    })
}

async fn find_run(call: &Call, id: &RunId) -> Result<RunRecord, Problem> {
    let found = call.hub.state().run(call.tenant_id()?, id).await?;
    found.ok_or_else(|| Problem::not_found(format!("there is no run `{id}`")))
}

pub(crate) async fn get(call: Call, input: RunRef) -> Result<Reply, Problem> {
    let record = find_run(&call, &input.run_id).await?;
    Reply::json(&RunDetails::read(&call, record).await?)
}

pub(crate) async fn stop(call: Call, input: RunRef) -> Result<Reply, Problem> {
    find_run(&call, &input.run_id).await?;
    let status = call
        .hub
        .runs()
        .stop(call.tenant_id()?, &input.run_id, call.entry.clone())
        .await?;
    Ok(Reply::json(&RunStopped {
        run_id: input.run_id,
        status,
    })?
    .status(202))
}

pub(crate) async fn watch(call: Call, input: WatchRun) -> Result<Reply, Problem> {
    find_run(&call, &input.run_id).await?;
    let after = input.after.or(call.last_event_id).unwrap_or(0);
    let events = call
        .hub
        .runs()
        .events(call.tenant_id()?, &input.run_id, after);
    let stream = event_lines(&call.hub, call.caller.clone(), events).boxed();
    Ok(Reply {
        status: 200,
        etag: None,
        body: ReplyBody::Events(stream),
    })
}

/// Events as server-sent lines, with keepalives. Ends with the run, the token or the Hub.
fn event_lines(
    hub: &Hub,
    caller: Caller,
    events: RunEventStream,
) -> impl futures::Stream<Item = Bytes> + Send + use<> {
    let ended = {
        let hub = hub.clone();
        async move {
            tokio::select! {
                () = hub.authenticator().wait_for_token_end(Some(&caller)) => {}
                () = hub.shutdown().cancelled() => {}
            }
        }
    };
    let told = stream::unfold(Some(events), |events| async move {
        let mut events = events?;
        match tokio::time::timeout(KEEPALIVE_INTERVAL, events.next()).await {
            Err(_) => Some((Bytes::from_static(b": keepalive\n\n"), Some(events))),
            Ok(Some(Ok(RunStreamItem::Event(event)))) => {
                let data = serde_json::to_string(&*event).unwrap_or_default();
                Some((
                    Bytes::from(format!("id: {}\ndata: {data}\n\n", event.id)),
                    Some(events),
                ))
            }
            Ok(Some(Ok(RunStreamItem::Gap { oldest }))) => {
                let data = json!({"event": "gap", "oldest": oldest});
                Some((Bytes::from(format!("data: {data}\n\n")), Some(events)))
            }
            Ok(Some(Err(problem))) => {
                tracing::warn!(%problem, "event stream closed: reading run events failed");
                Some((Bytes::from_static(b": stream closed\n\n"), None))
            }
            Ok(None) => Some((Bytes::from_static(b": stream closed\n\n"), None)),
        }
    });
    told.take_until(Box::pin(ended))
}

fn parse_choice(word: &str) -> Result<ApprovalChoice, Problem> {
    ApprovalChoice::parse(word).map_err(|_| {
        let message = "`choice` is `once`, `session`, `always` or `deny`";
        Problem::invalid(message).with_detail("choice", "invalid")
    })
}

fn read_answer(
    choice: ApprovalChoice,
    all: bool,
    content: Option<Map<String, Value>>,
    cancel: Option<bool>,
) -> Result<Option<FormAnswer>, Problem> {
    FormAnswer::from_decision(choice, all, content, cancel.unwrap_or(false)).map_err(|conflict| {
        let member = match conflict {
            DecisionConflict::Content => "content",
            DecisionConflict::Cancel => "cancel",
        };
        Problem::invalid(conflict.to_string()).with_detail(member, "does not go with the others")
    })
}

pub(crate) async fn decide(call: Call, input: DecideRun) -> Result<Reply, Problem> {
    find_run(&call, &input.run_id).await?;
    let choice = parse_choice(&input.choice)?;
    let all = input.all.unwrap_or(false);
    let answer = DecisionRequest {
        choice,
        approval_id: input.approval_id,
        all,
        reason: input.reason,
        answer: read_answer(choice, all, input.content, input.cancel)?,
        by: call.principal().token.to_string(),
    };
    let approvals = call
        .hub
        .runs()
        .decide(call.tenant_id()?, &input.run_id, answer, call.entry.clone())
        .await?;
    Reply::json(&ApprovalList { approvals })
}

pub(crate) async fn list_approvals(call: Call, input: ListApprovals) -> Result<Reply, Problem> {
    let query = ApprovalQuery {
        only: call.principal().visible_tenants(),
        pending: true,
        ..ApprovalQuery::default()
    };
    let found = call
        .hub
        .state()
        .approvals(&query, &page_request(input.limit, input.cursor)?)
        .await?;
    Reply::json(&ApprovalInbox {
        approvals: found.items,
        next_cursor: found.next,
    })
}

pub(crate) async fn respond_approval(call: Call, input: RespondApproval) -> Result<Reply, Problem> {
    let gone = || Problem::not_found(format!("there is no approval `{}`", input.approval_id));
    let approval = call
        .hub
        .state()
        .approval(&input.approval_id)
        .await?
        .ok_or_else(gone)?;
    if !call.principal().covers_tenant(&approval.tenant_id) {
        return Err(gone());
    }
    let choice = parse_choice(&input.choice)?;
    let answer = DecisionRequest {
        choice,
        approval_id: None,
        all: false,
        reason: input.reason,
        answer: read_answer(choice, false, input.content, input.cancel)?,
        by: call.principal().token.to_string(),
    };
    let entry = call.entry.clone().for_tenant(&approval.tenant_id);
    Reply::json(
        &call
            .hub
            .runs()
            .decide_approval(&input.approval_id, answer, entry)
            .await?,
    )
}
