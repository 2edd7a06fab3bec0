//! Agents of tenants, their runs, and what those wait for.

use super::super::{
    Gate,
    HttpMethod::{Get, Post},
    Operation,
};
use crate::{
    api_types::{AgentState, Approval, Run, Scope},
    service::{
        agent,
        agent_card::{self, AgentCard},
        runs,
    },
};

pub(super) fn rows() -> Vec<Operation> {
    let mut rows = agent_rows();
    rows.extend(run_rows());
    rows
}

fn agent_rows() -> Vec<Operation> {
    vec![
        Operation::new(
            "get_tenant_agent",
            &[Get],
            "/v1/tenants/{tenant_id}/agent",
            agent::get,
        )
        .docs(
            "Get an agent's state",
            "Shows whether a tenant's agent runs, sleeps or has failed.",
        )
        .extended_tool()
        .scope(Scope::TenantsRead)
        .read_only()
        .returns::<AgentState>(),
        Operation::new(
            "get_agent_card",
            &[Get],
            "/v1/tenants/{tenant_id}/agent-card",
            agent_card::get,
        )
        .docs(
            "Get an agent's card",
            "Shows a tenant's agent and its skills as an A2A agent card. It needs the feature `a2a` of the policy.",
        )
        .scope(Scope::TenantsRead)
        .read_only()
        .extended_tool()
        .returns::<AgentCard>(),
        Operation::new(
            "start_tenant_agent",
            &[Post],
            "/v1/tenants/{tenant_id}/agent/start",
            agent::start,
        )
        .docs(
            "Start an agent",
            "Starts a tenant's agent. The reply does not wait until it runs.",
        )
        .scope(Scope::AgentWrite)
        .gate(Gate::ActiveTenant)
        .idempotent()
        .extended_tool()
        .command("tenant start")
        .success(&[202])
        .returns::<AgentState>(),
        Operation::new(
            "stop_tenant_agent",
            &[Post],
            "/v1/tenants/{tenant_id}/agent/stop",
            agent::stop,
        )
        .docs(
            "Stop an agent",
            "Stops a tenant's agent. The reply does not wait for its end.",
        )
        .scope(Scope::AgentWrite)
        .destructive()
        .idempotent()
        .extended_tool()
        .command("tenant stop")
        .success(&[202])
        .returns::<AgentState>(),
        Operation::new(
            "restart_tenant_agent",
            &[Post],
            "/v1/tenants/{tenant_id}/agent/restart",
            agent::restart,
        )
        .docs(
            "Restart an agent",
            "Stops a tenant's agent and starts it again. The reply does not wait until it runs.",
        )
        .extended_tool()
        .scope(Scope::AgentWrite)
        .gate(Gate::ActiveTenant)
        .destructive()
        .idempotent()
        .command("tenant restart")
        .success(&[202])
        .returns::<AgentState>(),
    ]
}

fn run_rows() -> Vec<Operation> {
    vec![
        Operation::new("create_run", &[Post], "/v1/tenants/{tenant_id}/runs", runs::create)
            .docs("Start a run", "Starts a run of a tenant's agent. The reply has the run's id and does not wait for its end.")
            .scope(Scope::RunsWrite)
            .gate(Gate::ActiveTenant)
            .open_world()
            .extended_tool()
            .command("tenant run")
            .success(&[202])
            .errors(&[507])
            .returns::<Run>(),
        Operation::new("list_runs", &[Get], "/v1/tenants/{tenant_id}/runs", runs::list)
            .docs("List runs", "Lists the runs of a tenant's agent, newest first.")
            .extended_tool()
            .scope(Scope::RunsRead)
            .read_only()
            .untrusted()
            .command("tenant runs")
            .returns::<runs::RunList>(),
        Operation::new("list_all_runs", &[Get], "/v1/runs", runs::list_all)
            .docs("List the runs of all tenants", "Lists the runs of the agents of all visible tenants, newest first.")
            .scope(Scope::RunsRead)
            .read_only()
            .untrusted()
            .extended_tool()
            .command("hub runs")
            .returns::<runs::RunList>(),
        Operation::new("get_run", &[Get], "/v1/tenants/{tenant_id}/runs/{run_id}", runs::get)
            .docs("Get a run", "Shows one run of a tenant's agent, with what it was asked, and its answer once it has one.")
            .scope(Scope::RunsRead)
            .read_only()
            .untrusted()
            .extended_tool()
            .returns::<runs::RunDetails>(),
        Operation::new("watch_run", &[Get], "/v1/tenants/{tenant_id}/runs/{run_id}/events", runs::watch)
            .docs("Watch a run", "Streams the events of a run, past ones first. `Last-Event-ID` or `after` resumes.")
            .scope(Scope::RunsRead)
            .read_only()
            .untrusted()
            .command("tenant watch")
            .returns_events(),
        Operation::new("stop_run", &[Post], "/v1/tenants/{tenant_id}/runs/{run_id}/stop", runs::stop)
            .docs("Stop a run", "Stops a run. The reply does not wait for its end.")
            .extended_tool()
            .scope(Scope::RunsWrite)
            .destructive()
            .idempotent()
            .success(&[202])
            .errors(&[409])
            .returns::<runs::RunStopped>(),
        Operation::new("decide_run", &[Post], "/v1/tenants/{tenant_id}/runs/{run_id}/approval", runs::decide)
            .docs("Decide on an approval of a run", "Allows or denies what a run wants to do. The first decision counts.")
            .extended_tool()
            .scope(Scope::RunsApprove)
            .open_world()
            .command("tenant approve")
            .errors(&[409, 422])
            .returns::<runs::ApprovalList>(),
        Operation::new("list_approvals", &[Get], "/v1/approvals", runs::list_approvals)
            .docs("List approvals", "Lists the pending approvals of agents, oldest first.")
            .scope(Scope::RunsRead)
            .read_only()
            .untrusted()
            .extended_tool()
            .returns::<runs::ApprovalInbox>(),
        Operation::new("respond_approval", &[Post], "/v1/approvals/{approval_id}", runs::respond_approval)
            .docs("Decide on an approval", "Allows or denies what an agent wants to do. The first decision counts.")
            .scope(Scope::RunsApprove)
            .open_world()
            .extended_tool()
            .errors(&[409, 422])
            .returns::<Approval>(),
    ]
}
