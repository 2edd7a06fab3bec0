//! Events of approvals: one when it is requested, one when it is resolved.

use serde_json::{Value, json};

use super::{ingest::EventWriter, marks::LogStatus};
use crate::{clock::utc_iso, db::row};

/// An event about to be logged.
struct ApprovalEvent {
    at: f64,
    id: String,
    kind: &'static str,
    session_key: Option<String>,
    payload: Value,
}

/// Logs what has happened to approvals. Those that were there before the log began are taken as known.
pub(super) async fn log_approvals(
    log: &mut EventWriter<'_>,
    status: &LogStatus,
) -> Result<(), sqlx::Error> {
    if !status.knows_approvals {
        sqlx::query("UPDATE approvals SET logged = CASE state WHEN 'resolved' THEN 2 ELSE 1 END")
            .execute(&mut *log.connection)
            .await?;
        log.progress.knows_approvals();
        return Ok(());
    }
    if !status.has_approvals {
        return Ok(());
    }
    let mut steps = pending_events(log).await?;
    steps.sort_by(|one, other| one.at.total_cmp(&other.at));
    for step in steps {
        let source_key = format!("{}:{}", step.kind, step.id);
        log.add(
            &source_key,
            step.kind,
            step.session_key.as_deref(),
            &step.payload,
        )
        .await?;
        sqlx::query(
            "UPDATE approvals SET logged = MAX(logged, CASE ?2 WHEN 'approval_resolved' THEN 2 ELSE 1 END) \
             WHERE id = ?1",
        )
        .bind(&step.id)
        .bind(step.kind)
        .execute(&mut *log.connection)
        .await?;
        log.mark_changed();
    }
    Ok(())
}

async fn pending_events(log: &mut EventWriter<'_>) -> Result<Vec<ApprovalEvent>, sqlx::Error> {
    let rows = sqlx::query(
        "SELECT id, kind, session_key, command, description, created_at, expires_at, state, outcome, resolved_at, \
         logged FROM approvals WHERE logged < 2 AND (logged = 0 OR state = 'resolved') ORDER BY created_at, id",
    )
    .fetch_all(&mut *log.connection)
    .await?;
    let mut steps = Vec::new();
    for found in &rows {
        let id = row::required_text(found, "id")?;
        let session_key = row::text(found, "session_key")?;
        let created_at = row::real(found, "created_at")?.unwrap_or_default();
        if row::integer(found, "logged")? == 0 {
            steps.push(ApprovalEvent {
                at: created_at,
                id: id.clone(),
                kind: "approval_requested",
                session_key: session_key.clone(),
                payload: json!({
                    "approval_id": id,
                    "kind": row::required_text(found, "kind")?,
                    "command": row::required_text(found, "command")?,
                    "description": row::required_text(found, "description")?,
                    "created_at": utc_iso(created_at),
                    "expires_at": row::real(found, "expires_at")?.map(utc_iso),
                }),
            });
        }
        if row::required_text(found, "state")? == "resolved" {
            let outcome = row::required_text(found, "outcome")?;
            steps.push(ApprovalEvent {
                // Never before it was asked, whatever the clocks say.
                at: row::real(found, "resolved_at")?
                    .unwrap_or_default()
                    .max(created_at),
                session_key,
                kind: "approval_resolved",
                payload: json!({"approval_id": id, "decision": decision_word(&outcome)}),
                id,
            });
        }
    }
    Ok(steps)
}

/// An outcome in the words of those who answer.
fn decision_word(outcome: &str) -> &str {
    match outcome {
        "once" => "allow-once",
        "session" => "allow-session",
        "always" => "allow-always",
        other => other,
    }
}
