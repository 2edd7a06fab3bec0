//! `permissions_list_open` and `permissions_respond`: pending approvals of other processes.
//!
//! An answer is submitted to the waiting process over its own socket, and counts if that acts on it within five
//! seconds.

use std::time::Duration;

use hermes_agent::approval::{Given, Taken, decide_elsewhere};
use hermes_config::Home;
use hermes_mcp::process;
use hermes_store::{
    SessionKey, StoreError,
    runtime::{Answer, Approval, ApprovalState, RuntimeStore},
    utc_iso,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::bridge::{
    Bridge,
    arguments::Arguments,
    envelope::{Document, Refusal},
};

/// How long to wait for the waiting process.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// The decisions and their answers.
const DECISIONS: [(&str, Answer); 3] = [
    ("allow-once", Answer::Once),
    ("allow-always", Answer::Always),
    ("deny", Answer::Deny),
];

pub(super) async fn permissions_list_open(bridge: &Bridge) -> Result<Document, Refusal> {
    let open = async { bridge.databases().runtime().await?.open_approvals().await };
    let mut open = open.await.map_err(|error| unavailable(&error))?;
    open.retain(is_owned);
    let approvals: Vec<Value> = open.iter().map(shown).collect();
    Ok(json!({"count": approvals.len(), "approvals": approvals}).into())
}

fn shown(approval: &Approval) -> Value {
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
) -> Result<Document, Refusal> {
    let (id, decision) = (arguments.text("id"), arguments.text("decision"));
    let Some((_, answer)) = DECISIONS.iter().find(|(word, _)| *word == decision) else {
        return Err(Refusal::new(format!(
            "Invalid decision: {decision}. Must be allow-once, allow-always, or deny"
        )));
    };
    let runtime = bridge.databases().runtime().await;
    let runtime = runtime.map_err(|error| unavailable(&error))?;
    let outcome = answer_and_wait(bridge.home(), &runtime, id, *answer).await;
    match outcome.map_err(|error| unavailable(&error))? {
        Response::Taken => {
            Ok(json!({"resolved": true, "approval_id": id, "decision": decision}).into())
        }
        Response::NotFound => Err(Refusal::new(format!("Approval not found: {id}"))),
        Response::TooLate => Err(Refusal::new(format!("Approval already resolved: {id}"))),
        Response::NotPermanent => Err(Refusal::new(
            "allow-always is not available for this approval",
        )),
        Response::NotTaken => Err(Refusal::new(format!("Approval not acknowledged: {id}"))),
        Response::Refused => Err(Refusal::new(format!(
            "Approval refused: {id}. This bridge was started by the agent that asks"
        ))),
    }
}

enum Response {
    Taken,
    NotFound,
    TooLate,
    NotPermanent,
    NotTaken,
    Refused,
}

async fn answer_and_wait(
    home: &Home,
    runtime: &RuntimeStore,
    id: &str,
    answer: Answer,
) -> Result<Response, StoreError> {
    let Some(approval) = runtime.approval(id).await? else {
        return Ok(Response::NotFound);
    };
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed();
    let now = now.unwrap_or_default().as_secs_f64();
    let is_late = approval.expires_at.is_some_and(|expires| expires <= now);
    if approval.state == ApprovalState::Resolved || is_late {
        return Ok(Response::TooLate);
    }
    if !is_owned(&approval) {
        return Ok(Response::NotTaken);
    }
    if answer == Answer::Always && !approval.allow_permanent {
        return Ok(Response::NotPermanent);
    }
    let given = Given {
        answer,
        by: "mcp".to_owned(),
        reason: None,
    };
    let owner = u32::try_from(approval.owner_pid).unwrap_or_default();
    match decide_elsewhere(home, owner, id, &given).await {
        Ok(Some(Taken::Accepted)) => {}
        Ok(Some(Taken::NotWaiting)) => return Ok(Response::TooLate),
        Ok(Some(Taken::NotPermanent)) => return Ok(Response::NotPermanent),
        Ok(Some(Taken::Refused)) => return Ok(Response::Refused),
        Ok(None) => return Ok(Response::NotTaken),
        Err(error) => {
            tracing::warn!(%error, "approval socket is not reachable");
            return Ok(Response::NotTaken);
        }
    }
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline && is_owned(&approval) {
        if let Some(response) = resolution(runtime, id, answer).await? {
            return Ok(response);
        }
        tokio::time::sleep(LOOK).await;
    }
    let response = resolution(runtime, id, answer).await?;
    Ok(response.unwrap_or(Response::NotTaken))
}

/// The owner's reaction to an answer, if there is one.
async fn resolution(
    runtime: &RuntimeStore,
    id: &str,
    answer: Answer,
) -> Result<Option<Response>, StoreError> {
    Ok(match runtime.approval(id).await? {
        None => Some(Response::NotFound),
        Some(approval) if approval.state != ApprovalState::Resolved => None,
        Some(approval) if approval.outcome.as_deref() == Some(answer.as_str()) => {
            Some(Response::Taken)
        }
        // Cancelled or expired meanwhile.
        Some(_) => Some(Response::TooLate),
    })
}

/// Whether the process that asked is still running.
fn is_owned(approval: &Approval) -> bool {
    !process::is_gone(approval.owner_pid, approval.owner_start)
}

fn unavailable(error: &StoreError) -> Refusal {
    Refusal::new(format!("Approvals unavailable: {error}"))
}
