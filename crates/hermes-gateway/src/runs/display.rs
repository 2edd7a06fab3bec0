//! Converts the events of a turn to events of its run.

use hermes_agent::{
    conversation::Display,
    message::ToolCall,
    model::{ModelEvent, ShownText},
    turn::{Activity, TurnEvent},
};
use hermes_config::Redactor;
use serde_json::{Value, json};

use super::log::RunLog;

/// Longest preview of a call, in characters.
const LONGEST_PREVIEW: usize = 200;
/// The arguments shown in a preview, in order of preference.
const TELLING: [&str; 7] = [
    "command", "path", "pattern", "query", "url", "name", "question",
];

/// Writes the events of a turn to the log of its run.
pub(super) struct LogDisplay {
    log: RunLog,
    redactor: Redactor,
    thoughts: String,
    activity: Activity,
}

impl LogDisplay {
    pub(super) fn new(log: RunLog, redactor: Redactor, activity: Activity) -> Self {
        Self {
            activity,
            log,
            redactor,
            thoughts: String::new(),
        }
    }

    /// Logs reasoning as one event, when it is complete.
    pub(super) fn tell_thoughts(&mut self) {
        let thoughts = std::mem::take(&mut self.thoughts);
        if !thoughts.trim().is_empty() {
            self.log
                .event("reasoning.available", json!({"text": thoughts}));
        }
    }

    fn preview(&self, call: &ToolCall) -> String {
        let arguments = call.parse_arguments().unwrap_or_default();
        let telling = TELLING
            .iter()
            .find_map(|key| arguments.get(*key).and_then(Value::as_str));
        let text = telling.unwrap_or(&call.arguments);
        let line: String = text
            .chars()
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .take(LONGEST_PREVIEW)
            .collect();
        self.redactor.redact(&line).into_owned()
    }
}

impl Display for LogDisplay {
    fn show(&mut self, event: TurnEvent) {
        self.activity.touch();
        if let TurnEvent::Model(ModelEvent::ReasoningDelta(text)) = &event {
            self.thoughts.push_str(text);
            return;
        }
        self.tell_thoughts();
        match event {
            TurnEvent::Model(ModelEvent::TextDelta(text)) => self.log.text(text),
            TurnEvent::CallStarted(call) => self.log.event(
                "tool.started",
                json!({"tool": call.name, "call_id": call.id, "preview": self.preview(&call)}),
            ),
            TurnEvent::CallEnded { call, output, took } => self.log.event(
                "tool.completed",
                json!({
                    "tool": call.name,
                    "call_id": call.id,
                    "duration": took.as_secs_f64(),
                    "error": output.is_error,
                }),
            ),
            _ => {}
        }
    }

    /// Watchers may have read it already.
    fn shown_text(&self) -> ShownText {
        ShownText::Final
    }
}
