//! Size limits of replies: whole bodies and single events.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};

use super::HttpError;

/// How much of a refusal's body is read to show why, how long that may take, and how much of it is shown.
const EXCERPT_BYTES: usize = 4 * 1024;
const EXCERPT_TIMEOUT: Duration = Duration::from_secs(1);
const EXCERPT_CHARACTERS: usize = 300;

/// Reads a whole body, unless it is larger than `cap`.
pub(super) async fn read_body(
    mut response: reqwest::Response,
    cap: usize,
) -> Result<Bytes, HttpError> {
    let announced = usize::try_from(response.content_length().unwrap_or(0)).unwrap_or(usize::MAX);
    if announced > cap {
        return Err(HttpError::TooLarge { cap });
    }
    let mut body = BytesMut::with_capacity(announced);
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > cap {
            return Err(HttpError::TooLarge { cap });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The beginning of a refusal's body on one line; empty if it does not come at once.
pub(super) async fn read_excerpt(mut response: reqwest::Response) -> String {
    let mut start = Vec::new();
    let read = async {
        while start.len() < EXCERPT_BYTES
            && let Ok(Some(chunk)) = response.chunk().await
        {
            start.extend_from_slice(&chunk[..chunk.len().min(EXCERPT_BYTES)]);
        }
    };
    // What was read before the time ran out is still shown.
    let _ = tokio::time::timeout(EXCERPT_TIMEOUT, read).await;
    excerpt_of(&start)
}

/// The beginning of a text on one line.
pub(super) fn excerpt_of(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(EXCERPT_BYTES)]);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(EXCERPT_CHARACTERS) {
        Some((end, _)) => line[..end].to_owned(),
        None => line,
    }
}

/// The events of a reply. An event larger than `cap` is an error, after which nothing useful follows.
pub(crate) fn read_events(
    response: reqwest::Response,
    cap: usize,
) -> impl Stream<Item = Result<Sse, SseError>> + Send + 'static {
    let mut meter = EventMeter::new(cap);
    let bytes = response.bytes_stream().map(move |chunk| {
        let chunk = chunk?;
        meter.measure(&chunk)?;
        Ok::<_, HttpError>(chunk)
    });
    SseStream::from_bytes_stream(bytes)
}

/// Measures the event that is being received. A blank line ends it, whichever line ending is used.
struct EventMeter {
    cap: usize,
    event: usize,
    line: usize,
    after_cr: bool,
}

impl EventMeter {
    fn new(cap: usize) -> Self {
        Self {
            cap,
            event: 0,
            line: 0,
            after_cr: false,
        }
    }

    fn measure(&mut self, chunk: &[u8]) -> Result<(), HttpError> {
        for &byte in chunk {
            let second_half_of_crlf = byte == b'\n' && self.after_cr;
            self.after_cr = byte == b'\r';
            match byte {
                b'\n' if second_half_of_crlf => {}
                b'\n' | b'\r' => {
                    if self.line == 0 {
                        self.event = 0;
                    }
                    self.line = 0;
                }
                _ => {
                    self.line += 1;
                    self.event += 1;
                    if self.event > self.cap {
                        return Err(HttpError::TooLarge { cap: self.cap });
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(cap: usize, chunks: &[&str]) -> bool {
        let mut meter = EventMeter::new(cap);
        chunks
            .iter()
            .all(|chunk| meter.measure(chunk.as_bytes()).is_ok())
    }

    #[test]
    fn any_number_of_small_events_fits_with_any_line_ending() {
        for blank in ["\n\n", "\r\n\r\n", "\r\r"] {
            let event = format!("data: abc{blank}");
            assert!(fits(9, &[event.as_str(); 50]), "{blank:?}");
        }
    }

    #[test]
    fn an_event_is_measured_across_chunks_and_lines() {
        assert!(fits(14, &["data: a\nda", "ta: b\n\n"]));
        assert!(!fits(13, &["data: a\nda", "ta: b\n\n"]));
    }

    #[test]
    fn a_line_ending_split_between_chunks_ends_one_line_only() {
        // Were the two halves two line endings, the event would seem to end here.
        assert!(!fits(10, &["data: a\r", "\ndata: b"]));
    }

    #[test]
    fn an_excerpt_is_one_short_line() {
        assert_eq!(excerpt_of(b" no\r\n  such\tpage "), "no such page");
        assert_eq!(
            excerpt_of("\u{e4}".repeat(900).as_bytes()).chars().count(),
            300
        );
    }
}
