//! Runs from their rows, and which changes their status allows.

use hermes_protocol::RunEvent;

use super::super::{NewEvent, RunChange, RunRecord, StateError, columns::ColumnReader};
use crate::{
    JobId, RunId, TenantId,
    api_types::{Run, RunStatus, RunTrigger, ids::AgentRunId},
};

pub(in super::super) fn run_from_row(row: &impl ColumnReader) -> Result<Run, StateError> {
    Ok(Run {
        run_id: row.id("id", RunId::parse)?,
        tenant_id: row.id("tenant", TenantId::parse)?,
        status: row.word("status", RunStatus::from_word)?,
        trigger: row.word("cause", RunTrigger::from_word)?,
        attempt: u32::try_from(row.count("attempt")?).map_err(StateError::broken)?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
        last_event_id: row.count("last_event")?,
        output: row.optional_text("output")?,
        usage: row.optional_json("usage")?,
        model: row.optional_text("model")?,
        error: row.optional_json("error")?,
        metadata: row.json("metadata")?,
    })
}

pub(in super::super) fn record_from_row(row: &impl ColumnReader) -> Result<RunRecord, StateError> {
    Ok(RunRecord {
        run: run_from_row(row)?,
        request: row.json("request")?,
        job: row.optional_id("job", JobId::parse)?,
        timeout_seconds: row.optional_count("timeout_seconds")?,
        retry_interrupted: row.flag("retry_interrupted")?,
        called_tool: row.flag("called_tool")?,
        agent_run: row.optional_text("agent_run")?.map(AgentRunId),
        agent_sequence: row.count("agent_sequence")?,
        node: row.optional_text("node")?,
        started_at: row.optional_time("started_at")?,
    })
}

/// Refuses a change from another status than expected.
pub(in super::super) fn check_status(
    record: &RunRecord,
    only_from: &[RunStatus],
) -> Result<(), StateError> {
    let status = record.run.status;
    if status.is_final() {
        return Err(StateError::Conflict {
            reason: "run_ended",
            message: format!("the run has ended: {status}"),
        });
    }
    if !only_from.is_empty() && !only_from.contains(&status) {
        return Err(StateError::Conflict {
            reason: "run_status",
            message: format!("the run is {status}, which does not allow this"),
        });
    }
    Ok(())
}

pub(in super::super) fn apply_change(record: &mut RunRecord, change: RunChange) {
    if let Some(status) = change.status {
        record.run.status = status;
    }
    record.run.output = change.output.or(record.run.output.take());
    record.run.usage = change.usage.or(record.run.usage);
    record.run.error = match record.run.status {
        // It was being stopped, but completed before.
        RunStatus::Completed => None,
        _ => change.error.or(record.run.error.take()),
    };
    record.called_tool = change.called_tool.unwrap_or(record.called_tool);
    record.agent_run = change.agent_run.or(record.agent_run.take());
}

/// Makes a run that was interrupted a queued one; returns the event that says so.
pub(in super::super) fn requeue_record(
    record: &mut RunRecord,
    reason: &str,
    message: Option<String>,
) -> Result<NewEvent, StateError> {
    if !matches!(
        record.run.status,
        RunStatus::Running | RunStatus::WaitingForApproval
    ) {
        return Err(StateError::Conflict {
            reason: "run_status",
            message: format!("the run is {}, not running", record.run.status),
        });
    }
    record.run.attempt += 1;
    record.run.status = RunStatus::Queued;
    record.called_tool = false;
    record.agent_run = None;
    record.agent_sequence = 0;
    record.node = None;
    record.started_at = None;
    Ok(NewEvent {
        event: RunEvent::Requeued {
            attempt: record.run.attempt,
            reason: reason.to_owned(),
            message,
        },
        agent_sequence: None,
    })
}
