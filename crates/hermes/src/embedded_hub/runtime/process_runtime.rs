//! The runtime that gives each tenant a process.

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures::stream::BoxStream;
use hermes_config::sync::Mutex;
use hermes_hub::{
    RunId, TenantId,
    api_types::ids::AgentRunId,
    tenants::runtime::{
        AgentEvent, AgentLaunch, BotHealth, Confinement, ProcessStatus, RunInput, Runtime,
        RuntimeError,
    },
};
use hermes_mcp::process::{GuardProgram, StderrLog};
use hermes_protocol::{AgentReply, AgentRequest, ApprovalDecision, Directives};
use tokio::sync::{Semaphore, watch};
use tokio_util::task::TaskTracker;

use super::{
    api::AgentApi,
    environment,
    environment::LaunchEnv,
    isolation::{ConfinementMode, Isolation, IsolationSupport, LaunchPaths, decide_isolation},
    process,
    process::{ProcessEnd, ProcessStart, RunningAgent},
    socket::{AgentSockets, SocketCallers},
    users,
    users::TenantUsers,
    watch::watch_tenants,
};
use crate::{embedded_hub::runtime::launcher::ProcessRights, telemetry};

/// Timeout of an agent's first reply.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// Timeout for processes of a killed Hub to end; its guard needs three seconds at most.
const PREDECESSOR_TIMEOUT: Duration = Duration::from_secs(15);

/// How long it may take until the end of a process that is gone has been looked into.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Poll interval of a predecessor's lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What a runtime is made with.
#[derive(Debug, Clone)]
pub struct ProcessRuntimeSetup {
    /// Where the Hub keeps its data.
    pub data_dir: PathBuf,
    /// This program, which is guard, launcher and agent.
    pub program: PathBuf,
    /// The program that is a tenant's agent.
    pub agent: PathBuf,
    /// What makes it an agent.
    pub agent_arguments: Vec<String>,
    /// What the operator wants.
    pub isolation: Isolation,
    /// What the machine has.
    pub support: IsolationSupport,
    /// Where the Hub's private routes are, if it has any.
    pub hub_socket: Option<PathBuf>,
}

impl ProcessRuntimeSetup {
    /// The usual one: agents are `gateway run` of the program that runs now.
    pub fn new(data_dir: PathBuf, isolation: Isolation) -> io::Result<Self> {
        let program = std::env::current_exe()?;
        Ok(Self {
            data_dir,
            agent: program.clone(),
            program,
            agent_arguments: ["gateway", "run"].map(str::to_owned).to_vec(),
            isolation,
            support: IsolationSupport::detect(),
            hub_socket: None,
        })
    }

    /// Whose processes ask the Hub.
    pub fn callers(&self) -> SocketCallers {
        if self.support.is_root && self.isolation.mode != ConfinementMode::Off {
            SocketCallers::OtherUsers
        } else {
            SocketCallers::SameUser
        }
    }
}

/// Gives each tenant a process.
#[derive(Debug)]
pub struct ProcessRuntime {
    setup: ProcessRuntimeSetup,
    launcher: GuardProgram,
    launch_env: LaunchEnv,
    agents: Arc<AgentTable>,
    users: TenantUsers,
    sockets: Arc<AgentSockets>,
    log: StderrLog,
    tasks: TaskTracker,
}

/// The running agents, by tenant.
#[derive(Debug, Default)]
pub(super) struct AgentTable(Mutex<HashMap<TenantId, TenantAgent>>);

#[derive(Debug, Clone)]
struct TenantAgent {
    /// Serialises starts and stops of a tenant.
    start_stop_permit: Arc<Semaphore>,
    running: Option<RunningAgent>,
    /// When all processes are killed, those of later starts too.
    deadline: watch::Sender<Option<Instant>>,
    /// Whether its unexpected end was reported.
    is_end_reported: bool,
    confinement: Vec<Confinement>,
}

impl AgentTable {
    /// All that have not ended.
    pub(super) fn running(&self) -> Vec<RunningAgent> {
        let agents = self.0.lock();
        let running = agents.values().filter_map(|agent| agent.running.clone());
        running.filter(|running| running.end().is_none()).collect()
    }

    fn with<T>(&self, tenant: &TenantId, act: impl FnOnce(&mut TenantAgent) -> T) -> T {
        let mut agents = self.0.lock();
        act(agents.entry(tenant.clone()).or_insert_with(|| TenantAgent {
            start_stop_permit: Arc::new(Semaphore::new(1)),
            running: None,
            deadline: watch::Sender::default(),
            is_end_reported: false,
            confinement: Vec::new(),
        }))
    }

    fn get(&self, tenant: &TenantId) -> Option<TenantAgent> {
        let agents = self.0.lock();
        agents.get(tenant).cloned()
    }
}

