//! From a request to its operation: authorization, tenant lookup, idempotency and audit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use sha2::{Digest, Sha256};
use tracing::Instrument;

use crate::{
    GroupId, Hub, Problem, ProblemCode, TenantId,
    api_types::{AccessStatus, Decision, MemberAccess, Via, ids::hex, redact_keys},
    auth::{Caller, Principal},
    hub::CachedTenant,
    operations::{Effect, Gate, NamingStyle, Operation},
    service::call::{Call, Reply, ReplyBody},
    storage::{
        audit::NewAuditEntry,
        state::{IdempotencyKey, KeyClaim, StoredReply},
    },
};

const MAX_IDEMPOTENCY_KEY_BYTES: usize = 128;

/// The arguments of a request, by their tool names.
pub(crate) struct RequestArguments {
    /// At least the arguments that name tenant and share.
    pub(crate) available: Map<String, Value>,
    /// All arguments, if the body is not read yet. It is not read for callers who may not call the operation.
    pub(crate) pending: Option<BoxFuture<'static, Result<Map<String, Value>, Problem>>>,
    pub(crate) naming: NamingStyle,
}

/// An authenticated request for an operation.
pub(crate) struct OperationRequest {
    pub(crate) operation: &'static Operation,
    pub(crate) caller: Caller,
    pub(crate) via: Via,
    pub(crate) id: Arc<str>,
    pub(crate) arguments: RequestArguments,
    pub(crate) if_match: Option<String>,
    pub(crate) last_event_id: Option<u64>,
    pub(crate) range: Option<String>,
    pub(crate) idempotency_key: Option<String>,
}

/// A reply, and whether it is replayed for an idempotency key.
pub(crate) struct DispatchedReply {
    pub(crate) reply: Reply,
    pub(crate) is_replay: bool,
}

impl DispatchedReply {
    fn fresh(reply: Reply) -> Self {
        Self {
            reply,
            is_replay: false,
        }
    }
}

/// Runs the operation of a request.
pub(crate) async fn dispatch(
    hub: &Hub,
    request: OperationRequest,
) -> Result<DispatchedReply, Problem> {
    let started = Instant::now();
    let operation = request.operation;
    let via = request.via;
    let mut entry =
        NewAuditEntry::new(request.caller.principal.token.as_str(), via, operation.name);
    let actor = entry.actor.clone();
    entry.status = operation.success[0];
    entry.started = started;
    entry.request_id = request.id.to_string();
    // So that log lines can be filtered by request.
    let span = tracing::info_span!("request", requestId = %request.id, operation = operation.name);
    let work = execute_and_log(hub.clone(), request, entry).instrument(span.clone());
    let result = match operation.effect {
        Effect::Read => work.await,
        // A client that disconnects must not interrupt a change.
        Effect::Change | Effect::Destroy => match hub.tasks().spawn(work).await {
            Ok(result) => result,
            Err(error) => Err(Problem::internal(&error)),
        },
    };
    let status = match &result {
        Ok(dispatched) => dispatched.reply.status,
        Err(problem) => problem.code.status(),
    };
    let took = started.elapsed();
    hub.metrics()
        .record_request(operation.name, via.as_str(), status, took);
    if let Err(problem) = &result
        && problem.code == ProblemCode::PermissionDenied
    {
        let reason = problem.reason.unwrap_or_default();
        tracing::info!(parent: &span, status, reason, actor = %actor, "request refused: {}", problem.message);
    }
    tracing::debug!(parent: &span, status, milliseconds = took.as_secs_f64() * 1000.0, "request answered");
    result
}

