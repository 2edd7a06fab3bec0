//! Writing updates of a run.

use serde_json::Value;
use sqlx::SqliteConnection;

use super::super::to_column;
use crate::{
    ApprovalId,
    api_types::{StoredEvent, Time, ids::AgentRunId},
    storage::state::{NewApproval, NewEvent, RunRecord, StateError},
};

/// Appends events, except those of the agent that are already stored.
pub(in super::super) async fn add_events(
    write: &mut SqliteConnection,
    number: i64,
    record: &mut RunRecord,
    events: Vec<NewEvent>,
) -> Result<Vec<StoredEvent>, StateError> {
    let time = Time::now();
    let mut added = Vec::with_capacity(events.len());
    for NewEvent {
        event,
        agent_sequence,
    } in events
    {
        if let Some(sequence) = agent_sequence {
            if sequence <= record.agent_sequence {
                continue;
            }
            record.agent_sequence = sequence;
        }
        let (name, body) = (event.name(), event.hub_members());
        record.run.last_event_id += 1;
        sqlx::query(
            "INSERT INTO run_events (run, id, event, body, time) VALUES (?1, ?2, ?3, ?4, ?5)",
        )
        .bind(number)
        .bind(to_column(record.run.last_event_id))
        .bind(name)
        .bind(serde_json::to_string(&body)?)
        .bind(time.millis())
        .execute(&mut *write)
        .await?;
        added.push(StoredEvent {
            id: record.run.last_event_id,
            event: name.to_owned(),
            run_id: record.run.run_id.clone(),
            time,
            body,
        });
    }
    Ok(added)
}

pub(in super::super) async fn store_run(
    write: &mut SqliteConnection,
    number: i64,
    record: &mut RunRecord,
) -> Result<(), StateError> {
    let json = |value: Option<Value>| value.map(|value| value.to_string());
    let run = &mut record.run;
    run.updated_at = Time::now();
    let ended_at = run.status.is_final().then_some(run.updated_at.millis());
    sqlx::query(
        "UPDATE runs SET status = ?2, output = ?3, usage = ?4, error = ?5, called_tool = ?6, agent_run = ?7,
             agent_sequence = ?8, last_event = ?9, updated_at = ?10, ended_at = ?11, attempt = ?12, node = ?13,
             started_at = ?14
         WHERE number = ?1",
    )
    .bind(number)
    .bind(run.status.as_str())
    .bind(&run.output)
    .bind(json(run.usage.map(serde_json::to_value).transpose()?))
    .bind(json(run.error.as_ref().map(serde_json::to_value).transpose()?))
    .bind(record.called_tool)
    .bind(record.agent_run.as_ref().map(|AgentRunId(name)| name))
    .bind(to_column(record.agent_sequence))
    .bind(to_column(run.last_event_id))
    .bind(run.updated_at.millis())
    .bind(ended_at)
    .bind(run.attempt)
    .bind(&record.node)
    .bind(record.started_at.map(Time::millis))
    .execute(&mut *write)
    .await?;
    if ended_at.is_some() {
        void_approvals(write, number).await?;
    }
    Ok(())
}

/// Closes the approvals of a run that has ended.
async fn void_approvals(write: &mut SqliteConnection, number: i64) -> Result<(), StateError> {
    void_pending(write, number).await?;
    sqlx::query(
        "UPDATE approvals SET delivered = 1, answer = NULL WHERE run = ?1 AND delivered = 0",
    )
    .bind(number)
    .execute(write)
    .await?;
    Ok(())
}

/// Voids the pending approvals of a run that is retried. Decided ones are kept: the next attempt may ask the same.
pub(in super::super) async fn void_pending(
    write: &mut SqliteConnection,
    number: i64,
) -> Result<(), StateError> {
    sqlx::query(
        "UPDATE approvals SET delivered = 1, state = 'void' WHERE run = ?1 AND state = 'pending'",
    )
    .bind(number)
    .execute(write)
    .await?;
    Ok(())
}

/// Adds an approval, unless it is already stored; returns whether it is new.
pub(super) async fn add_approval(
    write: &mut SqliteConnection,
    number: i64,
    record: &RunRecord,
    approval: &NewApproval,
) -> Result<bool, StateError> {
    let form = approval.form.as_ref();
    let form = form.map(serde_json::to_string).transpose()?;
    let added = sqlx::query(
        "INSERT INTO approvals (id, run, run_id, tenant, agent_id, state, command, description, created_at,
             expires_at, choices, form)
         VALUES (?1, ?2, ?3, ?4, ?5, 'pending', ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (run, agent_id) DO NOTHING",
    )
    .bind(approval.id.as_str())
    .bind(number)
    .bind(record.run.run_id.as_str())
    .bind(record.run.tenant_id.as_str())
    .bind(&approval.agent_id)
    .bind(&approval.command)
    .bind(&approval.description)
    .bind(Time::now().millis())
    .bind(approval.expires_at.map(Time::millis))
    .bind(serde_json::to_string(&approval.choices)?)
    .bind(form)
    .execute(write)
    .await?;
    Ok(added.rows_affected() > 0)
}

/// Decides an approval like an earlier one, which is then used up.
pub(super) async fn carry_decision(
    write: &mut SqliteConnection,
    from: &ApprovalId,
    to: &ApprovalId,
) -> Result<(), StateError> {
    sqlx::query(
        "UPDATE approvals SET state = 'decided', choice = earlier.choice, decided_by = earlier.decided_by,
             decided_at = ?3, reason = earlier.reason, answer = earlier.answer
         FROM (SELECT choice, decided_by, reason, answer FROM approvals WHERE id = ?1) AS earlier WHERE id = ?2",
    )
    .bind(from.as_str())
    .bind(to.as_str())
    .bind(Time::now().millis())
    .execute(&mut *write)
    .await?;
    sqlx::query("UPDATE approvals SET delivered = 1, answer = NULL WHERE id = ?1")
        .bind(from.as_str())
        .execute(write)
        .await?;
    Ok(())
}
