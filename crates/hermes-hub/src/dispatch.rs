//! From a request to its operation: authorization, tenant lookup, idempotency and audit.

use std::{
    net::IpAddr,
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
    Code, GroupId, Hub, Problem, TenantId,
    app::KnownTenant,
    audit::NewEntry,
    auth::{KeyHash, Principal},
    call::{Body, Call, Reply},
    ids::hex,
    operations::{Effect, Gate, Naming, Operation},
    scrub,
    shapes::{AccessStatus, Decision, MemberAccess, Via},
    state::{IdempotencyKey, KeyClaim, StoredReply},
};

const LONGEST_KEY: usize = 128;

/// The arguments of a request, by their tool names.
pub(crate) struct Arguments {
    /// At least the arguments that name tenant and share.
    pub(crate) known: Map<String, Value>,
    /// All arguments, if the body is not read yet. It is not read for callers who may not call the operation.
    pub(crate) all: Option<BoxFuture<'static, Result<Map<String, Value>, Problem>>>,
    pub(crate) naming: Naming,
}

/// The authenticated sender of a request.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    pub(crate) principal: Arc<Principal>,
    /// Hash of the presented token.
    pub(crate) key: Option<KeyHash>,
    pub(crate) address: IpAddr,
}

/// An authenticated request for an operation.
pub(crate) struct Request {
    pub(crate) operation: &'static Operation,
    pub(crate) visitor: Visitor,
    pub(crate) via: Via,
    pub(crate) id: Arc<str>,
    pub(crate) arguments: Arguments,
    pub(crate) if_match: Option<String>,
    pub(crate) last_event_id: Option<u64>,
    pub(crate) range: Option<String>,
    pub(crate) idempotency_key: Option<String>,
}

/// A reply, and whether it is replayed for an idempotency key.
pub(crate) struct Dispatched {
    pub(crate) reply: Reply,
    pub(crate) is_replay: bool,
}

impl Dispatched {
    fn fresh(reply: Reply) -> Self {
        Self {
            reply,
            is_replay: false,
        }
    }
}

