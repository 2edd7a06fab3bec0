//! Requests to servers on behalf of another process: executed here, reported there, cancelled when it hangs up; and what
//! that process may ask.
//!
//! Commands of an agent, and what they start, are the user's processes as any other. They are known by the mark of
//! descendants, and may only ask for states and lists: what changes or calls something, a person does.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    net::{UnixStream, unix::OwnedWriteHalf},
    sync::{mpsc, oneshot},
};

use super::{ControlRequest, ControlResponse, ForwardedRequest, RequestLines, write_response};
use crate::{
    CallOptions, Host,
    connection::session::Progress,
    process::descendants::is_descendant,
    protocol::{ElicitRequestParams, ElicitResult},
    server_request::{ConversationId, ElicitHandler, ElicitationError},
};

/// Events waiting to be sent; progress that finds the queue full is dropped.
const EVENT_QUEUE_CAPACITY: usize = 16;

static NEXT_REQUEST: AtomicU64 = AtomicU64::new(1);

/// What is sent to the client while a request runs.
enum ForwardEvent {
    Progress(Progress),
    Elicit(ElicitRequestParams, oneshot::Sender<ElicitResult>),
}

/// Executes a request and reports its outcome.
pub(super) async fn serve_request(
    host: &Host,
    question: ForwardedRequest,
    lines: &mut RequestLines,
    writer: &mut OwnedWriteHalf,
) -> io::Result<()> {
    if !host.can_take_requests(&question.server) {
        return write_response(writer, &ControlResponse::NotHere).await;
    }
    // A client that has hung up by now makes the request itself, and it must not be made twice.
    write_response(writer, &ControlResponse::Accepted).await?;
    let number = NEXT_REQUEST.fetch_add(1, Ordering::Relaxed);
    let conversation = ConversationId(format!("control-{number}").into());
    let (event_sender, mut events) = mpsc::channel(EVENT_QUEUE_CAPACITY);
    let _route = question.can_answer.then(|| {
        let router = host.request_router();
        router.route(
            conversation.clone(),
            elicit_from_client(event_sender.clone()),
        )
    });
    let options = CallOptions {
        timeout: question.timeout,
        conversation: Some(conversation),
        on_progress: Some(Arc::new(move |progress: &Progress| {
            let _ = event_sender.try_send(ForwardEvent::Progress(progress.clone()));
        })),
        ..CallOptions::default()
    };
    let mut work =
        std::pin::pin!(host.execute_request(&question.server, question.request, &options));
    let mut pending_replies = VecDeque::new();
    let mut is_there = true;
    let report = loop {
        tokio::select! {
            report = &mut work => break report,
            Some(event) = events.recv() => {
                let answer = match event {
                    ForwardEvent::Progress(progress) => ControlResponse::Progress(progress),
                    ForwardEvent::Elicit(request, reply) => {
                        pending_replies.push_back(reply);
                        ControlResponse::Elicit { request }
                    }
                };
                if write_response(writer, &answer).await.is_err() {
                    options.cancel.cancel();
                }
            }
            line = lines.next_line(), if is_there => {
                let Ok(Some(line)) = line else {
                    is_there = false;
                    options.cancel.cancel();
                    continue;
                };
                if let Ok(ControlRequest::Elicited { result }) = serde_json::from_str(&line)
                    && let Some(reply) = pending_replies.pop_front()
                {
                    let _: Result<(), ElicitResult> = reply.send(result);
                }
            }
        }
    };
    write_response(writer, &ControlResponse::Done { report }).await
}

/// Asks the person at the other end.
fn elicit_from_client(event_sender: mpsc::Sender<ForwardEvent>) -> ElicitHandler {
    Arc::new(move |request| {
        let event_sender = event_sender.clone();
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let gone = || ElicitationError("the caller stopped waiting for this call".to_owned());
            let question = ForwardEvent::Elicit(request, reply);
            event_sender.send(question).await.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())
        })
    })
}

/// What a peer may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerRights {
    Everything,
    /// States and lists.
    Listing,
}

impl PeerRights {
    /// What the kernel knows of a peer decides.
    pub(super) fn of(stream: &UnixStream) -> Self {
        let peer = stream.peer_cred().ok();
        let pid = peer.and_then(|peer| u32::try_from(peer.pid()?).ok());
        let is_ours = pid.is_none_or(is_descendant) && cfg!(target_os = "linux");
        if is_ours {
            Self::Listing
        } else {
            Self::Everything
        }
    }

    /// The answer to what it may not ask.
    pub(super) fn refusal(self, question: &ControlRequest) -> Option<ControlResponse> {
        let is_listing = match question {
            ControlRequest::Status => true,
            ControlRequest::Request(forwarded) => forwarded.request.is_listing(),
            ControlRequest::Reload
            | ControlRequest::Wake { .. }
            | ControlRequest::Elicited { .. } => false,
        };
        if self == Self::Everything || is_listing {
            return None;
        }
        tracing::warn!("refused a request of a command of the agent at the control socket");
        Some(ControlResponse::Refused {
            reason: "commands of an agent may only ask for states and lists".to_owned(),
        })
    }
}
