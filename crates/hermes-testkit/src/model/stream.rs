//! A reply on its way: its pieces, their pauses and its end.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;

use super::log::Watch;
use super::script::{Ending, Reply};

/// Sends a reply as an event stream.
pub(super) fn send(reply: &Reply, pieces: Vec<String>, end: Vec<String>, watch: Watch) -> Response {
    let is_at_once = reply.delay_ms == 0 && reply.pause_ms == 0 && reply.ending == Ending::Proper;
    let body = if is_at_once {
        let mut watch = watch;
        watch.complete();
        Body::from(pieces.concat() + &end.concat())
    } else {
        slowly(reply, pieces, end, watch)
    };
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, body).into_response()
}

fn slowly(reply: &Reply, pieces: Vec<String>, end: Vec<String>, watch: Watch) -> Body {
    let mut left: VecDeque<String> = pieces.into();
    if reply.ending == Ending::Proper {
        left.extend(end);
    }
    let (delay, pause, ending) = (reply.delay_ms, reply.pause_ms, reply.ending);
    Body::from_stream(stream::unfold(
        (left, delay, watch, false),
        move |(mut left, wait, mut watch, is_over)| async move {
            if is_over {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(wait)).await;
            if let Some(piece) = left.pop_front() {
                return Some((Ok(Bytes::from(piece)), (left, pause, watch, false)));
            }
            match ending {
                Ending::Stalled => std::future::pending().await,
                Ending::Proper | Ending::Early => {
                    watch.complete();
                    None
                }
                Ending::Cut => {
                    watch.complete();
                    // Without a pause what was sent would be thrown away with the connection.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Some((Err(io::Error::other("cut")), (left, pause, watch, true)))
                }
            }
        },
    ))
}
