//! Records what happens in a turn as events of its run.

use std::sync::Arc;

use futures::future::{BoxFuture, ready};
use hermes_agent::{
    conversation::{SteeringMessage, TurnDisplay},
    message::ToolCall,
    model::{ModelEvent, TextDelivery},
    turn::{Activity, TurnEvent},
};
use hermes_config::Redactor;
use hermes_protocol::RunEvent;
use serde_json::Value;

use super::{TurnObserver, log::RunLog};

/// Longest preview of a call, in characters.
const MAX_PREVIEW_CHARS: usize = 200;
/// The arguments shown in a preview, in order of preference.
const PREVIEW_ARGUMENTS: [&str; 7] = [
    "command", "path", "pattern", "query", "url", "name", "question",
];

/// Writes the events of a turn to the log of its run.
pub(super) struct LogDisplay {
    log: RunLog,
    redactor: Redactor,
    reasoning: String,
    activity: Activity,
    /// Shows the text elsewhere: then the log has the steps alone.
    observer: Option<Arc<dyn TurnObserver>>,
}

impl LogDisplay {
    pub(super) fn new(log: RunLog, redactor: Redactor, activity: Activity) -> Self {
        Self {
            activity,
            log,
            redactor,
            reasoning: String::new(),
            observer: None,
        }
    }

    pub(super) fn with_observer(mut self, observer: Option<Arc<dyn TurnObserver>>) -> Self {
        self.observer = observer;
        self
    }

    /// Logs reasoning as one event, when it is complete.
    pub(super) fn flush_reasoning(&mut self) {
        let thoughts = std::mem::take(&mut self.reasoning);
        if !thoughts.trim().is_empty() {
            self.log
                .record(RunEvent::ReasoningAvailable { text: thoughts });
        }
    }

    fn preview(&self, call: &ToolCall) -> String {
        let arguments = call.parse_arguments().unwrap_or_default();
        let telling = PREVIEW_ARGUMENTS
            .iter()
            .find_map(|key| arguments.get(*key).and_then(Value::as_str));
        let text = telling.unwrap_or(&call.arguments);
        let line: String = text
            .chars()
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .take(MAX_PREVIEW_CHARS)
            .collect();
        self.redactor.redact(&line).into_owned()
    }
}

impl TurnDisplay for LogDisplay {
    fn show(&mut self, event: TurnEvent) {
        self.activity.touch();
        if let Some(observer) = &self.observer {
            observer.show_event(&event);
        }
        if let TurnEvent::Model(ModelEvent::ReasoningDelta(text)) = &event {
            self.reasoning.push_str(text);
            return;
        }
        self.flush_reasoning();
        match event {
            TurnEvent::Model(ModelEvent::TextDelta(_)) if self.observer.is_some() => {}
            TurnEvent::Model(ModelEvent::TextDelta(text)) => {
                self.log.record(RunEvent::delta(text));
            }
            TurnEvent::CallStarted(call) => self.log.record(RunEvent::ToolStarted {
                preview: self.preview(&call),
                tool: call.name,
                call_id: call.id,
            }),
            TurnEvent::CallEnded { call, output, took } => {
                self.log.record(RunEvent::ToolCompleted {
                    tool: call.name,
                    call_id: call.id,
                    duration: took.as_secs_f64(),
                    error: output.is_error,
                });
            }
            _ => {}
        }
    }

    fn take_user_messages(&mut self) -> BoxFuture<'_, Vec<SteeringMessage>> {
        match &self.observer {
            Some(observer) => observer.take_user_messages(),
            None => Box::pin(ready(Vec::new())),
        }
    }

    /// Watchers may have read it already; a chat shows a preview that can be replaced.
    fn shown_text(&self) -> TextDelivery {
        match self.observer {
            Some(_) => TextDelivery::Revocable,
            None => TextDelivery::Final,
        }
    }
}
