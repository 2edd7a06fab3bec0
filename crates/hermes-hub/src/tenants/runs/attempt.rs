//! One attempt to follow a run's events, until the run ends or the stream is disconnected.

use std::time::Duration;

use futures::{FutureExt, StreamExt, stream::BoxStream};
use hermes_config::Redactor;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    decisions::{PendingApproval, new_approval},
    request::run_input,
    translate::{self, translate_event},
};
use crate::{
    api_types::{RunError, RunStatus, ids::AgentRunId},
    storage::state::{NewEvent, RunChange, RunUpdate, StateError},
    tenants::{
        agents::AgentSpec,
        runs::{coalesce::TextCoalescer, execute::ActiveRun, tenant_stop},
        runtime::{AgentEvent, RuntimeError},
    },
};

/// How long an agent may take to stop a run.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

const MAX_EVENT_BATCH: usize = 200;

pub(super) enum AttemptEnd {
    /// The run has ended and its end is stored.
    Finished,
    /// The agent no longer works on it, and it has no final event.
    Interrupted,
    /// The connection or the agent failed.
    Disconnected(String),
}

type AgentEvents = BoxStream<'static, Result<AgentEvent, RuntimeError>>;

enum AttemptStep {
    Event(Option<Result<AgentEvent, RuntimeError>>),
    Flush,
    Stop,
    TimedOut,
    StopTimedOut,
    Decided,
}