/// Adds what a request is about to its audit entry.
fn describe_entry(entry: &mut NewAuditEntry, arguments: &Map<String, Value>) {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    entry.tenant = text("tenant_id")
        .filter(|id| TenantId::parse(id).is_ok())
        .map(str::to_owned);
    entry.target = audit_target(arguments).map(|target| redact_keys(&target).into_owned());
    entry.arg_names = arguments
        .keys()
        .map(|name| truncate_chars(name, 64).to_owned())
        .collect();
    entry.arg_names.sort_unstable();
    if let Some(content) = text("content") {
        entry.size = Some(content.len() as u64);
        entry.content_sha256 = Some(hex(&Sha256::digest(content)));
    }
}

/// The target of a request: a share's path, a job, a group and so on; never a value.
fn audit_target(arguments: &Map<String, Value>) -> Option<String> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let path = text("path").or_else(|| text("from"));
    let target = match (text("group_id"), path) {
        (Some(group), Some(path)) => format!("{group}:{path}"),
        (Some(group), None) => group.to_owned(),
        (None, Some(path)) => path.to_owned(),
        (None, None) => [
            "job_id",
            "run_id",
            "approval_id",
            "token_id",
            "name",
            "skill",
            "destination",
            "id",
        ]
        .into_iter()
        .find_map(text)?
        .to_owned(),
    };
    Some(truncate_chars(&target, 512).to_owned())
}

fn truncate_chars(text: &str, characters: usize) -> &str {
    if text.len() <= characters {
        return text;
    }
    let end = text.char_indices().nth(characters);
    end.map_or(text, |(end, _)| &text[..end])
}

async fn execute_and_log(
    hub: Hub,
    request: OperationRequest,
    mut entry: NewAuditEntry,
) -> Result<DispatchedReply, Problem> {
    let operation = request.operation;
    describe_entry(&mut entry, &request.arguments.available);
    let is_logged = Arc::new(AtomicBool::new(false));
    let result = execute(&hub, request, &mut entry, Arc::clone(&is_logged)).await;
    if !is_logged.load(Ordering::Relaxed) {
        log_outcome(&hub, operation, entry, &result);
    }
    result
}

/// Writes audit entries that no transaction contains: reads and failures.
fn log_outcome(
    hub: &Hub,
    operation: &Operation,
    mut entry: NewAuditEntry,
    result: &Result<DispatchedReply, Problem>,
) {
    let problem = result.as_ref().err();
    entry.status = match result {
        Ok(dispatched) => dispatched.reply.status,
        Err(problem) => problem.code.status(),
    };
    let is_denied = problem.is_some_and(|problem| problem.code == ProblemCode::PermissionDenied);
    if is_denied {
        entry.decision = Decision::Deny;
    }
    let is_wanted = match (operation.effect, problem) {
        (Effect::Read, _) => entry.via == Via::Mcp || is_denied || hub.settings().audit.rest_reads,
        (_, Some(_)) => true,
        // Its entry was committed with its effect.
        (_, None) => false,
    };
    if is_wanted {
        entry.idempotency = None;
        hub.record_read(entry);
    }
}

async fn execute(
    hub: &Hub,
    request: OperationRequest,
    entry: &mut NewAuditEntry,
    is_logged: Arc<AtomicBool>,
) -> Result<DispatchedReply, Problem> {
    let operation = request.operation;
    if let Some(scope) = operation.required_scope() {
        request.caller.principal.require(scope)?;
    }
    let tenant = check_gate(
        hub,
        operation,
        &request.caller.principal,
        &request.arguments.available,
    )
    .await?;
    let arguments = match request.arguments.pending {
        Some(all) => {
            let all = all.await?;
            describe_entry(entry, &all);
            all
        }
        None => request.arguments.available,
    };
    operation.check_rights(&request.caller.principal, &arguments)?;
    operation
        .input
        .check(&arguments, request.arguments.naming)?;
    let key = match request.idempotency_key {
        Some(key) if operation.effect != Effect::Read => Some(idempotency_key(
            &request.caller.principal,
            operation,
            &arguments,
            key,
        )?),
        _ => None,
    };
    entry.idempotency.clone_from(&key);
    let call = Call {
        hub: hub.clone(),
        caller: request.caller,
        via: request.via,
        if_match: request.if_match,
        last_event_id: request.last_event_id,
        range: request.range,
        tenant,
        entry: entry.clone(),
        is_logged,
    };
    match key {
        Some(key) => execute_idempotent(hub, operation, call, arguments, &key).await,
        None => operation
            .run(call, arguments)
            .await
            .map(DispatchedReply::fresh),
    }
}

