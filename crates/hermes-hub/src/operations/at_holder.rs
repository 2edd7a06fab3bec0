//! Operations on a tenant's home, where several nodes work: they are done by the node that holds the tenant's lease. A
//! node that gets such a request and finds the lease free takes it. Otherwise the request becomes a command for the
//! holder, and its reply comes back the same way. Nodes never connect to each other.

mod forwarded_reply;

use std::{net::IpAddr, time::Duration};

use hermes_config::{trace_context::TraceContext, traced_span};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::Instant;
use tracing::{Instrument as _, Span, field::Empty};

use self::forwarded_reply::ForwardedReply;
use super::{
    Effect, ExecutingNode, NamingStyle, Operation,
    dispatch::{DispatchedReply, OperationRequest, RequestArguments, dispatch},
    table,
};
use crate::{
    Hub, Problem, ProblemCode, TenantId,
    api_types::{KeyHash, Via},
    auth::{Caller, console_sessions::find_person},
    storage::state::{NodeCommand, Notice},
    tenants::leases::{HomeUse, LeaseOwner},
};

/// How long a request waits for the reply of another node.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it waits for that node to begin. Then the node may be gone.
const TAKE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a request waits for a node that has the home.
const FIND_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a reply may take after the node that owes it has lost the lease. It may have died with it.
const LATE_REPLY_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it looks without a notice.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The reason of a node that does not do a request, because it has not got the lease.
const NOT_BEGUN: &str = "lease_moved";
const MAX_COMMANDS: u32 = 50;

/// Operations on a tenant that need only the database, and so are done by any node.
const IN_DATABASE: &[&str] = &[
    "get_tenant",
    "update_tenant",
    "set_tenant_access",
    "get_tenant_access",
    "rotate_runtime_key",
    "list_env",
    "set_env",
    "unset_env",
    "create_run",
    "list_runs",
    "get_run",
    "watch_run",
    "stop_run",
    "decide_run",
    "get_limits",
    "patch_limits",
];

/// Only the holder of its lease has a tenant's home and agent.
pub(super) fn find_place(name: &str, path: &str) -> ExecutingNode {
    if path.contains("{tenant_id}") && !path.contains("/shares") && !IN_DATABASE.contains(&name) {
        ExecutingNode::LeaseHolder
    } else {
        ExecutingNode::AnyNode
    }
}

/// A request that another node has to do.
#[derive(Serialize, Deserialize)]
struct ForwardedRequest {
    from: String,
    operation: String,
    key: [u8; 32],
    /// Of a person without a token. An older version does not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<[u8; 32]>,
    address: IpAddr,
    via: Via,
    id: String,
    arguments: Map<String, Value>,
    is_tool_call: bool,
    if_match: Option<String>,
    last_event_id: Option<u64>,
    range: Option<String>,
    idempotency_key: Option<String>,
    /// The trace that it belongs to. An older version does not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tracestate: Option<String>,
}

impl ForwardedRequest {
    /// The exported span of doing it, in the trace of the request that another node got.
    fn span(&self, tenant: &TenantId) -> Span {
        let span = traced_span!(
            "forwarded",
            otel.name = Empty,
            otel.kind = "server",
            hermes.operation = Empty,
            hermes.tenant.id = tenant.as_str(),
            hermes.node = self.from.as_str()
        );
        // A name that is not in the table may be anything.
        if let Some(operation) = table().find(&self.operation) {
            span.record("otel.name", format!("forwarded {}", operation.name));
            span.record("hermes.operation", operation.name);
        }
        let parent = TraceContext::receive(self.traceparent.as_deref(), self.tracestate.as_deref());
        if let Some(parent) = parent {
            parent.adopt(&span);
        }
        span
    }
}

/// What the dispatcher knows of a request besides its arguments.
pub(super) struct RequestContext {
    pub(super) operation: &'static Operation,
    pub(super) caller: Caller,
    pub(super) via: Via,
    pub(super) id: String,
    pub(super) naming: NamingStyle,
    pub(super) if_match: Option<String>,
    pub(super) last_event_id: Option<u64>,
    pub(super) range: Option<String>,
    pub(super) idempotency_key: Option<String>,
}

