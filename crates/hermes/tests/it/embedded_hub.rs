//! Tenants of a Hub as real processes: what confines them, what ends them, what is left of them.

mod applied_tenant;
mod approvals;
mod blocking;
mod conversations;
mod cron;
mod faults;
mod foreign_text;
mod hub_end;
mod kills;
mod launcher;
mod mcp_servers;
mod platforms;
mod policy;
mod processes;
pub(crate) mod real_hub;
mod secrets;
mod teams;
mod traces;
mod watchers;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use futures::StreamExt;
use hermes::embedded_hub::runtime::{
    Isolation, IsolationSupport, ProcessRuntime, ProcessRuntimeSetup,
};
use hermes_hub::{
    RunId, TenantId,
    tenants::runtime::{AgentEvent, AgentLaunch, ProcessStatus, ResourceLimits, RunInput, Runtime},
};
use hermes_protocol::{Directives, Policy, PromptInput};
use hermes_testkit::model::{ModelScript, ModelServer};
use tempfile::TempDir;

/// A directory that every user can enter, and in it the data of a Hub.
pub(crate) struct HubDir(TempDir);

impl HubDir {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(directory.path().join("data")).unwrap();
        fs::write(directory.path().join("data/hub.db"), "the Hub's own").unwrap();
        fs::create_dir_all(directory.path().join("data/shares/division1")).unwrap();
        fs::write(
            directory.path().join("data/shares/division1/a.md"),
            "shared",
        )
        .unwrap();
        Self(directory)
    }

    fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    fn home(&self, tenant: &str) -> PathBuf {
        let home = self.data().join("tenants").join(tenant).join("home");
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("secret.txt"), format!("secret of {tenant}")).unwrap();
        home
    }
}

/// A tenant whose model answers by script.
pub(crate) struct TestTenant {
    pub(crate) id: TenantId,
    pub(crate) home: PathBuf,
    pub(crate) model: ModelServer,
    memory_bytes: u64,
}

impl TestTenant {
    pub(crate) fn new(directory: &HubDir, id: &str, script: ModelScript) -> Self {
        let model = ModelServer::start(script);
        let home = directory.home(id);
        let config = format!(
            "model: {{default: m, provider: custom, base_url: '{}'}}\nagent: {{api_max_retries: 0, max_turns: 1000}}\n\
             approvals: {{mode: 'off'}}\n",
            model.base_url()
        );
        fs::write(home.join("config.yaml"), config).unwrap();
        Self {
            id: TenantId::parse(id).unwrap(),
            home,
            model,
            memory_bytes: 1 << 30,
        }
    }

    pub(crate) fn launch(&self) -> AgentLaunch {
        launch(&self.id, &self.home, self.memory_bytes)
    }

    /// What the model was told of a tool's result.
    fn tool_results(&self) -> String {
        let requests = self.model.requests();
        requests.last().unwrap().body["messages"].to_string()
    }
}

fn launch(id: &TenantId, home: &Path, memory_bytes: u64) -> AgentLaunch {
    AgentLaunch {
        tenant: id.clone(),
        home: home.to_owned(),
        runtime_key: "hub_rt_0123456789abcdef".to_owned().into(),
        env: BTreeMap::new(),
        teams: Vec::new(),
        timezone: "UTC".into(),
        limits: ResourceLimits {
            memory_bytes,
            pids: 256,
            cpu: 1.0,
        },
        directives: Directives::new(Policy::unrestricted()),
    }
}

pub(crate) fn runtime(directory: &HubDir, isolation: Isolation) -> ProcessRuntime {
    ProcessRuntime::new(setup(&directory.data(), isolation)).unwrap()
}

fn setup(data: &Path, isolation: Isolation) -> ProcessRuntimeSetup {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_hermes"));
    ProcessRuntimeSetup {
        data_dir: data.to_owned(),
        agent: program.clone(),
        program,
        agent_arguments: vec!["gateway".into(), "run".into(), "-q".into()],
        isolation,
        support: IsolationSupport::detect(),
        hub_socket: None,
    }
}

/// Runs something to its end; nothing but the events before it broke off.
pub(crate) async fn run(
    runtime: &ProcessRuntime,
    tenant: &TenantId,
    input: &str,
) -> Vec<AgentEvent> {
    let prompt = PromptInput {
        input: input.into(),
        ..PromptInput::default()
    };
    let run_input = RunInput::Prompt(Box::new(prompt));
    let id = RunId::random().unwrap();
    let run = runtime.run(tenant, &id, 1, &run_input).await.unwrap();
    let events = runtime.events(tenant, &run, 0).await.unwrap();
    let events = events.take_while(|event| futures::future::ready(event.is_ok()));
    let all = tokio::time::timeout(Duration::from_mins(2), events.collect::<Vec<_>>());
    all.await.unwrap().into_iter().map(Result::unwrap).collect()
}

async fn pid(runtime: &ProcessRuntime, tenant: &TenantId) -> u32 {
    match runtime.status(tenant).await {
        ProcessStatus::Running { pid: Some(pid) } => pid,
        other => panic!("no process: {other:?}"),
    }
}

/// Says so where everybody sees it; a test without Landlock proves little.
#[expect(clippy::print_stdout, reason = "a skipped test has to be loud")]
pub(crate) fn has_landlock() -> bool {
    let has = IsolationSupport::detect().landlock.is_some();
    if !has {
        println!("!!! THIS KERNEL HAS NO LANDLOCK: the sandbox of tenants is NOT tested here !!!");
    }
    has
}