/// Runs the operation, unless this idempotency key was used before.
async fn execute_idempotent(
    hub: &Hub,
    operation: &Operation,
    call: Call,
    arguments: Map<String, Value>,
    key: &IdempotencyKey,
) -> Result<DispatchedReply, Problem> {
    let body = serde_json::to_vec(&arguments).map_err(|error| Problem::internal(&error))?;
    match hub
        .state()
        .claim_key(key, &Sha256::digest(body).into())
        .await?
    {
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
    let result = operation.run(call, arguments).await;
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

fn key_conflict(message: &str) -> Problem {
    Problem::precondition(message).with_reason("idempotency_key")
}

/// An idempotency key, scoped to token and route.
fn idempotency_key(
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

/// Looks up the tenant and checks the share of a route, with the caller's rights.
async fn check_gate(
    hub: &Hub,
    operation: &Operation,
    principal: &Principal,
    arguments: &Map<String, Value>,
) -> Result<Option<Arc<CachedTenant>>, Problem> {
    match operation.gate {
        Gate::None => return Ok(None),
        Gate::WholeHub => {
            principal.require_whole_hub()?;
            return Ok(None);
        }
        _ => {}
    }
    let id = string_argument(arguments, "tenant_id")?;
    let id = TenantId::parse(id)
        .map_err(|error| Problem::invalid(error.to_string()).with_detail("tenant_id", "no id"))?;
    let gone = || Problem::not_found(format!("there is no tenant `{id}`"));
    if !principal.covers_tenant(&id) {
        return Err(gone());
    }
    let tenant = hub.tenant(&id).await?.ok_or_else(gone)?;
    if tenant.deleted_at.is_some() && operation.gate != Gate::AnyTenant {
        return Err(gone());
    }
    if matches!(operation.gate, Gate::ActiveTenant | Gate::Writer)
        && tenant.access.status == AccessStatus::Blocked
    {
        return Err(
            Problem::denied(format!("the tenant `{id}` is blocked; unblock it first"))
                .with_reason("tenant_blocked"),
        );
    }
    if !matches!(operation.gate, Gate::Member | Gate::Writer) {
        return Ok(Some(tenant));
    }
    let group = string_argument(arguments, "group_id")?;
    let group = GroupId::parse(group)
        .map_err(|error| Problem::invalid(error.to_string()).with_detail("group_id", "no id"))?;
    let membership = tenant
        .groups
        .iter()
        .find(|membership| membership.id == group)
        .map(|membership| membership.access);
    let access =
        membership.ok_or_else(|| Problem::not_found(format!("there is no share `{group}`")))?;
    if operation.gate == Gate::Writer && access != MemberAccess::Write {
        return Err(Problem::denied(format!(
            "the tenant may only read the share `{group}`; give it write access first"
        ))
        .with_reason("read_only_member"));
    }
    Ok(Some(tenant))
}

fn string_argument<'a>(arguments: &'a Map<String, Value>, name: &str) -> Result<&'a str, Problem> {
    arguments.get(name).and_then(Value::as_str).ok_or_else(|| {
        Problem::invalid(format!("`{name}` is required and must be a string"))
            .with_detail(name, "required")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(truncate_chars("", 2), "");
        assert_eq!(truncate_chars("ab", 2), "ab");
        assert_eq!(truncate_chars("abc", 2), "ab");
        assert_eq!(truncate_chars("äö", 2), "äö");
        assert_eq!(truncate_chars("äöü", 2), "äö");
    }
}
