//! A Hub without HTTP: a database in a temporary directory, and agents that follow a script.

mod fixed_tenants;
mod journal;
mod scripted_events;
mod scripted_runtime;
mod server_replies;

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use hermes_hub::{
    RunId, TenantId,
    api_types::{KeyHash, Run, RunTrigger, StoredEvent, TenantStatus, new_uid},
    storage::{
        audit::NewAuditEntry,
        encryption::EncryptedSecret,
        state::{NewRuntimeKey, NewTenant, SqliteState, State},
    },
    tenants::{
        agents::Agents,
        runs::{PreviousEnd, RunRequest, RunStreamItem, Runs},
        runtime::Runtime,
    },
};
use hermes_testkit::eventually_some;
use serde_json::Map;
use tempfile::TempDir;

pub(crate) use crate::agent_harness::{
    fixed_tenants::FixedTenants, scripted_runtime::ScriptedRuntime,
};

/// Long enough for a machine under load; not reached when tests pass.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) struct AgentHarness {
    pub(crate) directory: TempDir,
    pub(crate) state: Arc<dyn State>,
    pub(crate) agent: Arc<ScriptedRuntime>,
    pub(crate) tenancy: Arc<FixedTenants>,
    pub(crate) agents: Arc<Agents>,
    pub(crate) runs: Arc<Runs>,
}

impl AgentHarness {
    pub(crate) async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let agent = ScriptedRuntime::new();
        let tenancy = Arc::new(FixedTenants::new(directory.path()));
        let state = open_state(directory.path()).await;
        Self::with(directory, state, agent, tenancy, PreviousEnd::Stopped).await
    }

    async fn with(
        directory: TempDir,
        state: Arc<dyn State>,
        agent: Arc<ScriptedRuntime>,
        tenancy: Arc<FixedTenants>,
        previous_end: PreviousEnd,
    ) -> Self {
        let runtime: Arc<dyn Runtime> = agent.clone();
        let agents = Agents::new(state.clone(), runtime, tenancy.clone(), "n1".into());
        let runs = Runs::start(state.clone(), agents.clone(), previous_end)
            .await
            .unwrap();
        Self {
            directory,
            state,
            agent,
            tenancy,
            agents,
            runs,
        }
    }

    /// Kills the Hub and its tenants' processes, and starts it again on the same directory.
    pub(crate) async fn kill_and_restart(self) -> Self {
        self.end_and_restart(PreviousEnd::Crashed).await
    }

    /// The same, with a Hub that ended in this way.
    pub(crate) async fn end_and_restart(self, end: PreviousEnd) -> Self {
        // What was under way goes on no longer; nothing is told to anybody.
        self.runs.close(Duration::ZERO).await;
        self.agent.kill_all();
        let Self {
            directory,
            state,
            agent,
            tenancy,
            ..
        } = self;
        state.close().await;
        let state = open_state(directory.path()).await;
        Self::with(directory, state, agent, tenancy, end).await
    }

    /// A tenant that is ready.
    pub(crate) async fn tenant(&self, id: &str) -> TenantId {
        let tenant = TenantId::parse(id).unwrap();
        make_tenant(&*self.state, &tenant).await;
        std::fs::create_dir_all(self.tenancy.home(&tenant)).unwrap();
        tenant
    }

    /// A run that does what the script says.
    pub(crate) async fn run(&self, tenant: &TenantId, script: &str) -> Run {
        self.run_with(tenant, request(script)).await
    }

    pub(crate) async fn run_with(&self, tenant: &TenantId, request: RunRequest) -> Run {
        let entry = NewAuditEntry::by_hub("create_run");
        self.runs
            .create(tenant, request, RunTrigger::Api, entry)
            .await
            .unwrap()
    }

    /// All events of a run, from the first to its end.
    pub(crate) async fn events(&self, tenant: &TenantId, run: &RunId) -> Vec<StoredEvent> {
        let all = self.runs.events(tenant, run, 0).map(|event| match event {
            Ok(RunStreamItem::Event(event)) => (*event).clone(),
            other => panic!("no event: {other:?}"),
        });
        tokio::time::timeout(TIMEOUT, all.collect())
            .await
            .expect("the run does not end")
    }

    /// Waits for the end of a run and returns it.
    pub(crate) async fn finished_run(&self, tenant: &TenantId, run: &RunId) -> Run {
        self.events(tenant, run).await;
        self.state.run(tenant, run).await.unwrap().unwrap().run
    }

    /// Waits until something holds.
    pub(crate) async fn wait_until<F: Future<Output = bool>>(
        &self,
        what: &str,
        holds: impl Fn() -> F,
    ) {
        let held = eventually_some(TIMEOUT, async || holds().await.then_some(())).await;
        assert!(held.is_some(), "never: {what}");
    }

    /// Waits until a run has had an event of that name.
    pub(crate) async fn wait_for_event(&self, tenant: &TenantId, run: &RunId, name: &str) {
        let mut events = self.runs.events(tenant, run, 0);
        let wait = async {
            while let Some(event) = events.next().await {
                if matches!(event, Ok(RunStreamItem::Event(event)) if event.event == name) {
                    return;
                }
            }
            panic!("the run ended without `{name}`");
        };
        tokio::time::timeout(TIMEOUT, wait)
            .await
            .unwrap_or_else(|_| panic!("no `{name}` came"));
    }
}

pub(crate) fn request(script: &str) -> RunRequest {
    RunRequest {
        input: script.into(),
        ..RunRequest::default()
    }
}

/// The names of events.
pub(crate) fn names(events: &[StoredEvent]) -> Vec<&str> {
    events.iter().map(|event| event.event.as_str()).collect()
}

pub(crate) async fn open_state(directory: &std::path::Path) -> Arc<dyn State> {
    let file = directory.join("hub.db");
    Arc::new(SqliteState::open(&file, "n1").await.unwrap())
}

pub(crate) async fn make_tenant(state: &dyn State, tenant: &TenantId) {
    let uid = new_uid().unwrap();
    let new = NewTenant {
        id: tenant.clone(),
        runtime_key: NewRuntimeKey {
            hash: KeyHash::from_key(tenant.as_str()),
            encrypted: EncryptedSecret::from_bytes(Vec::new()),
            last4: "test".into(),
            grace_until: None,
        },
        uid,
        display_name: tenant.to_string(),
        status: TenantStatus::Ready,
        flavor: "standard".into(),
        agent: Map::new(),
        storage: Map::new(),
        browser: Map::new(),
        groups: Vec::new(),
        labels: std::collections::BTreeMap::new(),
        linked_home: None,
        env: Vec::new(),
    };
    state
        .create_tenant(new, NewAuditEntry::by_hub("create_tenant"))
        .await
        .unwrap();
    // Where several nodes share the database, this one works for it.
    state
        .claim_leases(std::slice::from_ref(tenant), Duration::from_mins(10))
        .await
        .unwrap();
}
