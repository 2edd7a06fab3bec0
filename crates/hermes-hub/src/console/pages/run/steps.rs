//! The events of a run as steps: pieces of text become one text, the start and the end of a call one call.

use std::collections::HashMap;

use hermes_protocol::RequestedForm;
use serde::Deserialize;
use serde_json::Value;

use super::waiting_form::WaitingForm;
use crate::api_types::{StoredEvent, Time};

/// What an event, or several that belong together, are shown as.
pub(in crate::console::pages) struct RunStep {
    pub(in crate::console::pages) kind: StepKind,
    pub(in crate::console::pages) at: Time,
    /// The end of what takes time.
    pub(in crate::console::pages) until: Option<Time>,
    pub(in crate::console::pages) title: String,
    pub(in crate::console::pages) text: String,
    /// Seconds of a tool call, once it has ended, with a point.
    pub(in crate::console::pages) took: Option<String>,
    pub(in crate::console::pages) has_failed: bool,
    /// The id of a tool call.
    pub(in crate::console::pages) call: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::console::pages) enum StepKind {
    Text,
    Thought,
    Tool,
    Approval,
    Decision,
    Failure,
    Retry,
}

impl StepKind {
    /// Its class in the page.
    pub(in crate::console::pages) fn class(self) -> &'static str {
        match self {
            Self::Text => "text-step",
            Self::Thought => "thought",
            Self::Tool => "tool",
            Self::Approval => "approval",
            Self::Decision => "decision",
            Self::Failure => "failure",
            Self::Retry => "retry",
        }
    }

    /// The word of the filter that keeps it.
    fn filter(self) -> &'static str {
        match self {
            Self::Text | Self::Thought => "text",
            Self::Tool => "tools",
            Self::Approval | Self::Decision => "approvals",
            Self::Failure | Self::Retry => "problems",
        }
    }
}

impl RunStep {
    pub(in crate::console::pages) fn class(&self) -> &'static str {
        self.kind.class()
    }

    pub(in crate::console::pages) fn is_tool(&self) -> bool {
        self.kind == StepKind::Tool
    }

    pub(in crate::console::pages) fn shown_text(&self) -> LongText<'_> {
        LongText::new(&self.text)
    }

    /// Whether `?only=` keeps it.
    pub(in crate::console::pages) fn passes(&self, only: &str) -> bool {
        only.is_empty() || self.kind.filter() == only || (only == "problems" && self.has_failed)
    }
}

/// What a run waits for.
pub(in crate::console::pages) struct WaitingApproval {
    pub(in crate::console::pages) id: String,
    pub(in crate::console::pages) command: String,
    pub(in crate::console::pages) description: String,
    pub(in crate::console::pages) choices: Vec<String>,
    /// To fill in instead of a plain yes.
    pub(in crate::console::pages) form: Option<WaitingForm>,
}

impl WaitingApproval {
    pub(in crate::console::pages) fn offers(&self, choice: &str) -> bool {
        self.choices.iter().any(|offered| offered == choice)
    }
}

/// All that the events of a run say.
#[derive(Default)]
pub(in crate::console::pages) struct RunSteps {
    pub(in crate::console::pages) steps: Vec<RunStep>,
    pub(in crate::console::pages) waits: Vec<WaitingApproval>,
    pub(in crate::console::pages) session: Option<String>,
    /// The last event that is in them.
    pub(in crate::console::pages) last: u64,
    calls: HashMap<String, usize>,
    asked: HashMap<String, usize>,
}

/// The members of all events.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EventMembers {
    session_id: Option<String>,
    delta: String,
    text: String,
    tool: String,
    call_id: String,
    preview: String,
    duration: f64,
    /// Whether a call failed, or why a run did.
    error: Value,
    approval_id: String,
    command: String,
    description: String,
    choices: Vec<String>,
    form: Option<RequestedForm>,
    choice: String,
    outcome: String,
    reason: Option<String>,
    message: Option<String>,
}

impl RunSteps {
    pub(in crate::console::pages) fn from_events(events: Vec<StoredEvent>) -> Self {
        let mut steps = Self::default();
        for event in events {
            steps.last = event.id;
            let members = serde_json::from_value(Value::Object(event.body));
            steps.add(event.time, &event.event, members.unwrap_or_default());
        }
        steps
    }

    fn add(&mut self, at: Time, name: &str, event: EventMembers) {
        match name {
            "run.started" => self.session = event.session_id.or(self.session.take()),
            "message.delta" => self.add_text(at, event.delta),
            "reasoning.available" => self.push(StepKind::Thought, at, String::new(), event.text),
            "tool.started" => {
                self.calls.insert(event.call_id.clone(), self.steps.len());
                self.push(StepKind::Tool, at, event.tool, event.preview);
                if let Some(step) = self.steps.last_mut() {
                    step.call = Some(event.call_id);
                }
            }
            "tool.completed" => {
                let found = self.calls.get(&event.call_id).copied();
                if let Some(step) = found.and_then(|at| self.steps.get_mut(at)) {
                    step.until = Some(at);
                    step.took = Some(format!("{:.2}", event.duration));
                    step.has_failed = event.error == Value::Bool(true);
                }
            }
            "approval.request" => {
                self.asked
                    .insert(event.approval_id.clone(), self.steps.len());
                // The fields of a form stand in the form.
                let asked = event.form.as_ref().map(|form| form.message.clone());
                let command = asked.unwrap_or_else(|| event.command.clone());
                self.push(StepKind::Approval, at, command, event.description.clone());
                let form = event.form;
                self.waits.push(WaitingApproval {
                    form: form.map(|form| WaitingForm::new(&event.approval_id, form)),
                    id: event.approval_id,
                    command: event.command,
                    description: event.description,
                    choices: event.choices,
                });
            }
            "approval.responded" => self.close_approval(at, event),
            "run.failed" | "run.cancelled" if event.error.is_object() => {
                let text = |name: &str| event.error[name].as_str().unwrap_or_default().to_owned();
                self.push(StepKind::Failure, at, text("code"), text("message"));
            }
            "run.requeued" => {
                let message = event.message.unwrap_or_default();
                self.push(
                    StepKind::Retry,
                    at,
                    event.reason.unwrap_or_default(),
                    message,
                );
            }
            _ => {}
        }
    }

