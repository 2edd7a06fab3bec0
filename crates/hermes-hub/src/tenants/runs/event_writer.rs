//! Prepares the events of an agent for storage: without secrets, and text deltas joined where there is a flood of them.

use std::time::Duration;

use hermes_config::Redactor;
use hermes_protocol::RunEvent;
use tokio::time::Instant;

use crate::{storage::state::NewEvent, tenants::runtime::AgentEvent};

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

/// How long the deltas of a flood are joined.
const FLOOD_DELAY: Duration = Duration::from_secs(1);

/// Events per minute above which they are a flood.
const FLOOD_THRESHOLD: u32 = 10_000;

#[derive(Debug)]
pub(super) struct TextBuffer {
    text: String,
    /// End offset and agent sequence number of each delta.
    pieces: Vec<(usize, u64)>,
    /// When the first delta arrived.
    since: Option<Instant>,
    minute_start: Instant,
    events_in_minute: u32,
    pub(super) is_flood: bool,
}

impl Default for TextBuffer {
    fn default() -> Self {
        Self {
            text: String::new(),
            pieces: Vec::new(),
            since: None,
            minute_start: Instant::now(),
            events_in_minute: 0,
            is_flood: false,
        }
    }
}

impl TextBuffer {
    /// Adds a text delta. Returns false for any other event, which has to wait for [`Self::take`].
    pub(super) fn add(&mut self, event: &AgentEvent) -> bool {
        self.count_event();
        let RunEvent::MessageDelta { delta, .. } = &event.event else {
            return false;
        };
        self.text.push_str(delta);
        self.pieces.push((self.text.len(), event.sequence));
        self.since.get_or_insert_with(Instant::now);
        true
    }

    fn count_event(&mut self) {
        if self.minute_start.elapsed() >= Duration::from_mins(1) {
            self.minute_start = Instant::now();
            self.events_in_minute = 0;
        }
        self.events_in_minute += 1;
        self.is_flood |= self.events_in_minute > FLOOD_THRESHOLD;
    }

    /// When the text has to be stored; `None` if there is none.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let delay = if self.is_flood {
            FLOOD_DELAY
        } else {
            Duration::ZERO
        };
        self.since.map(|since| since + delay)
    }

    /// The text up to a possible secret, as one redacted event. The rest is held back for the next delta.
    pub(super) fn take_safe(&mut self, redactor: &Redactor) -> Option<NewEvent> {
        self.since.take()?;
        let ends = self.pieces.iter().map(|(end, _)| *end).rev();
        let end = redactor.first_safe_cut(&self.text, ends)?;
        let count = self.pieces.partition_point(|(piece, _)| *piece <= end);
        let later = self.pieces.split_off(count);
        let rest = self.text.split_off(end);
        let taken = self.take(redactor);
        self.text = rest;
        self.pieces = later;
        for (piece, _) in &mut self.pieces {
            *piece -= end;
        }
        taken
    }

    /// All text as one redacted event.
    pub(super) fn take(&mut self, redactor: &Redactor) -> Option<NewEvent> {
        self.since = None;
        let (_, sequence) = *self.pieces.last()?;
        let delta = redactor.redact(&self.text).into_owned();
        self.text.clear();
        let pieces = std::mem::take(&mut self.pieces).len();
        let event = RunEvent::MessageDelta {
            delta,
            joined: self.is_flood.then_some(pieces),
        };
        Some(NewEvent {
            event,
            agent_sequence: Some(sequence),
        })
    }
}

#[cfg(test)]
mod tests {
    use hermes_config::Secret;
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

    fn piece(sequence: u64, text: &str) -> AgentEvent {
        AgentEvent {
            sequence,
            event: RunEvent::delta(text),
        }
    }

    /// Text, and from how many pieces if that is told.
    fn text_of(event: &NewEvent) -> (&str, Option<usize>) {
        match &event.event {
            RunEvent::MessageDelta { delta, joined } => (delta, *joined),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn text_is_stored_at_once_as_one_event_with_the_number_of_its_last_piece() {
        let mut buffer = TextBuffer::default();
        assert!(buffer.deadline().is_none());
        assert!(buffer.add(&piece(2, "Hel")));
        assert!(buffer.add(&piece(3, "lo")));
        assert_eq!(buffer.deadline(), Some(Instant::now()));
        let other = AgentEvent {
            sequence: 4,
            event: RunEvent::cancelled(),
        };
        assert!(!buffer.add(&other));
        let joined = buffer.take(&Redactor::default()).unwrap();
        assert_eq!(text_of(&joined), ("Hello", None));
        assert_eq!(joined.agent_sequence, Some(3));
        assert!(buffer.take(&Redactor::default()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn in_a_flood_pieces_are_joined_and_counted() {
        let mut buffer = TextBuffer::default();
        for sequence in 0..=u64::from(FLOOD_THRESHOLD) {
            buffer.add(&piece(sequence, "x"));
        }
        assert!(buffer.is_flood);
        let wait = buffer.deadline().unwrap() - Instant::now();
        assert_eq!(wait, FLOOD_DELAY);
        let joined = buffer.take(&Redactor::default()).unwrap();
        assert_eq!(text_of(&joined).1, Some(FLOOD_THRESHOLD as usize + 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_in_pieces_is_told_in_no_event() {
        let redactor = Redactor::new([Secret::new("abcab-1234".to_owned())]);
        let mut buffer = TextBuffer::default();
        let mut told = Vec::new();
        for (sequence, text) in ["it is ", "a", "bc", "ab-12", "34abca", "r."]
            .iter()
            .enumerate()
        {
            buffer.add(&piece(sequence as u64, text));
            told.extend(buffer.take_safe(&redactor));
        }
        let told: Vec<_> = told
            .iter()
            .map(|event| (text_of(event).0, event.agent_sequence))
            .collect();
        let whole = ("[REDACTED]abcar.", Some(5));
        assert_eq!(told, [("it is ", Some(0)), whole]);
        assert!(buffer.take(&redactor).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_the_rest_of_a_secret_comes_when_there_is_none() {
        let redactor = Redactor::new([Secret::new("abcab-1234".to_owned())]);
        let mut buffer = TextBuffer::default();
        buffer.add(&piece(1, "abc"));
        assert!(buffer.take_safe(&redactor).is_none());
        assert!(buffer.deadline().is_none(), "nothing new can be told");
        let rest = buffer.take(&redactor).unwrap();
        assert_eq!(text_of(&rest).0, "abc");
    }
}
