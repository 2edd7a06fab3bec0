//! Requests that are sent twice with one `Idempotency-Key`: done once, answered twice.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};

use super::{DispatchedReply, run_operation};
use crate::{
    Hub, Problem,
    api_types::Via,
    auth::Principal,
    operations::Operation,
    service::call::{Call, Reply, ReplyBody},
    storage::state::{IdempotencyKey, KeyClaim, StoredReply},
};

const MAX_IDEMPOTENCY_KEY_BYTES: usize = 128;

/// How long the second of two equal forms of the console waits for the first.
const FIRST_FORM_TIMEOUT: Duration = Duration::from_secs(20);
const FIRST_FORM_POLL: Duration = Duration::from_millis(100);

/// Runs the operation, unless this idempotency key was used before.
pub(super) async fn execute_idempotent(
    hub: &Hub,
    operation: &Operation,
    call: Call,
    arguments: Map<String, Value>,
    key: &IdempotencyKey,
) -> Result<DispatchedReply, Problem> {
    let body = serde_json::to_vec(&arguments).map_err(|error| Problem::internal(&error))?;
    match claim_key(hub, key, &Sha256::digest(body).into(), call.via).await? {
        KeyClaim::First => {}
        KeyClaim::Replay(stored) => {
            return Ok(DispatchedReply {
                reply: decode_reply(hub, key, &stored)?,
                is_replay: true,
            });
        }
        KeyClaim::Running => {
            return Err(key_conflict(
                "a request with this `Idempotency-Key` is in progress; wait for it",
            ));
        }
        KeyClaim::BodyMismatch => {
            return Err(key_conflict(
                "this `Idempotency-Key` was used for a request with another body; use a new one",
            ));
        }
        KeyClaim::ReplyLost => {
            return Err(key_conflict(
                "this request was started, but its reply was lost; check what it changed",
            ));
        }
    }
    let result = run_operation(operation, call, arguments).await;
    let stored = result
        .as_ref()
        .ok()
        .and_then(|reply| encode_reply(hub, key, reply));
    let key = key.clone();
    let keep = move |hub: Hub| {
        let (key, stored) = (key.clone(), stored.clone());
        async move {
            match stored {
                Some(stored) => hub.state().finish_key(&key, stored).await,
                None => hub.state().release_key(&key).await,
            }
        }
    };
    hub.retry_until_stored("storing an idempotent reply", keep)
        .await;
    result.map(DispatchedReply::fresh)
}

/// Programs are told that the first request is at work. A person who clicked twice gets its reply as soon as that is there.
async fn claim_key(
    hub: &Hub,
    key: &IdempotencyKey,
    body: &[u8; 32],
    via: Via,
) -> Result<KeyClaim, Problem> {
    let until = Instant::now() + FIRST_FORM_TIMEOUT;
    loop {
        match hub.state().claim_key(key, body).await? {
            KeyClaim::Running if via == Via::Console && Instant::now() < until => {
                sleep(FIRST_FORM_POLL).await;
            }
            claim => return Ok(claim),
        }
    }
}

fn key_conflict(message: &str) -> Problem {
    Problem::precondition(message).with_reason("idempotency_key")
}

/// An idempotency key, scoped to token and route.
pub(super) fn idempotency_key(
    principal: &Principal,
    operation: &Operation,
    arguments: &Map<String, Value>,
    key: String,
) -> Result<IdempotencyKey, Problem> {
    if key.is_empty() || key.len() > MAX_IDEMPOTENCY_KEY_BYTES {
        return Err(Problem::invalid(format!(
            "an `Idempotency-Key` has 1 to {MAX_IDEMPOTENCY_KEY_BYTES} bytes"
        )));
    }
    let mut route = operation.name.to_owned();
    for name in operation.path_argument_names() {
        route.push('/');
        match arguments.get(name) {
            Some(Value::String(id)) => route.push_str(id),
            Some(other) => route.push_str(&other.to_string()),
            None => {}
        }
    }
    Ok(IdempotencyKey {
        token: principal.token.to_string(),
        route,
        key,
    })
}

#[derive(Serialize, Deserialize)]
struct StoredReplyBody {
    etag: Option<String>,
    body: Option<Box<RawValue>>,
}

/// Replies may contain a secret, so they are stored encrypted.
fn encode_reply(hub: &Hub, key: &IdempotencyKey, reply: &Reply) -> Option<StoredReply> {
    let body = match &reply.body {
        ReplyBody::Empty => None,
        ReplyBody::Json(body) => Some((**body).to_owned()),
        ReplyBody::Events(_) | ReplyBody::Bytes(..) => return None,
    };
    let etag = reply.etag.clone();
    let body = serde_json::to_vec(&StoredReplyBody { etag, body })
        .map_err(|error| Problem::internal(&error))
        .and_then(|document| hub.encrypt_reply(&key.key, &document))
        .inspect_err(
            |error| tracing::error!(%error, "failed to encode a reply for its idempotency key"),
        )
        .ok()?;
    Some(StoredReply {
        status: reply.status,
        body,
    })
}

fn decode_reply(hub: &Hub, key: &IdempotencyKey, stored: &StoredReply) -> Result<Reply, Problem> {
    let document = hub.decrypt_reply(&key.key, &stored.body)?;
    let StoredReplyBody { etag, body } =
        serde_json::from_slice(&document).map_err(|error| Problem::internal(&error))?;
    Ok(Reply {
        status: stored.status,
        etag,
        body: body.map_or(ReplyBody::Empty, |body| ReplyBody::Json(body.into())),
    })
}