impl ProcessRuntime {
    /// Makes the directories it needs. Call it inside a tokio runtime.
    pub fn new(setup: ProcessRuntimeSetup) -> io::Result<Self> {
        let sockets = AgentSockets::in_directory(setup.data_dir.join("run"))?;
        let tasks = TaskTracker::new();
        let agents = Arc::new(AgentTable::default());
        tasks.spawn(watch_tenants(Arc::downgrade(&agents)));
        Ok(Self {
            launcher: GuardProgram {
                path: setup.program.clone(),
                args: vec![crate::GUARD_ARGUMENT.into()],
            },
            launch_env: LaunchEnv {
                path: std::env::var_os("PATH"),
                language: std::env::var_os("LANG"),
                hub_socket: setup.hub_socket.clone(),
                traces: telemetry::tenant_variables(),
            },
            agents,
            users: TenantUsers::new(
                setup.data_dir.join("users.json"),
                setup.isolation.users.clone(),
            ),
            sockets: Arc::new(sockets),
            log: StderrLog::at(setup.data_dir.join("logs").join("agents.log")),
            tasks,
            setup,
        })
    }

    /// Stops all agents.
    pub async fn close(&self, timeout: Duration) {
        let running = self.agents.running();
        futures::future::join_all(running.iter().map(|running| running.stop(timeout))).await;
    }

    async fn launch(
        &self,
        launch: &AgentLaunch,
    ) -> Result<(RunningAgent, Vec<Confinement>), RuntimeError> {
        let no_start = |what: &str, error: &dyn std::fmt::Display| {
            RuntimeError::StartFailed(format!("{what}: {error}"))
        };
        if !launch.home.is_dir() {
            return Err(RuntimeError::StartFailed("its home is missing".into()));
        }
        let lock = self
            .wait_for_predecessor(&launch.tenant)
            .await
            .map_err(|error| no_start("the lock of its processes", &error))?;
        for directory in environment::directories(&launch.home) {
            fs::create_dir_all(&directory).map_err(|error| no_start("its home", &error))?;
        }
        let sockets: Vec<PathBuf> = self.setup.hub_socket.iter().cloned().collect();
        let place = LaunchPaths {
            program: &self.setup.agent,
            arguments: &self.setup.agent_arguments,
            data_dir: &self.setup.data_dir,
            sockets: &sockets,
            users: &self.users,
        };
        let decided = decide_isolation(&self.setup.isolation, &self.setup.support, launch, &place)?;
        if let ProcessRights::Own(user) = decided.plan.rights {
            let home = launch.home.clone();
            // What the Hub wrote while the tenant slept belongs to the Hub's user.
            let given = tokio::task::spawn_blocking(move || users::chown_tree(&home, user)).await;
            given
                .map_err(|error| no_start("its home", &error))?
                .map_err(|error| no_start("its home", &error))?;
        }
        let is_off = self.setup.isolation.mode == ConfinementMode::Off;
        let read_paths = &self.setup.isolation.read_paths;
        let mut environment = self.launch_env.variables(launch, |path| {
            is_off || environment::is_readable(path, read_paths)
        });
        if decided.confines_commands {
            environment.extend(environment::command_bounds(read_paths));
        }
        let (listener, path) = self
            .sockets
            .listen(&launch.tenant)
            .map_err(|error| no_start("its socket", &error))?;
        let api = AgentApi::new(&path, launch.runtime_key.clone())?;
        let start = ProcessStart {
            launch,
            decided: &decided,
            launcher: &self.launcher,
            environment,
            listener,
            lock,
            log: &self.log,
            deadline: self
                .agents
                .with(&launch.tenant, |agent| agent.deadline.subscribe()),
        };
        let (running, owned) = process::start_process(start, api).await?;
        let (tenant, sockets) = (launch.tenant.clone(), Arc::clone(&self.sockets));
        let groups = self.setup.support.cgroups.clone();
        let hit_memory_limit = {
            let (groups, tenant) = (groups.clone(), tenant.clone());
            move || {
                let groups = groups.as_ref();
                groups.is_some_and(|groups| groups.has_hit_memory_limit(&tenant))
            }
        };
        self.tasks.spawn(owned.supervise(hit_memory_limit, move || {
            sockets.remove(&tenant);
            if let Some(groups) = groups {
                groups.remove(&tenant);
            }
        }));
        if let Err(error) = wait_until_ready(&running, launch).await {
            running.stop(Duration::ZERO).await;
            return Err(error);
        }
        Ok((running, decided.confinement))
    }

