//! A run's events as they come from an agent: Server-Sent Events with a number and a JSON object each.
//!
//! The agent is the tenant's, so what it sends is bounded: an event that does not end costs it the connection, not the
//! Hub its memory.

use futures::{Stream, StreamExt, stream::BoxStream};
use hermes_hub::tenants::runtime::{AgentEvent, RuntimeError};
use serde_json::{Map, Value};

/// The longest event. The longest that makes sense is a run's output.
const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

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
                return Some(Err(stream_error("an event of the agent does not end")));
            }
            looked_at = self.buffer.len().saturating_sub(1);
            match self.bytes.next().await? {
                Ok(bytes) => self.buffer.extend_from_slice(bytes.as_ref()),
                Err(error) => return Some(Err(stream_error(error))),
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
    let body: Option<Map<String, Value>> = serde_json::from_str(&data).ok();
    Some(match (sequence, body) {
        (Some(sequence), Some(body)) => Ok(AgentEvent { sequence, body }),
        _ => Err(stream_error(
            "an event of the agent has no number or no object",
        )),
    })
}

fn stream_error(reason: impl std::fmt::Display) -> RuntimeError {
    RuntimeError::Unreachable(reason.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn collect(chunks: Vec<Vec<u8>>) -> Vec<Result<AgentEvent, RuntimeError>> {
        let chunks = futures::stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>));
        read_events(chunks).collect().await
    }

    #[tokio::test]
    async fn events_come_out_however_the_bytes_are_cut() {
        let text = "id: 1\ndata: {\"event\":\"run.started\"}\n\n: keepalive\n\nid: 2\ndata: {\"event\":\"ä\"}\n\n";
        for size in 1..text.len() {
            let chunks = text.as_bytes().chunks(size).map(<[u8]>::to_vec).collect();
            let events = collect(chunks).await;
            let found: Vec<_> = events
                .into_iter()
                .map(|event| event.unwrap())
                .map(|event| (event.sequence, event.body["event"].clone()))
                .collect();
            assert_eq!(found, [(1, "run.started".into()), (2, "ä".into())]);
        }
    }

    #[tokio::test]
    async fn an_event_without_an_end_is_an_error_and_the_last() {
        let chunks = vec![vec![b'x'; 1024 * 1024]; 20];
        let events = collect(chunks).await;
        assert_eq!(events.len(), 1);
        assert!(matches!(events[0], Err(RuntimeError::Unreachable(_))));
    }

    #[tokio::test]
    async fn an_event_without_a_number_is_an_error() {
        let events = collect(vec![b"data: {}\n\nid: 2\ndata: {}\n\n".to_vec()]).await;
        assert_eq!(events.len(), 1);
        assert!(events[0].is_err());
    }
}
