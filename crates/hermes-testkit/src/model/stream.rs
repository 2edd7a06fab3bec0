//! A reply on its way: its pieces, their pauses and its end.

use std::{collections::VecDeque, io, time::Duration};

use axum::{
    body::Body,
    http::header,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::stream;

use super::{
    log::ModelCallWatch,
    script::{ReplyEnding, ScriptedReply},
};

/// Sends a reply as an event stream.
pub(super) fn stream_reply(
    reply: &ScriptedReply,
    pieces: Vec<String>,
    end: Vec<String>,
    watch: ModelCallWatch,
) -> Response {
    let is_at_once =
        reply.delay_ms == 0 && reply.pause_ms == 0 && reply.ending == ReplyEnding::Proper;
    let body = if is_at_once {
        let mut watch = watch;
        watch.complete();
        Body::from(pieces.concat() + &end.concat())
    } else {
        delayed_body(reply, pieces, end, watch)
    };
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, body).into_response()
}

fn delayed_body(
    reply: &ScriptedReply,
    pieces: Vec<String>,
    end: Vec<String>,
    watch: ModelCallWatch,
) -> Body {
    let mut left: VecDeque<String> = pieces.into();
    if reply.ending == ReplyEnding::Proper {
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
                ReplyEnding::Stalled => std::future::pending().await,
                ReplyEnding::Proper | ReplyEnding::Early => {
                    watch.complete();
                    None
                }
                ReplyEnding::Cut => {
                    watch.complete();
                    // Without a pause what was sent would be thrown away with the connection.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Some((Err(io::Error::other("cut")), (left, pause, watch, true)))
                }
            }
        },
    ))
}