    /// A Hub that was killed leaves processes for a few seconds, and one home must not have two agents.
    async fn wait_for_predecessor(&self, tenant: &TenantId) -> io::Result<File> {
        let lock = File::options()
            .create(true)
            .append(true)
            .open(self.sockets.lock_file(tenant))?;
        let deadline = Instant::now() + PREDECESSOR_TIMEOUT;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(fs::TryLockError::WouldBlock) if Instant::now() < deadline => {
                    tokio::time::sleep(LOCK_POLL_INTERVAL).await;
                }
                Err(fs::TryLockError::WouldBlock) => {
                    return Err(io::Error::other("processes from before are still there"));
                }
                Err(fs::TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    fn api(&self, tenant: &TenantId) -> Result<AgentApi, RuntimeError> {
        let running = self.agents.get(tenant).and_then(|agent| agent.running);
        match running {
            Some(running) => match running.end() {
                None => Ok(running.api),
                Some(end) => Err(RuntimeError::Unreachable(end.to_string())),
            },
            None => Err(RuntimeError::Unreachable("it is not running".into())),
        }
    }
}

/// The agent answers and has the Hub's settings, or it has not started. Connections wait in the socket until then.
async fn wait_until_ready(
    running: &RunningAgent,
    launch: &AgentLaunch,
) -> Result<(), RuntimeError> {
    let settle = async {
        running.api.check_health(START_TIMEOUT).await?;
        running.api.apply_directives(&launch.directives).await
    };
    tokio::select! {
        settled = settle => settled.map_err(|error| RuntimeError::StartFailed(error.to_string())),
        end = running.wait_for_end() => Err(RuntimeError::StartFailed(end.to_string())),
    }
}

#[async_trait]
impl Runtime for ProcessRuntime {
    async fn start(&self, launch: AgentLaunch) -> Result<Vec<Confinement>, RuntimeError> {
        let turn = self
            .agents
            .with(&launch.tenant, |agent| Arc::clone(&agent.start_stop_permit));
        let _turn = turn.acquire_owned().await;
        let TenantAgent {
            running,
            confinement,
            ..
        } = self.agents.with(&launch.tenant, |agent| agent.clone());
        if let Some(running) = running {
            let is_well = running.end().is_none() && running.api.is_healthy().await;
            if is_well
                && running
                    .api
                    .apply_directives(&launch.directives)
                    .await
                    .is_ok()
            {
                return Ok(confinement);
            }
            if running.is_gone() {
                // Its owner is about to find out why.
                let _ = tokio::time::timeout(END_TIMEOUT, running.wait_for_end()).await;
            }
            // It has ended, or it hangs, or it would go on with what holds no more.
            running.stop(Duration::ZERO).await;
            let is_told = self.agents.with(&launch.tenant, |agent| {
                agent.running = None;
                agent.is_end_reported
            });
            // Whoever starts it has to know, and may want to wait before the next start.
            if let Some(ProcessEnd::Died(death)) = running.end().filter(|_| !is_told) {
                return Err(RuntimeError::Exited(death));
            }
        }
        let (running, confinement) = self.launch(&launch).await?;
        self.agents.with(&launch.tenant, |agent| {
            agent.running = Some(running);
            agent.is_end_reported = false;
            agent.confinement.clone_from(&confinement);
        });
        Ok(confinement)
    }

    async fn stop(&self, tenant: &TenantId, timeout: Duration) {
        let Some(agent) = self.agents.get(tenant) else {
            return;
        };
        let _turn = agent.start_stop_permit.acquire_owned().await;
        let running = self.agents.get(tenant).and_then(|agent| agent.running);
        if let Some(running) = running {
            running.stop(timeout).await;
        }
        self.agents.with(tenant, |agent| agent.running = None);
    }

    fn set_deadline(&self, tenant: &TenantId, deadline: Instant) {
        self.agents.with(tenant, |agent| {
            agent
                .deadline
                .send_if_modified(|known| known.replace(deadline) != Some(deadline))
        });
    }

    async fn status(&self, tenant: &TenantId) -> ProcessStatus {
        let running = self.agents.get(tenant).and_then(|agent| agent.running);
        match running {
            None => ProcessStatus::Stopped,
            Some(running) => match running.end() {
                None => ProcessStatus::Running {
                    pid: Some(running.pid),
                },
                Some(ProcessEnd::Stopped) => ProcessStatus::Stopped,
                Some(ProcessEnd::Died(death)) => {
                    self.agents
                        .with(tenant, |agent| agent.is_end_reported = true);
                    ProcessStatus::Exited(death)
                }
            },
        }
    }

    async fn apply(&self, tenant: &TenantId, directives: &Directives) -> Result<(), RuntimeError> {
        self.api(tenant)?.apply_directives(directives).await
    }

    async fn run(
        &self,
        tenant: &TenantId,
        run: &RunId,
        attempt: u32,
        input: &RunInput,
    ) -> Result<AgentRunId, RuntimeError> {
        self.api(tenant)?.start_run(run, attempt, input).await
    }

    async fn events(
        &self,
        tenant: &TenantId,
        run: &AgentRunId,
        after: u64,
    ) -> Result<BoxStream<'static, Result<AgentEvent, RuntimeError>>, RuntimeError> {
        self.api(tenant)?.events(run, after).await
    }

    async fn decide(
        &self,
        tenant: &TenantId,
        run: &AgentRunId,
        decision: &ApprovalDecision,
    ) -> Result<(), RuntimeError> {
        self.api(tenant)?.send_decision(run, decision).await
    }

    async fn stop_run(&self, tenant: &TenantId, run: &AgentRunId) -> Result<(), RuntimeError> {
        self.api(tenant)?.stop_run(run).await
    }

    async fn send_request(
        &self,
        tenant: &TenantId,
        request: &AgentRequest,
        timeout: Duration,
    ) -> Result<AgentReply, RuntimeError> {
        self.api(tenant)?.send_request(request, timeout).await
    }

    async fn bots(&self, tenant: &TenantId) -> Result<Vec<BotHealth>, RuntimeError> {
        self.api(tenant)?.bots().await
    }
}
