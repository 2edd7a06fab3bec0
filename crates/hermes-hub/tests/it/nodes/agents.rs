//! Agents of tenants whose lease comes and goes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_hub::{
    TenantId,
    api_types::AgentPhase,
    storage::state::State,
    tenants::{
        agents::Agents,
        leases::{LeaseOptions, Leases, SharedHomes},
        runtime::{ProcessStatus, Runtime as _},
    },
};
use hermes_testkit::{eventually, eventually_some};

use super::cluster::{Cluster, TIMEOUT, open_state};
use crate::agent_harness::{FixedTenants, ScriptedRuntime, make_tenant};

/// A node that may work for a tenant, without anything that acts on its leases.
struct LeasedAgents {
    _cluster: Cluster,
    _homes: tempfile::TempDir,
    state: Arc<dyn State>,
    tenancy: Arc<FixedTenants>,
    processes: Arc<ScriptedRuntime>,
    leases: Arc<Leases>,
    agents: Arc<Agents>,
    tenant: TenantId,
}

impl LeasedAgents {
    async fn new() -> Self {
        let cluster = Cluster::new().await;
        let state = open_state(&cluster.url, "n1").await;
        let tenant = TenantId::parse("acme").unwrap();
        make_tenant(&*state, &tenant).await;
        let homes = tempfile::tempdir().unwrap();
        let tenancy = Arc::new(FixedTenants::new(homes.path()));
        let processes = ScriptedRuntime::new();
        let options = LeaseOptions {
            lasting: Duration::from_mins(10),
            capacity: 10,
            idle_release: Duration::from_mins(10),
        };
        let leases = Leases::new(
            Arc::clone(&state),
            Arc::new(SharedHomes),
            "n1".into(),
            options,
        );
        let agents = Agents::with_leases(
            Arc::clone(&state),
            processes.clone(),
            tenancy.clone(),
            "n1".into(),
            Arc::clone(&leases),
        );
        Self {
            _cluster: cluster,
            _homes: homes,
            state,
            tenancy,
            processes,
            leases,
            agents,
            tenant,
        }
    }

    async fn has_process(&self) -> bool {
        let status = self.processes.status(&self.tenant).await;
        matches!(status, ProcessStatus::Running { .. })
    }

    async fn wait_until_gone(&self) {
        let gone = eventually_some(TIMEOUT, async || (!self.has_process().await).then_some(()));
        gone.await.expect("a process is left behind");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_is_left_behind_by_a_lease_that_is_lost_while_its_agent_is_checked() {
    let node = LeasedAgents::new().await;
    node.agents.wake(&node.tenant).await.unwrap();
    assert!(node.has_process().await);
    // It did not answer, and neither does the database: the check cannot go on.
    node.tenancy.make_unreadable(&node.tenant);
    node.agents.report_unresponsive(&node.tenant).await;
    let is_checked = eventually(TIMEOUT, || node.tenancy.refusals() > 0);
    assert!(is_checked.await, "it is not checked");
    assert!(node.has_process().await);
    node.leases.lose_all();
    node.wait_until_gone().await;
    let asleep = eventually_some(TIMEOUT, async || {
        let state = node.agents.state(&node.tenant).await.state;
        (state == AgentPhase::Sleeping).then_some(())
    });
    asleep.await.expect("it does not count as asleep");
    assert_eq!(node.processes.starts(&node.tenant), 1);
    node.agents.close().await;
    node.state.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_checked_again_when_the_database_answers_goes_on() {
    let node = LeasedAgents::new().await;
    node.agents.wake(&node.tenant).await.unwrap();
    node.tenancy.make_unreadable(&node.tenant);
    node.agents.report_unresponsive(&node.tenant).await;
    let is_checked = eventually(TIMEOUT, || node.tenancy.refusals() > 0);
    assert!(is_checked.await, "it is not checked");
    node.tenancy.make_readable(&node.tenant);
    node.agents.wake(&node.tenant).await.unwrap();
    assert!(node.has_process().await);
    let state = node.agents.state(&node.tenant).await.state;
    assert_eq!(state, AgentPhase::Idle);
    node.agents.close().await;
    node.state.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_starts_with_a_deadline_before_the_end_of_its_lease() {
    let node = LeasedAgents::new().await;
    let lasting = Duration::from_mins(10);
    let before = Instant::now();
    node.agents.wake(&node.tenant).await.unwrap();
    let deadline = node.processes.deadline(&node.tenant).unwrap();
    assert!(deadline > before + lasting * 2 / 3);
    assert!(deadline < Instant::now() + lasting);
    node.agents.close().await;
    node.state.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_each_renewal_of_a_lease_its_agent_gets_a_later_deadline() {
    let mut cluster = Cluster::new().await;
    cluster.lease_seconds = 12;
    let node = cluster.node("n1").await;
    node.site
        .tenant(serde_json::json!({"id": "acme", "displayName": "Acme"}))
        .await;
    let run = node.run("acme", "say=1").await;
    node.run_becomes("acme", &run, "completed").await;
    let tenant = TenantId::parse("acme").unwrap();
    let first = node.agents.deadline(&tenant).unwrap();
    let is_later = eventually(TIMEOUT, || node.agents.deadline(&tenant) > Some(first));
    assert!(is_later.await, "the deadline stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handover_ends_a_process_that_the_agents_phase_does_not_tell_of() {
    let node = LeasedAgents::new().await;
    let spec = node.agents.tenant_lookup().agent_spec(&node.tenant).await;
    let launch = spec.unwrap().launch;
    node.processes.start(launch).await.unwrap();
    assert!(node.has_process().await);
    node.agents
        .stop_for_handover(&node.tenant, Duration::ZERO)
        .await;
    assert!(!node.has_process().await, "a process is left behind");
    node.agents.close().await;
    node.state.close().await;
}
