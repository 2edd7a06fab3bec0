//! From a request to its operation: authorization, tenant lookup, idempotency and audit.

mod idempotency;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use self::idempotency::{execute_idempotent, idempotency_key};
use base64::{Engine, prelude::BASE64_STANDARD};
use futures::future::BoxFuture;
use hermes_config::traced_span;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tracing::{Instrument, Span, field::Empty};

use crate::{
    GroupId, Hub, Problem, ProblemCode, TenantId,
    api_types::{AccessStatus, Decision, MemberAccess, Via, ids::hex, redact_keys},
    auth::Caller,
    hub::CachedTenant,
    operations::{
        Effect, ExecutingNode, Gate, NamingStyle, Operation,
        at_holder::{self, ForwardedOutcome, HomeNode, RequestContext},
        manifest_members::check_manifest,
    },
    service::call::{Call, Reply},
    storage::audit::NewAuditEntry,
};

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
    let trace = operation_span(&request);
    let work = execute_and_log(hub.clone(), request, entry)
        .instrument(span.clone())
        .instrument(trace.clone());
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
    trace.record("http.response.status_code", i64::from(status));
    if let Err(problem) = &result {
        trace.record("error.type", problem.code.as_str());
    }
    if status >= 500 {
        trace.record("otel.status_code", "ERROR");
    }
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

/// The exported span of an operation: what it is and whose, never its arguments.
fn operation_span(request: &OperationRequest) -> Span {
    let span = traced_span!(
        "operation",
        otel.name = request.operation.name,
        otel.status_code = Empty,
        http.response.status_code = Empty,
        "error.type" = Empty,
        hermes.operation = request.operation.name,
        hermes.via = request.via.as_str(),
        hermes.tenant.id = Empty,
        hermes.request.id = &*request.id
    );
    let tenant = request.arguments.available.get("tenant_id");
    if let Some(tenant) = tenant.and_then(Value::as_str)
        && !span.is_none()
        && TenantId::parse(tenant).is_ok()
    {
        span.record("hermes.tenant.id", tenant);
    }
    span
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
    let mut describe = |content: &[u8]| {
        entry.size = Some(content.len() as u64);
        entry.content_sha256 = Some(hex(&Sha256::digest(content)));
    };
    let packed = || text("content_base64").or_else(|| text("archive"));
    if let Some(content) = text("content") {
        describe(content.as_bytes());
    } else if let Some(content) = packed().and_then(|packed| BASE64_STANDARD.decode(packed).ok()) {
        describe(&content);
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
            "server",
            "destination",
            "session_id",
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
        &request.caller,
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
    if operation.input.takes_yaml {
        check_manifest(&arguments)?;
    }
    let mut home_use = None;
    if operation.place == ExecutingNode::LeaseHolder
        && let Some(tenant) = &tenant
    {
        match at_holder::find_home(hub, &tenant.id).await? {
            HomeNode::Here(here) => home_use = here,
            HomeNode::Node(holder) => {
                let context = RequestContext {
                    operation,
                    caller: request.caller.clone(),
                    via: request.via,
                    id: request.id.to_string(),
                    naming: request.arguments.naming,
                    if_match: request.if_match.clone(),
                    last_event_id: request.last_event_id,
                    range: request.range.clone(),
                    idempotency_key: request.idempotency_key.clone(),
                };
                let forwarded =
                    at_holder::forward(hub, holder, &tenant.id, context, arguments.clone()).await;
                match forwarded {
                    Ok(ForwardedOutcome::Here(here)) => home_use = here,
                    replied => {
                        // That node has it in its own log.
                        is_logged.store(true, Ordering::Relaxed);
                        if let ForwardedOutcome::Replied(reply) = replied? {
                            return Ok(reply);
                        }
                    }
                }
            }
        }
    }
    let _home_use = home_use;
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
        None => run_operation(operation, call, arguments)
            .await
            .map(DispatchedReply::fresh),
    }
}

/// Runs the operation. What it has changed in a home is stored before anybody hears of it.
async fn run_operation(
    operation: &Operation,
    call: Call,
    arguments: Map<String, Value>,
) -> Result<Reply, Problem> {
    let changes_home =
        operation.place == ExecutingNode::LeaseHolder && operation.effect != Effect::Read;
    let changed = call.tenant.as_ref().filter(|_| changes_home).cloned();
    let hub = call.hub.clone();
    let reply = operation.run(call, arguments).await?;
    if let Some(tenant) = changed {
        hub.leases().save_home(&tenant.id).await?;
    }
    Ok(reply)
}

/// Looks up the tenant and checks the share of a route, with the caller's rights.
async fn check_gate(
    hub: &Hub,
    operation: &Operation,
    caller: &Caller,
    arguments: &Map<String, Value>,
) -> Result<Option<Arc<CachedTenant>>, Problem> {
    let principal = &caller.principal;
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
    let tenant = if caller.is_caught_up() {
        hub.known_tenant(&id).await?
    } else {
        hub.tenant(&id).await?
    };
    if tenant.is_none() && operation.gate == Gate::TenantOrNew {
        principal.require_whole_hub()?;
        return Ok(None);
    }
    let tenant = tenant.ok_or_else(gone)?;
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
