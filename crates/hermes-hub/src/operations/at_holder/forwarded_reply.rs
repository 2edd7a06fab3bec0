//! The reply of another node, as it travels through the database.

use std::{collections::HashSet, sync::LazyLock};

use hermes_config::sync::Mutex;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{NOT_BEGUN, unavailable};
use crate::{
    Hub, Problem, ProblemCode,
    api_types::problem::ProblemDetail,
    hub::{ReplyContent, read_content, store_content},
    operations::dispatch::DispatchedReply,
    service::call::{Reply, ReplyBody},
};

#[derive(Serialize, Deserialize)]
pub(super) enum ForwardedReply {
    Done {
        status: u16,
        etag: Option<String>,
        is_replay: bool,
        body: ForwardedBody,
    },
    Refused {
        code: ProblemCode,
        message: String,
        reason: Option<String>,
        details: Vec<ProblemDetail>,
        retry_after_ms: Option<u64>,
    },
}

#[derive(Serialize, Deserialize)]
pub(super) enum ForwardedBody {
    Empty,
    Json(Box<RawValue>),
    /// Headers, and the content in base64.
    Bytes(Vec<(String, String)>, String),
    /// Headers, and where the content is in object storage.
    Spilled {
        headers: Vec<(String, String)>,
        name: String,
        parts: u32,
    },
}

impl ForwardedReply {
    /// Whether the node that got it had no lease for it.
    pub(super) fn was_not_begun(&self) -> bool {
        matches!(self, Self::Refused { reason, .. } if reason.as_deref() == Some(NOT_BEGUN))
    }

    pub(super) fn from_problem(problem: Problem) -> Self {
        Self::Refused {
            code: problem.code,
            message: problem.message,
            reason: problem.reason.map(str::to_owned),
            details: problem.details,
            retry_after_ms: problem.retry_after_ms,
        }
    }

    /// The reply to this command.
    pub(super) async fn from_dispatched(
        hub: &Hub,
        command: &str,
        dispatched: DispatchedReply,
    ) -> Self {
        let DispatchedReply { reply, is_replay } = dispatched;
        let body = match reply.body {
            ReplyBody::Empty => ForwardedBody::Empty,
            ReplyBody::Json(document) => ForwardedBody::Json((*document).to_owned()),
            ReplyBody::Bytes(headers, body) => {
                let headers = headers.iter().filter_map(|(name, value)| {
                    Some((name.to_string(), value.to_str().ok()?.to_owned()))
                });
                let headers = headers.collect();
                match store_content(hub, command, body).await {
                    Ok(ReplyContent::Inline(text)) => ForwardedBody::Bytes(headers, text),
                    Ok(ReplyContent::Spilled { name, parts }) => ForwardedBody::Spilled {
                        headers,
                        name,
                        parts,
                    },
                    Err(problem) => return Self::from_problem(problem),
                }
            }
            ReplyBody::Events(_) => {
                let problem = unavailable("another node has these events; try again");
                return Self::from_problem(problem);
            }
        };
        Self::Done {
            status: reply.status,
            etag: reply.etag,
            is_replay,
            body,
        }
    }

    pub(super) fn into_dispatched(self, hub: &Hub) -> Result<DispatchedReply, Problem> {
        match self {
            Self::Done {
                status,
                etag,
                is_replay,
                body,
            } => {
                let body = match body {
                    ForwardedBody::Empty => ReplyBody::Empty,
                    ForwardedBody::Json(document) => ReplyBody::Json(document.into()),
                    ForwardedBody::Bytes(headers, text) => {
                        let content = read_content(hub, ReplyContent::Inline(text))?;
                        ReplyBody::Bytes(read_headers(headers), content)
                    }
                    ForwardedBody::Spilled {
                        headers,
                        name,
                        parts,
                    } => {
                        let content = read_content(hub, ReplyContent::Spilled { name, parts })?;
                        ReplyBody::Bytes(read_headers(headers), content)
                    }
                };
                let reply = Reply { status, etag, body };
                Ok(DispatchedReply { reply, is_replay })
            }
            Self::Refused {
                code,
                message,
                reason,
                details,
                retry_after_ms,
            } => Err(Problem {
                code,
                message,
                reason: reason.map(|reason| known_reason(&reason)),
                details,
                retry_after_ms,
            }),
        }
    }
}

fn read_headers(headers: Vec<(String, String)>) -> HeaderMap {
    let headers = headers.into_iter().filter_map(|(name, value)| {
        let name = HeaderName::try_from(name).ok()?;
        Some((name, HeaderValue::try_from(value).ok()?))
    });
    headers.collect()
}

/// Reasons are a fixed set of words of the program, so each is kept once.
fn known_reason(reason: &str) -> &'static str {
    static KNOWN: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock();
    if let Some(word) = known.get(reason) {
        return word;
    }
    let word: &'static str = Box::leak(reason.to_owned().into_boxed_str());
    known.insert(word);
    word
}
