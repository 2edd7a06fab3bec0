//! One attempt to follow a run's events, until the run ends or the stream is disconnected.

use std::time::Duration;

use futures::{FutureExt, StreamExt, stream::BoxStream};
use hermes_config::Redactor;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    carry_out::Work,
    decisions::{Waiting, new_approval},
    ending,
    joining::Joining,
    request::errand,
    translate::{self, translate},
};
use crate::{
    agents::Terms,
    runtime::{AgentEvent, AgentRun, RuntimeError},
    shapes::{RunError, RunStatus},
    state::{NewEvent, RunChange, RunUpdate, StateError},
};

/// How long an agent may take to stop a run.
const STOPPING: Duration = Duration::from_secs(15);

const BATCH: usize = 200;

pub(super) enum End {
    /// The run has ended and its end is stored.
    Over,
    /// The agent no longer works on it, and it has no final event.
    CutOff,
    /// The connection or the agent failed.
    Lost(String),
}

type Events = BoxStream<'static, Result<AgentEvent, RuntimeError>>;

enum Step {
    Event(Option<Result<AgentEvent, RuntimeError>>),
    Flush,
    Stop,
    Overdue,
    TooSlow,
    Decided,
}

impl Work<'_> {
    /// Follows the run's events after the last stored one.
    pub(super) async fn attempt(&mut self, terms: &Terms) -> Result<End, StateError> {
        let run = match self.agent_run().await? {
            Ok(run) => run,
            Err(end) => return Ok(end),
        };
        let runtime = self.runs.agents.runtime();
        let after = self.record.agent_sequence;
        let mut events = match runtime.events(&self.tenant, &run, after).await {
            Ok(events) => events,
            // The agent has lost its journal.
            Err(RuntimeError::Unknown(_)) => return Ok(End::CutOff),
            Err(error) => return Ok(End::Lost(error.to_string())),
        };
        let secrets = terms.launch.env.values().cloned();
        let mut telling = Telling {
            redactor: Redactor::new(secrets.chain([terms.launch.runtime_key.clone()])),
            home: terms.launch.home.display().to_string(),
            joining: Joining::default(),
            approval_timeout: Duration::from_secs(terms.launch.directives.approval_timeout_seconds),
        };
        let deadline = Instant::now() + self.time_left(terms);
        let mut told_to_stop: Option<Instant> = None;
        loop {
            match self
                .step(&mut events, &telling, deadline, told_to_stop)
                .await
            {
                None => return self.lost(&mut telling, "the Hub is shutting down").await,
                Some(Step::Event(None)) => {
                    return self.lost(&mut telling, "the event stream ended").await;
                }
                Some(Step::Event(Some(Err(error)))) => {
                    return self.lost(&mut telling, &error.to_string()).await;
                }
                Some(Step::Event(Some(Ok(first)))) => {
                    let batch = take_ready(first, &mut events);
                    if let Some(end) = self.take_in(batch, &mut telling).await? {
                        return Ok(end);
                    }
                }
                Some(Step::Flush) => self.flush(&mut telling).await?,
                Some(step @ (Step::Stop | Step::Overdue)) => {
                    self.is_overdue |= matches!(step, Step::Overdue);
                    told_to_stop = Some(Instant::now() + STOPPING);
                    if let Err(error) = runtime.stop_run(&self.tenant, &run).await {
                        tracing::debug!(run = %self.id, %error, "failed to stop a run");
                    }
                }
                Some(Step::TooSlow) => {
                    if self.is_overdue {
                        self.fail("timeout", OVERDUE.into()).await?;
                    } else {
                        self.cancel().await?;
                    }
                    return Ok(End::Over);
                }
                Some(Step::Decided) => {
                    if let Some(lost) = self.deliver_decisions(&run).await? {
                        return Ok(lost);
                    }
                }
            }
        }
    }

    /// The stream was disconnected. Received events are stored, and the next attempt continues after them.
    async fn lost(&mut self, telling: &mut Telling, reason: &str) -> Result<End, StateError> {
        self.flush(telling).await?;
        Ok(End::Lost(reason.to_owned()))
    }

    /// Stores the text so far, except what may be the beginning of a secret.
    async fn flush(&mut self, telling: &mut Telling) -> Result<(), StateError> {
        match telling.settled() {
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
    async fn step(
        &self,
        events: &mut Events,
        telling: &Telling,
        deadline: Instant,
        told_to_stop: Option<Instant>,
    ) -> Option<Step> {
        let is_told = told_to_stop.is_some();
        let is_waiting = !self.waiting.is_empty();
        tokio::select! {
            event = events.next() => Some(Step::Event(event)),
            () = until(telling.joining.deadline()) => Some(Step::Flush),
            () = self.handle.stop.cancelled(), if !is_told => Some(Step::Stop),
            () = tokio::time::sleep_until(deadline), if !is_told => Some(Step::Overdue),
            () = until(told_to_stop) => Some(Step::TooSlow),
            () = self.handle.decided.notified(), if is_waiting => Some(Step::Decided),
            () = tokio::time::sleep(self.until_next_look()), if is_waiting => Some(Step::Decided),
            () = self.runs.closing.cancelled() => None,
        }
    }

    /// The agent's id of the run, which is started if it has none yet.
    async fn agent_run(&mut self) -> Result<Result<AgentRun, End>, StateError> {
        if let Some(run) = &self.record.agent_run {
            return Ok(Ok(run.clone()));
        }
        if self.handle.stop.is_cancelled() {
            self.cancel().await?;
            return Ok(Err(End::Over));
        }
        let runtime = self.runs.agents.runtime();
        let attempt = self.record.run.attempt;
        let started = runtime
            .run(&self.tenant, &self.id, attempt, &errand(&self.record))
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
                | RuntimeError::NoStart(_)
                | RuntimeError::Died(_)),
            ) => {
                return Ok(Err(End::Lost(error.to_string())));
            }
            Err(RuntimeError::Unknown(message)) => ("not_found", message),
            Err(RuntimeError::Refused(message)) => ("refused", message),
            Err(RuntimeError::Unable(message)) => ("unimplemented", message),
        };
        self.fail(code, message).await?;
        Ok(Err(End::Over))
    }

    /// Stores events in one transaction; returns whether the run is over.
    async fn take_in(
        &mut self,
        batch: Vec<AgentEvent>,
        telling: &mut Telling,
    ) -> Result<Option<End>, StateError> {
        self.fruitless = 0;
        let mut update = RunUpdate::default();
        let mut end = None;
        for event in batch {
            if telling.joining.add(&event) {
                continue;
            }
            let Some((name, members)) = translate(&event, &telling.redactor) else {
                continue;
            };
            update.events.extend(telling.joined());
            end = self
                .take_in_one(&mut update, name, members, &event, telling)
                .await?;
            if end.is_some() {
                break;
            }
        }
        if matches!(end, Some(End::CutOff)) {
            update.events.extend(telling.joined());
        }
        let is_decided = update.asked.iter().any(|asked| asked.carried.is_some());
        if !update.events.is_empty() || update.change.status.is_some() {
            self.store(update).await?;
        }
        if is_decided {
            self.handle.decided.notify_one();
        }
        Ok(end)
    }

    async fn take_in_one(
        &mut self,
        update: &mut RunUpdate,
        name: &'static str,
        mut members: Map<String, Value>,
        event: &AgentEvent,
        telling: &Telling,
    ) -> Result<Option<End>, StateError> {
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
                let mut asked = new_approval(&members, telling.approval_timeout)?;
                asked.carried = self.carry(&asked);
                members.insert("approvalId".into(), json!(asked.id));
                self.waiting.push(Waiting::of_new(&asked));
                if let Some(agent) = &asked.agent_id {
                    self.names.insert(agent.clone(), asked.id.clone());
                }
                update.asked.push(asked);
                change.status = Some(RunStatus::WaitingForApproval);
                // The only tool call so far is the one that waits for approval.
                if self.started_calls == 1 && self.ended_calls == 0 {
                    change.called_tool = Some(false);
                }
            }
            "approval.responded" => {
                self.settle_approval(&mut members).await?;
                if self.waiting.is_empty() {
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
                change.usage = translate::usage(&members);
                end = Some(End::Over);
            }
            "run.failed" | "run.cancelled" => {
                translate::hide_home(&mut members, &telling.home);
                let error = (name == "run.failed").then(|| translate::error(&members));
                let is_cut_off = error
                    .as_ref()
                    .is_some_and(|error| error.code == "interrupted");
                if is_cut_off && !self.handle.stop.is_cancelled() && !self.is_overdue {
                    return Ok(Some(End::CutOff));
                }
                name = self.note_end(change, &mut members, error);
                end = Some(End::Over);
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
    fn note_end(
        &self,
        change: &mut RunChange,
        members: &mut Map<String, Value>,
        error: Option<RunError>,
    ) -> &'static str {
        let error = if self.is_overdue {
            Some(RunError {
                code: "timeout".into(),
                message: OVERDUE.into(),
            })
        } else {
            error.filter(|_| !self.handle.stop.is_cancelled())
        };
        let Some(error) = error else {
            members.clear();
            change.status = Some(RunStatus::Cancelled);
            if let Some(cause) = self.handle.cause.get() {
                *members = ending::members(&cause.code, cause);
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

const OVERDUE: &str = "the run exceeded its time limit";

/// Prepares events for storage: redacts secrets and coalesces text.
struct Telling {
    redactor: Redactor,
    /// The home's path, which is removed from events.
    home: String,
    joining: Joining,
    approval_timeout: Duration,
}

impl Telling {
    /// The text so far as one redacted event.
    fn joined(&mut self) -> Option<NewEvent> {
        self.joining.take(&self.redactor)
    }

    /// The same, except what may be the beginning of a secret.
    fn settled(&mut self) -> Option<NewEvent> {
        self.joining.take_settled(&self.redactor)
    }
}

/// An event and those that have already arrived after it.
fn take_ready(first: AgentEvent, events: &mut Events) -> Vec<AgentEvent> {
    let mut batch = vec![first];
    while batch.len() < BATCH {
        match events.next().now_or_never() {
            Some(Some(Ok(event))) => batch.push(event),
            // An error is seen again on the next poll, since an ended stream stays ended.
            _ => break,
        }
    }
    batch
}

/// Sleeps until a moment, or forever.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