impl ActiveRun<'_> {
    /// Follows the run's events after the last stored one.
    pub(super) async fn follow_events(
        &mut self,
        spec: &AgentSpec,
    ) -> Result<AttemptEnd, StateError> {
        let run = match self.ensure_agent_run().await? {
            Ok(run) => run,
            Err(end) => return Ok(end),
        };
        let runtime = self.runs.agents.runtime();
        let after = self.record.agent_sequence;
        let mut events = match runtime.events(&self.tenant, &run, after).await {
            Ok(events) => events,
            // The agent has lost its journal.
            Err(RuntimeError::Unknown(_)) => return Ok(AttemptEnd::Interrupted),
            Err(error) => return Ok(AttemptEnd::Disconnected(error.to_string())),
        };
        let secrets = spec.launch.env.values().cloned();
        let approval_timeout = spec.launch.directives.approval_timeout_seconds;
        let mut writer = EventWriter {
            redactor: Redactor::new(secrets.chain([spec.launch.runtime_key.clone()])),
            home: spec.launch.home.display().to_string(),
            coalescer: TextCoalescer::default(),
            approval_timeout: Duration::from_secs(approval_timeout.get()),
        };
        let deadline = Instant::now() + self.time_left(spec);
        let mut told_to_stop: Option<Instant> = None;
        loop {
            match self
                .next_step(&mut events, &writer, deadline, told_to_stop)
                .await
            {
                None => {
                    return self
                        .handle_disconnect(&mut writer, "the Hub is shutting down")
                        .await;
                }
                Some(AttemptStep::Event(None)) => {
                    return self
                        .handle_disconnect(&mut writer, "the event stream ended")
                        .await;
                }
                Some(AttemptStep::Event(Some(Err(error)))) => {
                    return self
                        .handle_disconnect(&mut writer, &error.to_string())
                        .await;
                }
                Some(AttemptStep::Event(Some(Ok(first)))) => {
                    let batch = drain_ready(first, &mut events);
                    if let Some(end) = self.ingest(batch, &mut writer).await? {
                        return Ok(end);
                    }
                }
                Some(AttemptStep::Flush) => self.flush(&mut writer).await?,
                Some(step @ (AttemptStep::Stop | AttemptStep::TimedOut)) => {
                    self.has_timed_out |= matches!(step, AttemptStep::TimedOut);
                    told_to_stop = Some(Instant::now() + STOP_TIMEOUT);
                    if let Err(error) = runtime.stop_run(&self.tenant, &run).await {
                        tracing::debug!(run = %self.id, %error, "failed to stop a run");
                    }
                }
                Some(AttemptStep::StopTimedOut) => {
                    if self.has_timed_out {
                        self.fail("timeout", TIMEOUT_MESSAGE.into()).await?;
                    } else {
                        self.cancel().await?;
                    }
                    return Ok(AttemptEnd::Finished);
                }
                Some(AttemptStep::Decided) => {
                    if let Some(lost) = self.deliver_decisions(&run).await? {
                        return Ok(lost);
                    }
                }
            }
        }
    }

    /// The stream was disconnected. Received events are stored, and the next attempt continues after them.
    async fn handle_disconnect(
        &mut self,
        writer: &mut EventWriter,
        reason: &str,
    ) -> Result<AttemptEnd, StateError> {
        self.flush(writer).await?;
        Ok(AttemptEnd::Disconnected(reason.to_owned()))
    }

    /// Stores the text so far, except what may be the beginning of a secret.
    async fn flush(&mut self, writer: &mut EventWriter) -> Result<(), StateError> {
        match writer.take_safe_text() {
            Some(joined) => {
                let update = RunUpdate {
                    events: vec![joined],
                    ..RunUpdate::default()
                };
                self.store(update).await
            }
            None => Ok(()),
        }
    }

    /// Waits for the next step; `None` at shutdown.
    async fn next_step(
        &self,
        events: &mut AgentEvents,
        writer: &EventWriter,
        deadline: Instant,
        told_to_stop: Option<Instant>,
    ) -> Option<AttemptStep> {
        let is_told = told_to_stop.is_some();
        let is_waiting = !self.pending_approvals.is_empty();
        tokio::select! {
            event = events.next() => Some(AttemptStep::Event(event)),
            () = sleep_until(writer.coalescer.deadline()) => Some(AttemptStep::Flush),
            () = self.handle.stop.cancelled(), if !is_told => Some(AttemptStep::Stop),
            () = tokio::time::sleep_until(deadline), if !is_told => Some(AttemptStep::TimedOut),
            () = sleep_until(told_to_stop) => Some(AttemptStep::StopTimedOut),
            () = self.handle.decision_made.notified(), if is_waiting => Some(AttemptStep::Decided),
            () = tokio::time::sleep(self.time_until_poll()), if is_waiting => Some(AttemptStep::Decided),
            () = self.runs.closing.cancelled() => None,
        }
    }

    /// The agent's id of the run, which is started if it has none yet.
    async fn ensure_agent_run(&mut self) -> Result<Result<AgentRunId, AttemptEnd>, StateError> {
        if let Some(run) = &self.record.agent_run {
            return Ok(Ok(run.clone()));
        }
        if self.handle.stop.is_cancelled() {
            self.cancel().await?;
            return Ok(Err(AttemptEnd::Finished));
        }
        let runtime = self.runs.agents.runtime();
        let attempt = self.record.run.attempt;
        let started = runtime
            .run(&self.tenant, &self.id, attempt, &run_input(&self.record))
            .await;
        let (code, message) = match started {
            Ok(run) => {
                let change = RunChange {
                    agent_run: Some(run.clone()),
                    ..RunChange::default()
                };
                let update = RunUpdate {
                    change,
                    ..RunUpdate::default()
                };
                self.store(update).await?;
                return Ok(Ok(run));
            }
            Err(
                error @ (RuntimeError::Unreachable(_)
                | RuntimeError::StartFailed(_)
                | RuntimeError::Exited(_)),
            ) => {
                return Ok(Err(AttemptEnd::Disconnected(error.to_string())));
            }
            Err(RuntimeError::Unknown(message)) => ("not_found", message),
            Err(RuntimeError::Refused(message)) => ("refused", message),
            Err(RuntimeError::Unsupported(message)) => ("unimplemented", message),
        };
        self.fail(code, message).await?;
        Ok(Err(AttemptEnd::Finished))
    }

    /// Stores events in one transaction; returns whether the run is over.
    async fn ingest(
        &mut self,
        batch: Vec<AgentEvent>,
        writer: &mut EventWriter,
    ) -> Result<Option<AttemptEnd>, StateError> {
        self.empty_attempts = 0;
        let mut update = RunUpdate::default();
        let mut end = None;
        for event in batch {
            if writer.coalescer.add(&event) {
                continue;
            }
            let Some((name, members)) = translate_event(&event, &writer.redactor) else {
                continue;
            };
            update.events.extend(writer.take_text());
            end = self
                .ingest_event(&mut update, name, members, &event, writer)
                .await?;
            if end.is_some() {
                break;
            }
        }
        if matches!(end, Some(AttemptEnd::Interrupted)) {
            update.events.extend(writer.take_text());
        }
        let is_decided = update
            .new_approvals
            .iter()
            .any(|asked| asked.carried.is_some());
        if !update.events.is_empty() || update.change.status.is_some() {
            self.store(update).await?;
        }
        if is_decided {
            self.handle.decision_made.notify_one();
        }
        Ok(end)
    }

    async fn ingest_event(
        &mut self,
        update: &mut RunUpdate,
        name: &'static str,
        mut members: Map<String, Value>,
        event: &AgentEvent,
        writer: &EventWriter,
    ) -> Result<Option<AttemptEnd>, StateError> {
        let mut name = name;
        let mut end = None;
        let change = &mut update.change;
        match name {
            "tool.started" => {
                self.started_calls += 1;
                change.called_tool = Some(true);
            }
            "tool.completed" => self.ended_calls += 1,
            "approval.request" => {
                let mut asked = new_approval(&members, writer.approval_timeout)?;
                asked.carried = self.carry_decision(&asked);
                members.insert("approvalId".into(), json!(asked.id));
                self.pending_approvals
                    .push(PendingApproval::from_new(&asked));
                if let Some(agent) = &asked.agent_id {
                    self.approval_ids.insert(agent.clone(), asked.id.clone());
                }
                update.new_approvals.push(asked);
                change.status = Some(RunStatus::WaitingForApproval);
                // The only tool call so far is the one that waits for approval.
                if self.started_calls == 1 && self.ended_calls == 0 {
                    change.called_tool = Some(false);
                }
            }
            "approval.responded" => {
                self.close_approval(&mut members).await?;
                if self.pending_approvals.is_empty() {
                    change.status = Some(RunStatus::Running);
                }
                if self.started_calls > 0 {
                    change.called_tool = Some(true);
                }
            }
            "run.completed" => {
                change.status = Some(RunStatus::Completed);
                let output = members.get("output").and_then(Value::as_str);
                change.output = output.map(str::to_owned);
                change.usage = translate::parse_usage(&members);
                end = Some(AttemptEnd::Finished);
            }
            "run.failed" | "run.cancelled" => {
                translate::hide_home(&mut members, &writer.home);
                let error = (name == "run.failed").then(|| translate::parse_error(&members));
                let is_cut_off = error
                    .as_ref()
                    .is_some_and(|error| error.code == "interrupted");
                if is_cut_off && !self.handle.stop.is_cancelled() && !self.has_timed_out {
                    return Ok(Some(AttemptEnd::Interrupted));
                }
                name = self.record_end(change, &mut members, error);
                end = Some(AttemptEnd::Finished);
            }
            _ => {}
        }
        update.events.push(NewEvent {
            event: name.to_owned(),
            body: members,
            agent_sequence: Some(event.sequence),
        });
        Ok(end)
    }

    /// The final event of a run without output: it depends on who stopped it.
    fn record_end(
        &self,
        change: &mut RunChange,
        members: &mut Map<String, Value>,
        error: Option<RunError>,
    ) -> &'static str {
        let error = if self.has_timed_out {
            Some(RunError {
                code: "timeout".into(),
                message: TIMEOUT_MESSAGE.into(),
            })
        } else {
            error.filter(|_| !self.handle.stop.is_cancelled())
        };
        let Some(error) = error else {
            members.clear();
            change.status = Some(RunStatus::Cancelled);
            if let Some(cause) = self.handle.cause.get() {
                *members = tenant_stop::error_members(&cause.code, cause);
                change.error = Some(cause.clone());
            }
            return "run.cancelled";
        };
        members.insert("reason".into(), json!(error.code));
        members.insert("error".into(), json!(error));
        change.status = Some(RunStatus::Failed);
        change.error = Some(error);
        "run.failed"
    }
}

const TIMEOUT_MESSAGE: &str = "the run exceeded its time limit";

/// Prepares events for storage: redacts secrets and coalesces text.
struct EventWriter {
    redactor: Redactor,
    /// The home's path, which is removed from events.
    home: String,
    coalescer: TextCoalescer,
    approval_timeout: Duration,
}

impl EventWriter {
    /// The text so far as one redacted event.
    fn take_text(&mut self) -> Option<NewEvent> {
        self.coalescer.take(&self.redactor)
    }

    /// The same, except what may be the beginning of a secret.
    fn take_safe_text(&mut self) -> Option<NewEvent> {
        self.coalescer.take_safe(&self.redactor)
    }
}

/// An event and those that have already arrived after it.
fn drain_ready(first: AgentEvent, events: &mut AgentEvents) -> Vec<AgentEvent> {
    let mut batch = vec![first];
    while batch.len() < MAX_EVENT_BATCH {
        match events.next().now_or_never() {
            Some(Some(Ok(event))) => batch.push(event),
            // An error is seen again on the next poll, since an ended stream stays ended.
            _ => break,
        }
    }
    batch
}

/// Sleeps until a moment, or forever.
async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
