//! Pieces of an answer that follow each other closely become one event, before they are stored: replay then equals
//! what was seen live.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::{runtime::AgentEvent, state::NewEvent};

/// How long pieces are joined.
const JOINING: Duration = Duration::from_millis(25);

/// The same in a flood.
const JOINING_IN_FLOOD: Duration = Duration::from_secs(1);

/// More events than that within a minute are a flood.
const FLOOD: u32 = 10_000;

/// Joins pieces of one run's answer.
#[derive(Debug)]
pub(super) struct Joining {
    text: String,
    /// The agent's number of the last piece.
    sequence: u64,
    pieces: u32,
    /// When the first piece came.
    since: Option<Instant>,
    minute: Instant,
    in_minute: u32,
    pub(super) is_flood: bool,
}

impl Default for Joining {
    fn default() -> Self {
        Self {
            text: String::new(),
            sequence: 0,
            pieces: 0,
            since: None,
            minute: Instant::now(),
            in_minute: 0,
            is_flood: false,
        }
    }
}

impl Joining {
    /// Takes in a piece. False if the event is something else, which has to wait for [`Self::take`].
    pub(super) fn add(&mut self, event: &AgentEvent) -> bool {
        self.count();
        let is_piece = event.body.get("event").and_then(Value::as_str) == Some("message.delta");
        let piece = event.body.get("delta").and_then(Value::as_str);
        let Some(piece) = piece.filter(|_| is_piece) else {
            return false;
        };
        self.text.push_str(piece);
        self.sequence = event.sequence;
        self.pieces += 1;
        self.since.get_or_insert_with(Instant::now);
        true
    }

    fn count(&mut self) {
        if self.minute.elapsed() >= Duration::from_mins(1) {
            self.minute = Instant::now();
            self.in_minute = 0;
        }
        self.in_minute += 1;
        self.is_flood |= self.in_minute > FLOOD;
    }

    /// When what was joined is to be stored; none if there is nothing.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let joining = if self.is_flood {
            JOINING_IN_FLOOD
        } else {
            JOINING
        };
        self.since.map(|since| since + joining)
    }

    /// What was joined, as one event.
    pub(super) fn take(&mut self) -> Option<NewEvent> {
        self.since.take()?;
        let mut body = Map::new();
        body.insert("delta".into(), std::mem::take(&mut self.text).into());
        let pieces = std::mem::take(&mut self.pieces);
        if self.is_flood {
            body.insert("joined".into(), pieces.into());
        }
        Some(NewEvent {
            event: "message.delta".into(),
            body,
            agent_sequence: Some(self.sequence),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agent_event(sequence: u64, body: &Value) -> AgentEvent {
        AgentEvent {
            sequence,
            body: body.as_object().unwrap().clone(),
        }
    }

    fn piece(sequence: u64, text: &str) -> AgentEvent {
        agent_event(sequence, &json!({"event": "message.delta", "delta": text}))
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_become_one_event_with_the_number_of_the_last() {
        let mut joining = Joining::default();
        assert!(joining.deadline().is_none());
        assert!(joining.add(&piece(2, "Hel")));
        let deadline = joining.deadline().unwrap();
        tokio::time::advance(Duration::from_millis(20)).await;
        assert!(joining.add(&piece(3, "lo")));
        assert_eq!(
            joining.deadline(),
            Some(deadline),
            "later pieces put it off"
        );
        assert!(!joining.add(&agent_event(4, &json!({"event": "tool.started"}))));
        let joined = joining.take().unwrap();
        assert_eq!(
            (joined.body["delta"].as_str(), joined.agent_sequence),
            (Some("Hello"), Some(3))
        );
        assert!(joining.take().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn in_a_flood_pieces_are_joined_longer_and_that_is_told() {
        let mut joining = Joining::default();
        for sequence in 0..=u64::from(FLOOD) {
            joining.add(&piece(sequence, "x"));
        }
        assert!(joining.is_flood);
        let wait = joining.deadline().unwrap() - Instant::now();
        assert!(wait > JOINING);
        assert_eq!(joining.take().unwrap().body["joined"], FLOOD + 1);
    }
}
