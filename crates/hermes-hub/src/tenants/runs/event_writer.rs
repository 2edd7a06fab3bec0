//! Prepares the events of an agent for storage.

use std::time::Duration;

use hermes_config::Redactor;
use hermes_protocol::RunEvent;

use super::text_buffer::TextBuffer;
use crate::storage::state::NewEvent;

/// Redacts secrets, also in text that comes in pieces.
pub(super) struct EventWriter {
    pub(super) redactor: Redactor,
    /// The home's path, which is removed from events.
    pub(super) home: String,
    pub(super) text: TextBuffer,
    pub(super) approval_timeout: Duration,
}

impl EventWriter {
    /// A text without secrets and without the home's path.
    pub(super) fn redact_text(&self, text: &str) -> String {
        self.redactor.redact(text).replace(&self.home, "~")
    }

    /// Removes secrets from all texts, and the home's path from the reason of a failure.
    pub(super) fn redact_event(&self, event: &mut RunEvent) {
        event.visit_text(&mut |text| *text = self.redactor.redact(text).into_owned());
        if let RunEvent::Failed { error, .. }
        | RunEvent::Cancelled {
            error: Some(error), ..
        } = event
        {
            for text in [&mut error.code, &mut error.message] {
                *text = text.replace(&self.home, "~");
            }
        }
    }

    /// The text so far as one redacted event.
    pub(super) fn take_text(&mut self) -> Option<NewEvent> {
        self.text.take(&self.redactor)
    }

    /// The same, except what may be the beginning of a secret.
    pub(super) fn take_safe_text(&mut self) -> Option<NewEvent> {
        self.text.take_safe(&self.redactor)
    }
}

#[cfg(test)]
mod tests {
    use hermes_protocol::RunFailure;

    use super::*;

    fn redacted(mut event: RunEvent) -> String {
        let writer = EventWriter {
            redactor: Redactor::new([String::from("hunter2hunter2").into()]),
            home: "/srv/hub/a/home".to_owned(),
            text: TextBuffer::default(),
            approval_timeout: Duration::ZERO,
        };
        writer.redact_event(&mut event);
        serde_json::to_string(&event.hub_members()).unwrap()
    }

    #[test]
    fn an_event_loses_secrets_and_nothing_else() {
        let event = RunEvent::ToolStarted {
            tool: "terminal".to_owned(),
            call_id: "c1".to_owned(),
            preview: "curl -H hunter2hunter2".to_owned(),
        };
        assert_eq!(
            redacted(event),
            r#"{"tool":"terminal","callId":"c1","preview":"curl -H [REDACTED]"}"#
        );
    }

    #[test]
    fn a_failure_does_not_say_where_the_home_is() {
        let error = RunFailure {
            code: "store_error".to_owned(),
            message: "`/srv/hub/a/home/state.db`: locked".to_owned(),
        };
        let cancelled = RunEvent::Cancelled {
            error: Some(error.clone()),
            reason: None,
            usage: None,
            model: None,
        };
        for event in [RunEvent::failed(error), cancelled] {
            let text = redacted(event);
            assert!(text.contains("~/") && !text.contains("/srv"), "{text}");
        }
    }
}
