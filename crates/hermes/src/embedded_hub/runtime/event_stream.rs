//! A run's events as they come from an agent: Server-Sent Events with a number and a JSON object each.
//!
//! The agent is the tenant's, so what it sends is bounded: an event that does not end costs it the connection, not the
//! Hub its memory. What cannot be read is the end of the stream: whoever follows the run decides what becomes of it.

use futures::{Stream, StreamExt, stream::BoxStream};
use hermes_hub::tenants::runtime::{AgentEvent, RuntimeError};
use hermes_protocol::EventEnvelope;
use serde_json::{Map, Value};

/// The longest event. The longest that makes sense is a run's output.
const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

const MAX_REASON_CHARS: usize = 500;

type AgentEventStream = BoxStream<'static, Result<AgentEvent, RuntimeError>>;

/// Reads events until the agent ends the stream.
pub(super) fn read_events<B, E>(
    bytes: impl Stream<Item = Result<B, E>> + Send + 'static,
) -> AgentEventStream
where
    B: AsRef<[u8]> + Send + 'static,
    E: std::fmt::Display + Send + 'static,
{
    let reader = AgentEventReader {
        bytes: bytes.boxed(),
        buffer: Vec::new(),
        has_failed: false,
    };
    futures::stream::unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        reader.has_failed = event.is_err();
        Some((event, reader))
    })
    .boxed()
}

struct AgentEventReader<B, E> {
    bytes: BoxStream<'static, Result<B, E>>,
    buffer: Vec<u8>,
    has_failed: bool,
}

impl<B: AsRef<[u8]>, E: std::fmt::Display> AgentEventReader<B, E> {
    async fn next(&mut self) -> Option<Result<AgentEvent, RuntimeError>> {
        if self.has_failed {
            return None;
        }
        // What has been looked at already holds no end.
        let mut looked_at = 0;
        loop {
            if let Some(end) = find_end(&self.buffer, looked_at) {
                let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
                looked_at = 0;
                match parse_event(&block) {
                    Some(event) => return Some(event),
                    // A comment.
                    None => continue,
                }
            }
            if self.buffer.len() > MAX_EVENT_BYTES {
                return Some(Err(unreadable("it does not end")));
            }
            looked_at = self.buffer.len().saturating_sub(1);
            match self.bytes.next().await? {
                Ok(bytes) => self.buffer.extend_from_slice(bytes.as_ref()),
                Err(error) => return Some(Err(RuntimeError::Unreachable(error.to_string()))),
            }
        }
    }
}

fn find_end(buffer: &[u8], from: usize) -> Option<usize> {
    let at = buffer[from..].windows(2).position(|two| two == b"\n\n")?;
    Some(from + at)
}

fn parse_event(block: &[u8]) -> Option<Result<AgentEvent, RuntimeError>> {
    let text = String::from_utf8_lossy(block);
    let mut sequence = None;
    let mut data = String::new();
    for line in text.lines() {
        if let Some(id) = line.strip_prefix("id:") {
            sequence = id.trim().parse().ok();
        } else if let Some(part) = line.strip_prefix("data:") {
            if !data.is_empty() {
                data.push('\n');
            }
            data.push_str(part.strip_prefix(' ').unwrap_or(part));
        }
    }
    if data.is_empty() {
        return None;
    }
    Some(read_event(sequence, &data))
}

fn read_event(sequence: Option<u64>, data: &str) -> Result<AgentEvent, RuntimeError> {
    let body: Map<String, Value> = match serde_json::from_str(data) {
        Ok(body) => body,
        Err(error) => return Err(unreadable(&error.to_string())),
    };
    let name = match body.get("event") {
        Some(Value::String(name)) => format!("`{name}`"),
        _ => "it has no name".to_owned(),
    };
    let Some(sequence) = sequence else {
        return Err(unreadable(&format!("{name}: it has no number")));
    };
    match EventEnvelope::from_body(body) {
        Ok(envelope) => Ok(AgentEvent {
            sequence,
            event: envelope.event,
        }),
        Err(error) => Err(unreadable(&format!("{name}: {error}"))),
    }
}

/// The reason may quote the event, so it is shortened.
fn unreadable(reason: &str) -> RuntimeError {
    RuntimeError::UnreadableEvent(reason.chars().take(MAX_REASON_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use hermes_protocol::RunEvent;

    use super::*;

    async fn collect(chunks: Vec<Vec<u8>>) -> Vec<Result<AgentEvent, RuntimeError>> {
        let chunks = futures::stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>));
        read_events(chunks).collect().await
    }

    fn event(sequence: u64, members: &str) -> String {
        format!("id: {sequence}\ndata: {{\"run_id\":\"run_1\",\"timestamp\":1.5,{members}}}\n\n")
    }

    const STARTED: &str = "\"event\":\"run.started\",\"session_id\":null";

    #[tokio::test]
    async fn events_come_out_however_the_bytes_are_cut() {
        let text = event(1, STARTED)
            + ": keepalive\n\n"
            + &event(2, "\"event\":\"message.delta\",\"delta\":\"ä\"");
        for size in 1..text.len() {
            let chunks = text.as_bytes().chunks(size).map(<[u8]>::to_vec).collect();
            let events = collect(chunks).await;
            let found: Vec<_> = events
                .into_iter()
                .map(|event| event.unwrap())
                .map(|event| (event.sequence, event.event))
                .collect();
            let started = RunEvent::Started { session_id: None };
            assert_eq!(found, [(1, started), (2, RunEvent::delta("ä"))]);
        }
    }

    #[tokio::test]
    async fn an_event_without_an_end_is_an_error_and_the_last() {
        let chunks = vec![vec![b'x'; 1024 * 1024]; 20];
        let events = collect(chunks).await;
        assert_eq!(events.len(), 1);
        assert!(matches!(events[0], Err(RuntimeError::UnreadableEvent(_))));
    }

    #[tokio::test]
    async fn what_is_not_as_the_protocol_says_is_named_and_the_last() {
        let numberless = event(1, STARTED).replace("id: 1\n", "");
        for (text, told) in [
            (numberless, "`run.started`: it has no number"),
            (event(1, "\"event\":\"tool.stared\""), "`tool.stared`"),
            (event(1, "\"event\":\"run.started\""), "session_id"),
            (event(1, &format!("{STARTED},\"more\":1")), "more"),
            (event(1, "\"delta\":\"x\""), "it has no name"),
            ("id: 1\ndata: []\n\n".to_owned(), "map"),
        ] {
            let events = collect(vec![(text + &event(2, STARTED)).into_bytes()]).await;
            assert_eq!(events.len(), 1);
            match &events[0] {
                Err(RuntimeError::UnreadableEvent(reason)) => {
                    assert!(reason.contains(told), "{reason}");
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn a_lost_connection_is_not_the_fault_of_an_event() {
        let bytes = [
            Ok(event(1, STARTED).into_bytes()),
            Err(std::io::Error::other("gone")),
        ];
        let events: Vec<_> = read_events(futures::stream::iter(bytes)).collect().await;
        assert_eq!(events.len(), 2);
        assert!(matches!(events[1], Err(RuntimeError::Unreachable(_))));
    }
}
