//! A tenant's agent: its state, starting and stopping it, and requests that it carries out itself: about its model, its MCP
//! servers and its sessions.

use std::time::Duration;

use hermes_protocol::{AgentReply, AgentRequest, RefusalReason, RequestRefusal};

use super::TenantRef;
use crate::{
    Hub, Problem, ProblemCode, TenantId,
    service::{
        call::{Call, Reply},
        home_config::policy_problem,
    },
    tenants::agents::problem_from_runtime,
};

pub(crate) async fn get(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    Reply::json(&call.hub.agents().state(call.tenant_id()?).await)
}

pub(crate) async fn start(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    call.record_audit().await?;
    Ok(Reply::json(&call.hub.agents().start(call.tenant_id()?))?.status(202))
}

pub(crate) async fn stop(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    call.record_audit().await?;
    Ok(Reply::json(&call.hub.agents().stop(call.tenant_id()?))?.status(202))
}

pub(crate) async fn restart(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    call.record_audit().await?;
    Ok(Reply::json(&call.hub.agents().restart(call.tenant_id()?))?.status(202))
}

/// Asks a tenant's agent, which is woken for it.
pub(crate) async fn ask_agent(
    hub: &Hub,
    tenant: &TenantId,
    request: &AgentRequest,
    timeout: Duration,
) -> Result<AgentReply, Problem> {
    let agents = hub.agents();
    let _awake = agents.keep_awake(tenant);
    agents.wake(tenant).await?;
    let asked = agents.runtime().send_request(tenant, request, timeout);
    match tokio::time::timeout(timeout, asked).await {
        Ok(Ok(AgentReply::Refused(refusal))) => Err(refusal_problem(refusal)),
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(error)) => Err(problem_from_runtime(&error)),
        Err(_) => Err(Problem::new(
            ProblemCode::DeadlineExceeded,
            format!(
                "the tenant's agent did not answer within {} s",
                timeout.as_secs()
            ),
        )),
    }
}

/// The problem of a reply that belongs to another request.
pub(crate) fn unexpected_reply() -> Problem {
    Problem::new(
        ProblemCode::Unimplemented,
        "the tenant's agent answered something else; restart it, so that it has the Hub's version",
    )
}

fn refusal_problem(refusal: RequestRefusal) -> Problem {
    let RequestRefusal { reason, message } = refusal;
    match reason {
        RefusalReason::NotFound => Problem::not_found(message),
        RefusalReason::Policy => policy_problem(message),
        RefusalReason::Arguments => {
            Problem::invalid(message).with_detail("arguments", "do not fit")
        }
        RefusalReason::Unusable => Problem::precondition(message).with_reason("server_unusable"),
        RefusalReason::LoginNeeded => Problem::precondition(message).with_reason("login_needed"),
        RefusalReason::LoginFailed => Problem::precondition(message).with_reason("login_failed"),
        RefusalReason::Taken => Problem::new(ProblemCode::AlreadyExists, message),
        RefusalReason::Busy => Problem::precondition(message).with_reason("busy"),
        RefusalReason::TimedOut => Problem::new(ProblemCode::DeadlineExceeded, message),
    }
}
