//! Agents of tenants, their runs, and what those wait for.

use super::super::{
    Gate, Operation,
    Verb::{Get, Post},
};
use crate::{
    auth::Scope,
    service::{agent, runs},
    shapes::{AgentState, Approval, Run},
};

pub(super) fn rows() -> Vec<Operation> {
    vec![
        Operation::new("get_tenant_agent", &[Get], "/v1/tenants/{tenant_id}/agent", agent::get)
            .says("Get an agent's state", "Shows whether a tenant's agent runs, sleeps or has failed.")
            .scope(Scope::TenantsRead)
            .reads()
            .gives::<AgentState>(),
        Operation::new("start_tenant_agent", &[Post], "/v1/tenants/{tenant_id}/agent/start", agent::start)
            .says("Start an agent", "Starts a tenant's agent, or wakes it. The reply does not wait for it.")
            .scope(Scope::AgentWrite)
            .gate(Gate::ActiveTenant)
            .idempotent()
            .extended_tool()
            .command("tenant start")
            .success(&[202])
            .gives::<AgentState>(),
        Operation::new("stop_tenant_agent", &[Post], "/v1/tenants/{tenant_id}/agent/stop", agent::stop)
            .says("Stop an agent", "Stops a tenant's agent. The reply does not wait for it.")
            .scope(Scope::AgentWrite)
            .destroys()
            .idempotent()
            .extended_tool()
            .command("tenant stop")
            .success(&[202])
            .gives::<AgentState>(),
        Operation::new("restart_tenant_agent", &[Post], "/v1/tenants/{tenant_id}/agent/restart", agent::restart)
            .says("Restart an agent", "Stops a tenant's agent and starts it again. The reply does not wait for it.")
            .scope(Scope::AgentWrite)
            .gate(Gate::ActiveTenant)
            .destroys()
            .idempotent()
            .command("tenant restart")
            .success(&[202])
            .gives::<AgentState>(),
        Operation::new("create_run", &[Post], "/v1/tenants/{tenant_id}/runs", runs::create)
            .says("Start a run", "Lets a tenant's agent work on something. The reply names the run; it does not wait for it.")
            .scope(Scope::RunsWrite)
            .gate(Gate::ActiveTenant)
            .open_world()
            .extended_tool()
            .command("tenant run")
            .success(&[202])
            .errors(&[507])
            .gives::<Run>(),
        Operation::new("list_runs", &[Get], "/v1/tenants/{tenant_id}/runs", runs::list)
            .says("List runs", "Lists the runs of a tenant's agent, newest first.")
            .scope(Scope::RunsRead)
            .reads()
            .untrusted()
            .command("tenant runs")
            .gives::<runs::RunList>(),
        Operation::new("get_run", &[Get], "/v1/tenants/{tenant_id}/runs/{run_id}", runs::get)
            .says("Get a run", "Shows one run of a tenant's agent, with its answer once it has one.")
            .scope(Scope::RunsRead)
            .reads()
            .untrusted()
            .extended_tool()
            .gives::<Run>(),
        Operation::new("watch_run", &[Get], "/v1/tenants/{tenant_id}/runs/{run_id}/events", runs::watch)
            .says("Watch a run", "Sends the events of a run as they happen, after those that did. `Last-Event-ID` or `after` resumes.")
            .scope(Scope::RunsRead)
            .reads()
            .untrusted()
            .command("tenant watch")
            .gives_events(),
        Operation::new("stop_run", &[Post], "/v1/tenants/{tenant_id}/runs/{run_id}/stop", runs::stop)
            .says("Stop a run", "Tells a run to stop.")
            .scope(Scope::RunsWrite)
            .destroys()
            .idempotent()
            .success(&[202])
            .errors(&[409])
            .gives::<runs::RunStopped>(),
        Operation::new("decide_run", &[Post], "/v1/tenants/{tenant_id}/runs/{run_id}/approval", runs::decide)
            .says("Decide on what a run waits for", "Allows or denies what a run wants to do. The first decision counts.")
            .scope(Scope::RunsApprove)
            .open_world()
            .command("tenant approve")
            .errors(&[409])
            .gives::<runs::ApprovalList>(),
        Operation::new("list_approvals", &[Get], "/v1/approvals", runs::inbox)
            .says("List approvals", "Lists what agents wait for a decision on, oldest first.")
            .scope(Scope::RunsRead)
            .reads()
            .untrusted()
            .extended_tool()
            .gives::<runs::ApprovalInbox>(),
        Operation::new("respond_approval", &[Post], "/v1/approvals/{approval_id}", runs::respond)
            .says("Decide on an approval", "Allows or denies what an agent wants to do. The first decision counts.")
            .scope(Scope::RunsApprove)
            .open_world()
            .extended_tool()
            .errors(&[409])
            .gives::<Approval>(),
    ]
}
