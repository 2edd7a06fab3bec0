//! Faults: which request they hit, and what its response becomes.

use std::{convert::Infallible, io, sync::Mutex, time::Duration};

use axum::{
    body::Body,
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use serde_json::Value;

use super::connection::HangUp;
use crate::{
    behaviour::{Fault, FaultKind, ReplyFormat},
    script::lock,
};

/// The faults of a server and how often each has met a request it fits.
pub(super) struct FaultQueue(Mutex<Vec<(Fault, u32)>>);

impl FaultQueue {
    pub(super) fn new(faults: &[Fault]) -> Self {
        Self(Mutex::new(
            faults.iter().cloned().map(|fault| (fault, 0)).collect(),
        ))
    }

    /// The fault for a request. Every fault counts every request that matches it.
    pub(super) fn next_fault(
        &self,
        http_method: &str,
        message: Option<&Value>,
    ) -> Option<FaultKind> {
        let mut struck = None;
        for (fault, met) in lock(&self.0).iter_mut() {
            if !applies(fault, http_method, message) {
                continue;
            }
            *met += 1;
            let past = met.saturating_sub(fault.skip);
            let strikes = past > 0 && fault.times.is_none_or(|times| past <= times);
            if strikes && struck.is_none() {
                struck = Some(fault.trouble.clone());
            }
        }
        struck
    }
}

fn applies(fault: &Fault, http_method: &str, message: Option<&Value>) -> bool {
    let Some(target) = &fault.on else {
        return true;
    };
    let rpc_method = message.map(|message| &message["method"]);
    let tool = message
        .filter(|message| message["method"] == "tools/call")
        .map(|message| &message["params"]["name"]);
    target == http_method
        || rpc_method.is_some_and(|method| method == target)
        || tool.is_some_and(|tool| tool == target)
}

/// The response that replaces a proper one, if the trouble is of that kind.
pub(super) async fn fault_response(
    trouble: &FaultKind,
    reply: ReplyFormat,
    hang_up: &HangUp,
) -> Option<Response> {
    let with_header = |status: StatusCode, name: HeaderName, value: &str| {
        (status, [(name, value.to_owned())]).into_response()
    };
    Some(match trouble {
        FaultKind::Status(status) => StatusCode::from_u16(*status)
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            .into_response(),
        FaultKind::Unauthorized(challenge) => with_header(
            StatusCode::UNAUTHORIZED,
            header::WWW_AUTHENTICATE,
            challenge,
        ),
        FaultKind::InsufficientScope(scope) => with_header(
            StatusCode::FORBIDDEN,
            header::WWW_AUTHENTICATE,
            &format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\""),
        ),
        FaultKind::Html => (
            [(header::CONTENT_TYPE, "text/html; charset=utf-8")],
            "<!doctype html><title>Welcome</title><h1>Welcome</h1>",
        )
            .into_response(),
        FaultKind::Redirect(to) => {
            with_header(StatusCode::TEMPORARY_REDIRECT, header::LOCATION, to)
        }
        FaultKind::Oversized(bytes) => oversized(*bytes, reply),
        FaultKind::Hangup => {
            hang_up.close();
            StatusCode::OK.into_response()
        }
        FaultKind::Delay(ms) => {
            tokio::time::sleep(Duration::from_millis(*ms)).await;
            return None;
        }
        FaultKind::Cut | FaultKind::Trickle(..) | FaultKind::Postpone(_) => return None,
    })
}

/// Spoils a proper response, if the trouble is of that kind.
pub(super) fn corrupt_response(trouble: &FaultKind, response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let pieces = body.into_data_stream();
    let body = match *trouble {
        FaultKind::Cut => Body::from_stream(
            pieces
                .take(1)
                .map(|piece| piece.map(|piece| piece.slice(..piece.len() / 2)))
                .chain(stream::once(async {
                    // Without a pause the half would be thrown away with the connection.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Err(axum::Error::new(io::Error::other("cut")))
                })),
        ),
        FaultKind::Trickle(size, pause) => Body::from_stream(
            pieces
                .flat_map(move |piece| {
                    let pieces: Vec<_> = match piece {
                        Ok(piece) => piece
                            .chunks(size.max(1))
                            .map(|part| Ok(Bytes::copy_from_slice(part)))
                            .collect(),
                        Err(error) => vec![Err(error)],
                    };
                    stream::iter(pieces)
                })
                .then(move |piece| async move {
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    piece
                }),
        ),
        _ => Body::from_stream(pieces),
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, body)
}

/// One event or one JSON string of this many bytes, made as it is sent.
fn oversized(bytes: u64, reply: ReplyFormat) -> Response {
    const PIECE: &[u8] = &[b'x'; 64 * 1024];
    let (kind, start) = match reply {
        ReplyFormat::Sse => ("text/event-stream", "data: "),
        ReplyFormat::Json => ("application/json", "\""),
    };
    let filling = stream::unfold(bytes, |left| async move {
        let length = left.min(PIECE.len() as u64);
        let piece = PIECE.get(..usize::try_from(length).ok()?)?;
        (length > 0).then_some((Bytes::from_static(piece), left - length))
    });
    let end = match reply {
        ReplyFormat::Sse => "\n\n",
        ReplyFormat::Json => "\"",
    };
    let whole = stream::iter([Bytes::from_static(start.as_bytes())])
        .chain(filling)
        .chain(stream::iter([Bytes::from_static(end.as_bytes())]))
        .map(Ok::<_, Infallible>);
    ([(header::CONTENT_TYPE, kind)], Body::from_stream(whole)).into_response()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hits(fault: Fault, requests: &[(&str, Value)]) -> Vec<bool> {
        let faults = FaultQueue::new(&[fault]);
        requests
            .iter()
            .map(|(method, message)| faults.next_fault(method, Some(message)).is_some())
            .collect()
    }

    #[test]
    fn a_fault_skips_and_then_strikes_a_number_of_times() {
        let fault = Fault::always(FaultKind::Status(500)).after(1).times(2);
        let requests = vec![("POST", Value::Null); 5];
        assert_eq!(hits(fault, &requests), [false, true, true, false, false]);
    }

    #[test]
    fn a_fault_can_be_meant_for_a_method_or_a_tool() {
        let call = json!({ "method": "tools/call", "params": { "name": "echo" } });
        let list = json!({ "method": "tools/list" });
        let requests = [("POST", call), ("POST", list), ("GET", Value::Null)];
        let struck_by = |target| hits(Fault::on(target, FaultKind::Html), &requests);
        assert_eq!(struck_by("echo"), [true, false, false]);
        assert_eq!(struck_by("tools/list"), [false, true, false]);
        assert_eq!(struck_by("GET"), [false, false, true]);
        assert_eq!(struck_by("POST"), [true, true, false]);
    }
}