/// Which node does an operation on a tenant's home.
pub(super) enum HomeNode {
    /// This one. The tenant is not handed over meanwhile.
    Here(Option<HomeUse>),
    Node(String),
}

/// Finds the node that has a tenant's home, which may become this one.
pub(super) async fn find_home(hub: &Hub, tenant: &TenantId) -> Result<HomeNode, Problem> {
    let leases = hub.leases();
    if !leases.is_shared() {
        return Ok(HomeNode::Here(None));
    }
    let deadline = Instant::now() + FIND_TIMEOUT;
    loop {
        leases.wait_until_left(tenant).await;
        match leases.hold(tenant).await? {
            LeaseOwner::Mine => {
                if let Some(home_use) = leases.use_home(tenant) {
                    return Ok(HomeNode::Here(Some(home_use)));
                }
            }
            LeaseOwner::Elsewhere(Some(holder)) if holder.node != hub.node() => {
                return Ok(HomeNode::Node(holder.node));
            }
            // This one takes no more tenants, so another one has to.
            LeaseOwner::Elsewhere(_) if leases.is_draining() => {
                if let Some(node) = leases.preferred_node(tenant).await? {
                    return Ok(HomeNode::Node(node));
                }
                break;
            }
            // The lease has ended or been handed over just now.
            LeaseOwner::Elsewhere(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
        if Instant::now() >= deadline {
            break;
        }
    }
    Err(unavailable("no node works for this tenant yet; try again"))
}

fn unavailable(message: &str) -> Problem {
    Problem::new(ProblemCode::Unavailable, message)
        .with_reason("lease_elsewhere")
        .with_retry_after(1000)
}

fn internal(error: impl std::fmt::Display) -> Problem {
    Problem::internal(&error)
}

/// What came of a command.
enum CommandOutcome {
    Reply(ForwardedReply),
    NotTaken,
    NoReply,
}

/// A request that another node was asked to do.
pub(super) enum ForwardedOutcome {
    Replied(DispatchedReply),
    /// It was not begun, and this node has the home by now.
    Here(Option<HomeUse>),
}

/// Has another node do a request, and waits for its reply.
pub(super) async fn forward(
    hub: &Hub,
    holder: String,
    tenant: &TenantId,
    request: RequestContext,
    arguments: Map<String, Value>,
) -> Result<ForwardedOutcome, Problem> {
    let span = traced_span!(
        "forward",
        otel.name = format!("forward {}", request.operation.name),
        otel.kind = "client",
        otel.status_code = Empty,
        "error.type" = Empty,
        hermes.operation = request.operation.name,
        hermes.tenant.id = tenant.as_str(),
        hermes.node = holder.as_str()
    );
    let forwarded = forward_until_done(hub, holder, tenant, request, arguments)
        .instrument(span.clone())
        .await;
    if let Err(problem) = &forwarded {
        span.record("error.type", problem.code.as_str());
        span.record("otel.status_code", "ERROR");
    }
    forwarded
}

async fn forward_until_done(
    hub: &Hub,
    holder: String,
    tenant: &TenantId,
    request: RequestContext,
    arguments: Map<String, Value>,
) -> Result<ForwardedOutcome, Problem> {
    let (key, session) = (request.caller.key, request.caller.session);
    if key.is_none() && session.is_none() {
        return Err(unavailable("another node works for this tenant; try again"));
    }
    let effect = request.operation.effect;
    let trace = TraceContext::current();
    let timeout = reply_timeout(request.operation.name, &arguments);
    let forwarded = ForwardedRequest {
        from: hub.node().to_owned(),
        operation: request.operation.name.to_owned(),
        key: key.map_or([0; 32], |key| *key.as_bytes()),
        session: session.map(|session| *session.as_bytes()),
        address: request.caller.address,
        via: request.via,
        id: request.id,
        arguments,
        is_tool_call: request.naming == NamingStyle::Tool,
        if_match: request.if_match,
        last_event_id: request.last_event_id,
        range: request.range,
        idempotency_key: request.idempotency_key,
        traceparent: trace.as_ref().map(|trace| trace.traceparent().to_owned()),
        tracestate: trace.and_then(|trace| trace.tracestate().map(str::to_owned)),
    };
    let document = serde_json::to_vec(&forwarded).map_err(internal)?;
    let deadline = Instant::now() + timeout;
    let mut holder = holder;
    loop {
        match send_command(hub, &holder, tenant, &document, deadline).await? {
            CommandOutcome::Reply(reply) if reply.was_not_begun() && Instant::now() < deadline => {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            CommandOutcome::Reply(reply) => {
                return reply.into_dispatched(hub).map(ForwardedOutcome::Replied);
            }
            CommandOutcome::NotTaken if Instant::now() < deadline => {}
            // Reading it once more does no harm.
            CommandOutcome::NoReply if effect == Effect::Read && Instant::now() < deadline => {}
            CommandOutcome::NotTaken => {
                return Err(unavailable(
                    "the node that works for this tenant did not take the request; try again",
                ));
            }
            // It may have been done.
            CommandOutcome::NoReply => {
                return Err(unavailable(
                    "the node that works for this tenant did not reply in time; look whether it did it",
                ));
            }
        }
        match find_home(hub, tenant).await? {
            HomeNode::Node(next) => holder = next,
            HomeNode::Here(home_use) => return Ok(ForwardedOutcome::Here(home_use)),
        }
    }
}

/// How long a request waits for the reply of another node: longer than that node takes at most.
fn reply_timeout(operation: &str, arguments: &Map<String, Value>) -> Duration {
    match operation {
        "test_tenant_model" | "log_in_to_mcp_server" => Duration::from_secs(90),
        "test_mcp_server" | "list_mcp_tools" | "accept_mcp_tools" => Duration::from_secs(150),
        "call_mcp_tool" => {
            let seconds = arguments.get("timeout_seconds").and_then(Value::as_u64);
            Duration::from_secs(seconds.unwrap_or(120).min(600) + 30)
        }
        "put_manifest" | "upload_archive" => Duration::from_mins(2),
        // The other node first stores all of it.
        "download_file" | "sync_context" => Duration::from_mins(10),
        _ => REPLY_TIMEOUT,
    }
}

/// Sends a command, and withdraws it if it is not taken.
async fn send_command(
    hub: &Hub,
    holder: &str,
    tenant: &TenantId,
    document: &[u8],
    deadline: Instant,
) -> Result<CommandOutcome, Problem> {
    let id = crate::api_types::new_uid().map_err(internal)?;
    let command = NodeCommand {
        id: id.clone(),
        tenant: tenant.clone(),
        request: hub.encrypt_reply(&id, document)?,
    };
    let state = hub.state();
    let lasting = deadline.saturating_duration_since(Instant::now());
    state.send_command(holder, command, lasting).await?;
    hub.notify_nodes(Notice::Commands {
        node: holder.to_owned(),
    });
    let mut take_until = Some(deadline.min(Instant::now() + TAKE_TIMEOUT));
    let mut deadline = deadline;
    let mut is_orphaned = false;
    loop {
        let changed = hub.commands_changed().notified();
        if let Some(sealed) = state.take_reply(&id).await? {
            let document = hub.decrypt_reply(&id, &sealed)?;
            let reply = serde_json::from_slice(&document).map_err(internal)?;
            return Ok(CommandOutcome::Reply(reply));
        }
        let now = Instant::now();
        if take_until.is_some_and(|end| now >= end) {
            if state.withdraw_command(&id).await? {
                return Ok(CommandOutcome::NotTaken);
            }
            take_until = None;
        }
        // From then on nothing that it does for the tenant counts.
        if take_until.is_none() && !is_orphaned && !is_held_by(hub, tenant, holder).await? {
            is_orphaned = true;
            deadline = deadline.min(now + LATE_REPLY_TIMEOUT);
        }
        if now >= deadline {
            return Ok(CommandOutcome::NoReply);
        }
        let _ = tokio::time::timeout(POLL_INTERVAL, changed).await;
    }
}

async fn is_held_by(hub: &Hub, tenant: &TenantId, node: &str) -> Result<bool, Problem> {
    let holder = hub.state().lease_holder(tenant).await?;
    Ok(holder.is_some_and(|holder| holder.node == node))
}

impl Hub {
    /// Does what other nodes have this one do, until the Hub stops.
    pub(crate) fn spawn_command_worker(&self) {
        if !self.leases().is_shared() {
            return;
        }
        let hub = self.clone();
        self.leases().spawn(async move {
            loop {
                let changed = hub.commands_changed().notified();
                match hub.state().take_commands(MAX_COMMANDS).await {
                    Ok(commands) => {
                        for command in commands {
                            let hub = hub.clone();
                            let tasks = hub.tasks().clone();
                            tasks.spawn(async move { hub.run_command(command).await });
                        }
                    }
                    Err(error) => tracing::debug!(%error, "failed to read commands"),
                }
                let _ = tokio::time::timeout(POLL_INTERVAL, changed).await;
            }
        });
    }

    async fn run_command(&self, command: NodeCommand) {
        let (from, reply) = match self.execute_command(&command).await {
            Ok(done) => done,
            Err(problem) => {
                tracing::warn!(%problem, "failed to read a command");
                return;
            }
        };
        let stored = serde_json::to_vec(&reply)
            .map_err(internal)
            .and_then(|document| self.encrypt_reply(&command.id, &document));
        match stored {
            Ok(sealed) => {
                let answer = move |hub: Self| {
                    let (id, sealed) = (command.id.clone(), sealed.clone());
                    async move { hub.state().answer_command(&id, &sealed).await }
                };
                self.retry_until_stored("answering a command", answer).await;
            }
            Err(problem) => tracing::warn!(%problem, "failed to encode a reply"),
        }
        self.notify_nodes(Notice::Commands { node: from });
    }

    /// Who sent a command, and the reply to it.
    async fn execute_command(
        &self,
        command: &NodeCommand,
    ) -> Result<(String, ForwardedReply), Problem> {
        let document = self.decrypt_reply(&command.id, &command.request)?;
        let request: ForwardedRequest = serde_json::from_slice(&document).map_err(internal)?;
        let from = request.from.clone();
        let span = request.span(&command.tenant);
        let dispatched = self
            .dispatch_forwarded(&command.tenant, request)
            .instrument(span);
        let reply = match dispatched.await {
            Ok(dispatched) => ForwardedReply::from_dispatched(self, &command.id, dispatched).await,
            Err(problem) => ForwardedReply::from_problem(problem),
        };
        Ok((from, reply))
    }

    /// Whose request it is, with the rights that they have now: the token may have been revoked since.
    async fn find_caller(&self, request: &ForwardedRequest) -> Result<Caller, Problem> {
        if let Some(session) = request.session {
            let found = find_person(self.state(), session, request.address).await?;
            return found.ok_or_else(|| {
                Problem::new(
                    ProblemCode::Unauthenticated,
                    "you are signed out; sign in again",
                )
            });
        }
        let key = KeyHash::from_bytes(request.key);
        let identity = self
            .authenticator()
            .authenticate_hash(&key, request.address)
            .await?;
        Ok(Caller {
            principal: identity.principal,
            key: Some(key),
            session: None,
            address: request.address,
            caught_up_at: Some(identity.caught_up_at),
        })
    }

    async fn dispatch_forwarded(
        &self,
        tenant: &TenantId,
        request: ForwardedRequest,
    ) -> Result<DispatchedReply, Problem> {
        self.leases().wait_until_left(tenant).await;
        if self.leases().hold(tenant).await? != LeaseOwner::Mine {
            return Err(Problem::new(
                ProblemCode::Unavailable,
                "another node works for this tenant now; try again",
            )
            .with_reason(NOT_BEGUN)
            .with_retry_after(1000));
        }
        let operation = table().find(&request.operation).ok_or_else(|| {
            unavailable("the node that works for this tenant has another version")
        })?;
        let caller = self.find_caller(&request).await?;
        let naming = if request.is_tool_call {
            NamingStyle::Tool
        } else {
            NamingStyle::Rest
        };
        let request = OperationRequest {
            operation,
            caller,
            via: request.via,
            id: request.id.into(),
            arguments: RequestArguments {
                available: request.arguments,
                pending: None,
                naming,
            },
            if_match: request.if_match,
            last_event_id: request.last_event_id,
            range: request.range,
            idempotency_key: request.idempotency_key,
        };
        dispatch(self, request).await
    }
}
