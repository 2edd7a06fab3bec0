//! One attempt to follow a run's events, until the run ends or the stream is disconnected.

use std::time::Duration;

use futures::{FutureExt, StreamExt, stream::BoxStream};
use hermes_config::Redactor;
use hermes_protocol::{RunEvent, TokenUsage};
use tokio::time::Instant;

use super::{
    cancelled_event,
    decisions::{PendingApproval, ReportedApproval, new_approval},
    request::run_input,
};
use crate::{
    api_types::{RunError, RunStatus, RunUsage, ids::AgentRunId},
    storage::{
        checkpoints::HOME_TOO_LARGE,
        state::{NewEvent, RunChange, RunUpdate, StateError},
    },
    tenants::{
        agents::AgentSpec,
        runs::{
            event_writer::{EventWriter, TextBuffer},
            execute::{ActiveRun, SavedHome},
        },
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

#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are events, and each is used up at once"
)]
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
            text: TextBuffer::default(),
            approval_timeout: Duration::from_secs(approval_timeout.get()),
        };
        let deadline = Instant::now() + self.time_left(spec).await;
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
                // The journal of a restored home may be older than what is stored, so that the end which its agent wrote
                // is not told again.
                Some(AttemptStep::Event(None))
                    if self.is_of_lost_node() && self.empty_attempts > 0 =>
                {
                    self.flush(&mut writer).await?;
                    return Ok(AttemptEnd::Interrupted);
                }
                Some(AttemptStep::Event(None)) => {
                    return self
                        .handle_disconnect(&mut writer, "the event stream ended")
                        .await;
                }
                Some(AttemptStep::Event(Some(Err(error @ RuntimeError::UnreadableEvent(_))))) => {
                    return self
                        .handle_unreadable_event(&mut writer, &run, &error)
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
            () = sleep_until(writer.text.deadline()) => Some(AttemptStep::Flush),
            () = self.handle.stop.cancelled(), if !is_told => Some(AttemptStep::Stop),
            () = tokio::time::sleep_until(deadline), if !is_told => Some(AttemptStep::TimedOut),
            () = sleep_until(told_to_stop) => Some(AttemptStep::StopTimedOut),
            () = self.handle.decision_made.notified(), if is_waiting => Some(AttemptStep::Decided),
            () = tokio::time::sleep(self.time_until_poll()), if is_waiting => Some(AttemptStep::Decided),
            () = self.handle.leave.cancelled() => None,
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
        let input = match run_input(&self.record) {
            Ok(input) => input,
            Err(error) => {
                let message = format!("the stored request of the run cannot be read: {error}");
                self.fail("internal", message).await?;
                return Ok(Err(AttemptEnd::Finished));
            }
        };
        let runtime = self.runs.agents.runtime();
        let attempt = self.record.run.attempt;
        let started = runtime.run(&self.tenant, &self.id, attempt, &input).await;
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
            Err(RuntimeError::Unsupported(message) | RuntimeError::UnreadableEvent(message)) => {
                ("unimplemented", message)
            }
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
        for mut event in batch {
            if writer.text.add(&event) {
                continue;
            }
            update.events.extend(writer.take_text());
            writer.redact_event(&mut event.event);
            end = self
                .ingest_event(
                    &mut update,
                    event.sequence,
                    event.event,
                    writer.approval_timeout,
                )
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
        if matches!(end, Some(AttemptEnd::Finished))
            && let SavedHome::TooLarge(message) = self.save_home().await?
        {
            fail_unsaved(&mut update, message);
        }
        let has_change = update.change.status.is_some() || update.change.usage.is_some();
        if !update.events.is_empty() || has_change {
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
        sequence: u64,
        mut event: RunEvent,
        approval_timeout: Duration,
    ) -> Result<Option<AttemptEnd>, StateError> {
        let change = &mut update.change;
        match &mut event {
            RunEvent::ToolStarted { .. } => {
                self.started_calls += 1;
                change.called_tool = Some(true);
            }
            RunEvent::ToolCompleted { .. } => self.ended_calls += 1,
            RunEvent::ApprovalRequest {
                approval_id,
                command,
                description,
                choices,
                form,
            } => {
                let told = ReportedApproval {
                    agent_id: approval_id,
                    command,
                    description,
                    choices,
                    form: form.as_ref(),
                };
                let mut asked = new_approval(&told, approval_timeout)?;
                form.clone_from(&asked.form);
                asked.carried = self.carry_decision(&asked);
                *approval_id = asked.id.to_string();
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
            RunEvent::ApprovalResponded {
                approval_id,
                choice,
                outcome: _,
            } => {
                self.close_approval(approval_id, *choice).await?;
                if self.pending_approvals.is_empty() {
                    change.status = Some(RunStatus::Running);
                }
                if self.started_calls > 0 {
                    change.called_tool = Some(true);
                }
            }
            RunEvent::Completed {
                output,
                usage,
                model,
                ..
            } => {
                change.status = Some(RunStatus::Completed);
                change.model.clone_from(model);
                change.output = Some(output.clone());
                change.usage = self.add_usage(*usage);
            }
            RunEvent::Failed {
                error,
                usage,
                model,
                ..
            } => {
                change.usage = self.add_usage(*usage);
                change.model.clone_from(model);
                let is_asked = self.handle.stop.is_cancelled() || self.has_timed_out;
                if error.code == "interrupted" && !is_asked {
                    return Ok(Some(AttemptEnd::Interrupted));
                }
                let (error, usage, model) = (error.clone(), *usage, model.take());
                let end = self.record_end(change, Some(error.into()));
                event = end.after_using(usage, model);
            }
            RunEvent::Cancelled { usage, model, .. } => {
                change.usage = self.add_usage(*usage);
                change.model.clone_from(model);
                let (usage, model) = (*usage, model.take());
                event = self.record_end(change, None).after_using(usage, model);
            }
            RunEvent::Started { .. }
            | RunEvent::Requeued { .. }
            | RunEvent::MessageDelta { .. }
            | RunEvent::ReasoningAvailable { .. } => {}
        }
        let end = event.is_final().then_some(AttemptEnd::Finished);
        update.events.push(NewEvent {
            event,
            agent_sequence: Some(sequence),
        });
        Ok(end)
    }

    /// What the run has used, together with attempts that were cut off before.
    fn add_usage(&self, usage: Option<TokenUsage>) -> Option<RunUsage> {
        let usage = RunUsage::from(usage?);
        Some(match self.record.run.usage {
            Some(before) => before + usage,
            None => usage,
        })
    }

    /// The final event of a run without output: it depends on who stopped it.
    fn record_end(&self, change: &mut RunChange, error: Option<RunError>) -> RunEvent {
        let error = if self.has_timed_out {
            Some(RunError {
                code: "timeout".into(),
                message: TIMEOUT_MESSAGE.into(),
            })
        } else {
            error.filter(|_| !self.handle.stop.is_cancelled())
        };
        let Some(error) = error else {
            change.status = Some(RunStatus::Cancelled);
            change.error = self.handle.cause.get().cloned();
            return cancelled_event(change.error.clone());
        };
        change.status = Some(RunStatus::Failed);
        change.error = Some(error.clone());
        RunEvent::Failed {
            reason: Some(error.code.clone()),
            error: error.into(),
            usage: None,
            model: None,
        }
    }

    /// An event of the agent cannot be read. To skip it could lose a question, a tool call that must not be repeated, or
    /// the end of the run; to read on later would meet it again. So the run ends: what came before is stored, the agent's
    /// own journal keeps the rest, and the reason names the event.
    async fn handle_unreadable_event(
        &mut self,
        writer: &mut EventWriter,
        run: &AgentRunId,
        error: &RuntimeError,
    ) -> Result<AttemptEnd, StateError> {
        if let Some(text) = writer.take_text() {
            let update = RunUpdate {
                events: vec![text],
                ..RunUpdate::default()
            };
            self.store(update).await?;
        }
        let reason = writer.redact_text(&error.to_string());
        tracing::warn!(run = %self.id, tenant = %self.tenant, %reason, "run failed: unreadable event");
        let runtime = self.runs.agents.runtime();
        if let Err(error) = runtime.stop_run(&self.tenant, run).await {
            tracing::debug!(run = %self.id, %error, "failed to stop a run");
        }
        if self.handle.stop.is_cancelled() && !self.has_timed_out {
            self.cancel().await?;
        } else {
            self.fail("unreadable_event", reason).await?;
        }
        Ok(AttemptEnd::Finished)
    }
}

const TIMEOUT_MESSAGE: &str = "the run exceeded its time limit";

/// A run is not completed if what it has changed in its home cannot be saved.
fn fail_unsaved(update: &mut RunUpdate, message: String) {
    if update.change.status != Some(RunStatus::Completed) {
        return;
    }
    let error = RunError {
        code: HOME_TOO_LARGE.into(),
        message,
    };
    update.change.status = Some(RunStatus::Failed);
    update.change.error = Some(error.clone());
    update.change.output = None;
    if let Some(last) = update.events.last_mut() {
        let (tokens, by) = match &last.event {
            RunEvent::Completed { usage, model, .. } => (*usage, model.clone()),
            _ => (None, None),
        };
        let failed = RunEvent::Failed {
            reason: Some(error.code.clone()),
            error: error.into(),
            usage: None,
            model: None,
        };
        last.event = failed.after_using(tokens, by);
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
