//! `permissions_list_open` and `permissions_respond`: pending approvals of other processes.
//!
//! An answer is submitted to the waiting process over its own socket, and counts if that acts on it within five
//! seconds.

use std::time::Duration;

use hermes_agent::approval::{SubmitOutcome, SubmittedDecision, send_decision};
use hermes_config::Home;
use hermes_mcp::process;
use hermes_store::{
    SessionKey, StoreError,
    runtime::{Approval, ApprovalAnswer, ApprovalState, RuntimeStore},
    utc_iso,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::bridge::{
    Bridge,
    arguments::Arguments,
    envelope::{JsonDocument, ToolRefusal},
};

/// Recorded as answerer.
const ANSWERED_BY: &str = "mcp";
/// How long to wait for the waiting process.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The decisions and their answers.
const DECISIONS: [(&str, ApprovalAnswer); 3] = [
    ("allow-once", ApprovalAnswer::Once),
    ("allow-always", ApprovalAnswer::Always),
    ("deny", ApprovalAnswer::Deny),
];

pub(super) async fn permissions_list_open(bridge: &Bridge) -> Result<JsonDocument, ToolRefusal> {
    let open = async { bridge.databases().runtime().await?.open_approvals().await };
    let mut open = open.await.map_err(|error| approvals_unavailable(&error))?;
    open.retain(is_owner_alive);
    let approvals: Vec<Value> = open.iter().map(approval_json).collect();
    Ok(json!({"count": approvals.len(), "approvals": approvals}).into())
}

fn approval_json(approval: &Approval) -> Value {
    json!({
        "id": approval.id,
        "kind": approval.kind,
        "session_key": approval.session_key.as_ref().map(SessionKey::as_str),
        "command": approval.command,
        "description": approval.description,
        "created_at": utc_iso(approval.created_at),
        "expires_at": approval.expires_at.map(utc_iso),
        "allow_permanent": approval.allow_permanent,
    })
}

pub(super) async fn permissions_respond(
    bridge: &Bridge,
    arguments: &Arguments,
) -> Result<JsonDocument, ToolRefusal> {
    let (id, decision) = (arguments.text("id"), arguments.text("decision"));
    let Some((_, answer)) = DECISIONS.iter().find(|(word, _)| *word == decision) else {
        return Err(ToolRefusal::new(format!(
            "Invalid decision: {decision}. Must be allow-once, allow-always, or deny"
        )));
    };
    let runtime = bridge.databases().runtime().await;
    let runtime = runtime.map_err(|error| approvals_unavailable(&error))?;
    let outcome = answer_and_wait(bridge.home(), &runtime, id, *answer).await;
    match outcome.map_err(|error| approvals_unavailable(&error))? {
        RespondOutcome::Accepted => {
            Ok(json!({"resolved": true, "approval_id": id, "decision": decision}).into())
        }
        RespondOutcome::NotFound => Err(ToolRefusal::new(format!("Approval not found: {id}"))),
        RespondOutcome::AlreadyResolved => {
            Err(ToolRefusal::new(format!("Approval already resolved: {id}")))
        }
        RespondOutcome::NotPermanent => Err(ToolRefusal::new(
            "allow-always is not available for this approval",
        )),
        RespondOutcome::NeedsAnswers => Err(ToolRefusal::new(format!(
            "Approval {id} is a form, which can be filled in in its chat only. It can be denied here"
        ))),
        RespondOutcome::NotAcknowledged => {
            Err(ToolRefusal::new(format!("Approval not acknowledged: {id}")))
        }
        RespondOutcome::Refused => Err(ToolRefusal::new(format!(
            "Approval refused: {id}. This bridge was started by the agent that requests it"
        ))),
    }
}

enum RespondOutcome {
    Accepted,
    NotFound,
    AlreadyResolved,
    NotPermanent,
    NeedsAnswers,
    NotAcknowledged,
    Refused,
}

async fn answer_and_wait(
    home: &Home,
    runtime: &RuntimeStore,
    id: &str,
    answer: ApprovalAnswer,
) -> Result<RespondOutcome, StoreError> {
    let Some(approval) = runtime.approval(id).await? else {
        return Ok(RespondOutcome::NotFound);
    };
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed();
    let now = now.unwrap_or_default().as_secs_f64();
    let is_late = approval.expires_at.is_some_and(|expires| expires <= now);
    if approval.state == ApprovalState::Resolved || is_late {
        return Ok(RespondOutcome::AlreadyResolved);
    }
    if !is_owner_alive(&approval) {
        return Ok(RespondOutcome::NotAcknowledged);
    }
    if answer == ApprovalAnswer::Always && !approval.allow_permanent {
        return Ok(RespondOutcome::NotPermanent);
    }
    let given = SubmittedDecision::new(answer, ANSWERED_BY);
    let owner = u32::try_from(approval.owner_pid).unwrap_or_default();
    match send_decision(home, owner, id, &given).await {
        Ok(Some(SubmitOutcome::Accepted)) => {}
        Ok(Some(SubmitOutcome::NotWaiting)) => return Ok(RespondOutcome::AlreadyResolved),
        Ok(Some(SubmitOutcome::NotPermanent)) => return Ok(RespondOutcome::NotPermanent),
        Ok(Some(SubmitOutcome::NeedsAnswers)) => return Ok(RespondOutcome::NeedsAnswers),
        Ok(Some(SubmitOutcome::Refused)) => return Ok(RespondOutcome::Refused),
        // The owner may have got another answer and gone.
        Ok(None) => return read_end(runtime, id).await,
        Err(error) => {
            tracing::warn!(%error, "approval socket is not reachable");
            return read_end(runtime, id).await;
        }
    }
    let deadline = Instant::now() + ACKNOWLEDGE_TIMEOUT;
    while Instant::now() < deadline && is_owner_alive(&approval) {
        if let Some(response) = read_resolution(runtime, id, answer).await? {
            return Ok(response);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let response = read_resolution(runtime, id, answer).await?;
    Ok(response.unwrap_or(RespondOutcome::NotAcknowledged))
}

/// The owner's reaction to an answer, if there is one.
async fn read_resolution(
    runtime: &RuntimeStore,
    id: &str,
    answer: ApprovalAnswer,
) -> Result<Option<RespondOutcome>, StoreError> {
    Ok(match runtime.approval(id).await? {
        None => Some(RespondOutcome::NotFound),
        Some(approval) if approval.state != ApprovalState::Resolved => None,
        Some(approval) if approval.outcome.as_deref() == Some(answer.as_str()) => {
            Some(RespondOutcome::Accepted)
        }
        // Cancelled or expired meanwhile.
        Some(_) => Some(RespondOutcome::AlreadyResolved),
    })
}

/// What became of a request whose owner cannot be reached.
async fn read_end(runtime: &RuntimeStore, id: &str) -> Result<RespondOutcome, StoreError> {
    let approval = runtime.approval(id).await?;
    let is_resolved = approval.is_some_and(|approval| approval.state == ApprovalState::Resolved);
    Ok(if is_resolved {
        RespondOutcome::AlreadyResolved
    } else {
        RespondOutcome::NotAcknowledged
    })
}

/// Whether the process that asked is still running.
fn is_owner_alive(approval: &Approval) -> bool {
    !process::is_gone(approval.owner_pid, approval.owner_start)
}

fn approvals_unavailable(error: &StoreError) -> ToolRefusal {
    ToolRefusal::new(format!("Approvals unavailable: {error}"))
}