/// Runs the operation of a request.
pub(crate) async fn dispatch(hub: &Hub, request: Request) -> Result<Dispatched, Problem> {
    let started = Instant::now();
    let operation = request.operation;
    let via = request.via;
    let mut entry = NewEntry::new(
        request.visitor.principal.token.as_str(),
        via,
        operation.name,
    );
    let actor = entry.actor.clone();
    entry.status = operation.success[0];
    entry.started = started;
    entry.request_id = request.id.to_string();
    // So that log lines can be filtered by request.
    let span = tracing::info_span!("request", requestId = %request.id, operation = operation.name);
    let work = perform(hub.clone(), request, entry).instrument(span.clone());
    let result = match operation.effect {
        Effect::Reads => work.await,
        // A client that disconnects must not interrupt a change.
        Effect::Changes | Effect::Destroys => match hub.work().spawn(work).await {
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
        .request(operation.name, via.word(), status, took);
    if let Err(problem) = &result
        && problem.code == Code::PermissionDenied
    {
        let reason = problem.reason.unwrap_or_default();
        tracing::info!(parent: &span, status, reason, actor = %actor, "request refused: {}", problem.message);
    }
    tracing::debug!(parent: &span, status, milliseconds = took.as_secs_f64() * 1000.0, "request answered");
    result
}

/// Adds what a request is about to its audit entry.
fn describe(entry: &mut NewEntry, arguments: &Map<String, Value>) {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    entry.tenant = text("tenant_id")
        .filter(|id| TenantId::parse(id).is_ok())
        .map(str::to_owned);
    entry.target = target(arguments).map(|target| scrub::keys(&target).into_owned());
    entry.arg_names = arguments
        .keys()
        .map(|name| beginning(name, 64).to_owned())
        .collect();
    entry.arg_names.sort_unstable();
    if let Some(content) = text("content") {
        entry.size = Some(content.len() as u64);
        entry.content_sha256 = Some(hex(&Sha256::digest(content)));
    }
}

/// The target of a request: a share's path, a job, a group and so on; never a value.
fn target(arguments: &Map<String, Value>) -> Option<String> {
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
    Some(beginning(&target, 512).to_owned())
}

fn beginning(text: &str, characters: usize) -> &str {
    if text.len() <= characters {
        return text;
    }
    let end = text.char_indices().nth(characters);
    end.map_or(text, |(end, _)| &text[..end])
}

async fn perform(hub: Hub, request: Request, mut entry: NewEntry) -> Result<Dispatched, Problem> {
    let operation = request.operation;
    describe(&mut entry, &request.arguments.known);
    let is_logged = Arc::new(AtomicBool::new(false));
    let result = proceed(&hub, request, &mut entry, Arc::clone(&is_logged)).await;
    if !is_logged.load(Ordering::Relaxed) {
        log(&hub, operation, entry, &result);
    }
    result
}

/// Writes audit entries that no transaction contains: reads and failures.
fn log(
    hub: &Hub,
    operation: &Operation,
    mut entry: NewEntry,
    result: &Result<Dispatched, Problem>,
) {
    let problem = result.as_ref().err();
    entry.status = match result {
        Ok(dispatched) => dispatched.reply.status,
        Err(problem) => problem.code.status(),
    };
    let is_denied = problem.is_some_and(|problem| problem.code == Code::PermissionDenied);
    if is_denied {
        entry.decision = Decision::Deny;
    }
    let is_wanted = match (operation.effect, problem) {
        (Effect::Reads, _) => entry.via == Via::Mcp || is_denied || hub.settings().audit.rest_reads,
        (_, Some(_)) => true,
        // Its entry was committed with its effect.
        (_, None) => false,
    };
    if is_wanted {
        entry.idempotency = None;
        hub.log_read(entry);
    }
}

async fn proceed(
    hub: &Hub,
    request: Request,
    entry: &mut NewEntry,
    is_logged: Arc<AtomicBool>,
) -> Result<Dispatched, Problem> {
    let operation = request.operation;
    if let Some(scope) = operation.needed_scope() {
        request.visitor.principal.require(scope)?;
    }
    let tenant = gate(
        hub,
        operation,
        &request.visitor.principal,
        &request.arguments.known,
    )
    .await?;
    let arguments = match request.arguments.all {
        Some(all) => {
            let all = all.await?;
            describe(entry, &all);
            all
        }
        None => request.arguments.known,
    };
    operation.check_rights(&request.visitor.principal, &arguments)?;
    operation
        .input
        .check(&arguments, request.arguments.naming)?;
    let key = match request.idempotency_key {
        Some(key) if operation.effect != Effect::Reads => Some(idempotency_key(
            &request.visitor.principal,
            operation,
            &arguments,
            key,
        )?),
        _ => None,
    };
    entry.idempotency.clone_from(&key);
    let call = Call {
        hub: hub.clone(),
        visitor: request.visitor,
        via: request.via,
        if_match: request.if_match,
        last_event_id: request.last_event_id,
        range: request.range,
        tenant,
        entry: entry.clone(),
        is_logged,
    };
    match key {
        Some(key) => once(hub, operation, call, arguments, &key).await,
        None => operation.run(call, arguments).await.map(Dispatched::fresh),
    }
}

/// Runs the operation, unless this idempotency key was used before.
async fn once(
    hub: &Hub,
    operation: &Operation,
    call: Call,
    arguments: Map<String, Value>,
    key: &IdempotencyKey,
) -> Result<Dispatched, Problem> {
    let body = serde_json::to_vec(&arguments).map_err(|error| Problem::internal(&error))?;
    match hub
        .state()
        .claim_key(key, &Sha256::digest(body).into())
        .await?
    {
        KeyClaim::First => {}
        KeyClaim::Replay(stored) => {
            return Ok(Dispatched {
                reply: unpack(hub, key, &stored)?,
                is_replay: true,
            });
        }
        KeyClaim::Running => {
            return Err(key_conflict(
                "a request with this `Idempotency-Key` is in progress; wait for it",
            ));
        }
        KeyClaim::OtherBody => {
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
    let stored = result.as_ref().ok().and_then(|reply| pack(hub, key, reply));
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
    hub.see_to("storing an idempotent reply", keep).await;
    result.map(Dispatched::fresh)
}

fn key_conflict(message: &str) -> Problem {
    Problem::precondition(message).because("idempotency_key")
}

/// An idempotency key, scoped to token and route.
fn idempotency_key(
    principal: &Principal,
    operation: &Operation,
    arguments: &Map<String, Value>,
    key: String,
) -> Result<IdempotencyKey, Problem> {
    if key.is_empty() || key.len() > LONGEST_KEY {
        return Err(Problem::invalid(format!(
            "an `Idempotency-Key` has 1 to {LONGEST_KEY} bytes"
        )));
    }
    let mut route = operation.name.to_owned();
    for name in operation.names_in_path() {
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
struct Packed {
    etag: Option<String>,
    body: Option<Box<RawValue>>,
}

/// Replies may contain a secret, so they are stored encrypted.
fn pack(hub: &Hub, key: &IdempotencyKey, reply: &Reply) -> Option<StoredReply> {
    let body = match &reply.body {
        Body::Empty => None,
        Body::Json(body) => Some((**body).to_owned()),
        Body::Events(_) | Body::Bytes(..) => return None,
    };
    let etag = reply.etag.clone();
    let body = serde_json::to_vec(&Packed { etag, body })
        .map_err(|error| Problem::internal(&error))
        .and_then(|document| hub.seal_reply(&key.key, &document))
        .inspect_err(|error| tracing::error!("{error}"))
        .ok()?;
    Some(StoredReply {
        status: reply.status,
        body,
    })
}

fn unpack(hub: &Hub, key: &IdempotencyKey, stored: &StoredReply) -> Result<Reply, Problem> {
    let document = hub.open_reply(&key.key, &stored.body)?;
    let Packed { etag, body } =
        serde_json::from_slice(&document).map_err(|error| Problem::internal(&error))?;
    Ok(Reply {
        status: stored.status,
        etag,
        body: body.map_or(Body::Empty, |body| Body::Json(body.into())),
    })
}

/// Looks up the tenant and checks the share of a route, with the caller's rights.
async fn gate(
    hub: &Hub,
    operation: &Operation,
    principal: &Principal,
    arguments: &Map<String, Value>,
) -> Result<Option<Arc<KnownTenant>>, Problem> {
    match operation.gate {
        Gate::None => return Ok(None),
        Gate::WholeHub => {
            principal.require_whole_hub()?;
            return Ok(None);
        }
        _ => {}
    }
    let id = argument(arguments, "tenant_id")?;
    let id = TenantId::parse(id)
        .map_err(|error| Problem::invalid(error.to_string()).at("tenant_id", "no id"))?;
    let gone = || Problem::not_found(format!("there is no tenant `{id}`"));
    if !principal.covers(&id) {
        return Err(gone());
    }
    let tenant = hub.tenant(&id).await?.ok_or_else(gone)?;
    if tenant.deleted_at.is_some() && operation.gate != Gate::DeletedTenant {
        return Err(gone());
    }
    if matches!(operation.gate, Gate::ActiveTenant | Gate::Writer)
        && tenant.access.status == AccessStatus::Blocked
    {
        return Err(
            Problem::denied(format!("the tenant `{id}` is blocked; unblock it first"))
                .because("tenant_blocked"),
        );
    }
    if !matches!(operation.gate, Gate::Member | Gate::Writer) {
        return Ok(Some(tenant));
    }
    let group = argument(arguments, "group_id")?;
    let group = GroupId::parse(group)
        .map_err(|error| Problem::invalid(error.to_string()).at("group_id", "no id"))?;
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
        .because("read_only_member"));
    }
    Ok(Some(tenant))
}

fn argument<'a>(arguments: &'a Map<String, Value>, name: &str) -> Result<&'a str, Problem> {
    arguments.get(name).and_then(Value::as_str).ok_or_else(|| {
        Problem::invalid(format!("`{name}` is required and must be a string")).at(name, "required")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(beginning("", 2), "");
        assert_eq!(beginning("ab", 2), "ab");
        assert_eq!(beginning("abc", 2), "ab");
        assert_eq!(beginning("äö", 2), "äö");
        assert_eq!(beginning("äöü", 2), "äö");
    }
}