    fn add_text(&mut self, at: Time, delta: String) {
        match self.steps.last_mut() {
            Some(step) if step.kind == StepKind::Text => {
                step.text.push_str(&delta);
                step.until = Some(at);
            }
            _ => self.push(StepKind::Text, at, String::new(), delta),
        }
    }

    fn close_approval(&mut self, at: Time, event: EventMembers) {
        self.waits.retain(|waiting| waiting.id != event.approval_id);
        let asked = self.asked.get(&event.approval_id).copied();
        if let Some(step) = asked.and_then(|at| self.steps.get_mut(at)) {
            step.until = Some(at);
        }
        let word = if event.outcome.is_empty() {
            event.choice
        } else {
            event.outcome
        };
        self.push(StepKind::Decision, at, word, String::new());
    }

    fn push(&mut self, kind: StepKind, at: Time, title: String, text: String) {
        self.steps.push(RunStep {
            kind,
            at,
            until: None,
            title,
            text,
            took: None,
            has_failed: false,
            call: None,
        });
    }
}

/// Characters that are shown at once.
const SHOWN_CHARS: usize = 4000;

/// A text in two pieces.
pub(in crate::console::pages) struct LongText<'t> {
    pub(in crate::console::pages) head: &'t str,
    /// Empty for a text that is not long.
    pub(in crate::console::pages) rest: &'t str,
    /// The size of the rest.
    pub(in crate::console::pages) rest_bytes: u64,
}

impl<'t> LongText<'t> {
    pub(in crate::console::pages) fn new(text: &'t str) -> Self {
        let end = text.char_indices().nth(SHOWN_CHARS);
        let (head, rest) = text.split_at(end.map_or(text.len(), |(end, _)| end));
        let rest_bytes = u64::try_from(rest.len()).unwrap_or(u64::MAX);
        Self {
            head,
            rest,
            rest_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::RunId;

    fn steps(events: &[Value]) -> RunSteps {
        let run = RunId::random().unwrap();
        let events = events.iter().zip(1..).map(|(event, id)| {
            let mut body = event.as_object().unwrap().clone();
            let name = body.remove("event").unwrap();
            StoredEvent {
                id,
                event: name.as_str().unwrap().to_owned(),
                run_id: run.clone(),
                time: Time::from_millis(i64::try_from(id).unwrap() * 1000),
                body,
            }
        });
        RunSteps::from_events(events.collect())
    }

    #[test]
    fn pieces_of_text_are_one_step_and_a_call_is_another() {
        let read = steps(&[
            json!({"event": "run.started", "sessionId": "s1"}),
            json!({"event": "message.delta", "delta": "Hel"}),
            json!({"event": "message.delta", "delta": "lo"}),
            json!({"event": "tool.started", "tool": "terminal", "callId": "c1", "preview": "ls"}),
            json!({"event": "tool.completed", "tool": "terminal", "callId": "c1", "duration": 0.5, "error": true}),
            json!({"event": "message.delta", "delta": "!"}),
            json!({"event": "something.new", "delta": 5}),
        ]);
        let shown: Vec<_> = read.steps.iter().map(|step| step.text.as_str()).collect();
        assert_eq!(shown, ["Hello", "ls", "!"]);
        assert_eq!(read.steps[1].took.as_deref(), Some("0.50"));
        assert!(read.steps[1].has_failed && read.steps[1].passes("problems"));
        assert!(read.steps[1].passes("tools") && !read.steps[0].passes("tools"));
        assert_eq!((read.session.as_deref(), read.last), (Some("s1"), 7));
    }

    #[test]
    fn an_approval_waits_until_it_is_decided() {
        let asked = json!({"event": "approval.request", "approvalId": "a", "command": "rm x",
            "description": "removes", "choices": ["once", "deny"]});
        let read = steps(std::slice::from_ref(&asked));
        assert!(read.waits[0].offers("once") && !read.waits[0].offers("always"));
        let decided = json!({"event": "approval.responded", "approvalId": "a", "choice": "deny", "outcome": "expired"});
        let read = steps(&[asked, decided]);
        assert!(read.waits.is_empty());
        assert_eq!(read.steps[1].title, "expired");
    }

    #[test]
    fn a_form_waits_with_its_fields() {
        let form = json!({"server": "people", "message": "Who?", "schema": {"type": "object",
            "properties": {"name": {"type": "string"}, "sure": {"type": "boolean"}}}});
        let asked = json!({"event": "approval.request", "approvalId": "a", "command": "Who?",
            "description": "asks", "choices": ["deny"], "form": form});
        let read = steps(&[asked]);
        let form = read.waits[0].form.as_ref().unwrap();
        assert_eq!((form.approval_id.as_str(), form.items.len()), ("a", 2));
        assert!(form.schema.contains("\"sure\""));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "ä".repeat(SHOWN_CHARS + 1);
        let cut = LongText::new(&text);
        assert_eq!((cut.head.chars().count(), cut.rest), (SHOWN_CHARS, "ä"));
        assert_eq!(cut.rest_bytes, 2);
        let short = LongText::new("x");
        assert_eq!((short.head, short.rest), ("x", ""));
    }
}
