//! A gateway: the long-running process of a home.
//!
//! It owns the runs and the cron runner, and knows who controls it. Its callers own the lock, the signals and the MCP
//! host; the local HTTP API and the ticker work on it.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use hermes_agent::{
    conversation::Agent, cron::JobRunner, policy::AgentPolicy,
    server_requests::elicitation::ElicitationRegistry,
};
use hermes_config::{Home, Server, Settings, SettingsError, TransportSettings, Variables};
use hermes_mcp::ReloadReport;
use hermes_protocol::{Directives, Feature};
use hermes_store::{StoreError, runtime::RuntimeStore};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    delivery::PlatformDelivery,
    instance::Instance,
    runs::{RunMeter, RunParts, Runs},
};

/// How long the counts of a health report may take.
const COUNT_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlMode {
    Own,
    /// A Hub, which schedules jobs and sends directives.
    Hub {
        /// What the Hub calls this home.
        tenant: String,
        home: HubHome,
    },
}

/// Whose a home under a Hub is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HubHome {
    /// The Hub's: its operator changes the settings, and no person watches them.
    Hosted,
    /// A person's own, whose process applies changed settings as that person wants it.
    Linked,
}

/// The gateway of a home. Clones share it.
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<GatewayInner>,
}

struct GatewayInner {
    agent: Agent,
    store: RuntimeStore,
    runner: Arc<JobRunner>,
    delivery: Arc<PlatformDelivery>,
    runs: Runs,
    instance: Arc<Instance>,
    control_mode: ControlMode,
    on_settings: Option<SettingsCallback>,
    /// Counts the times that other settings were applied.
    settings_changes: watch::Sender<u64>,
    started_at: Instant,
}

/// Receives the settings whenever others are applied.
pub type SettingsCallback = Box<dyn Fn(&Settings) + Send + Sync>;

pub struct GatewayParts {
    /// The agent; its servers may still be connecting.
    pub agent: Agent,
    /// The lock of the home's gateway.
    pub instance: Arc<Instance>,
    pub control_mode: ControlMode,
    pub directory: PathBuf,
    /// Where runs register for elicitation.
    pub elicitation: Arc<ElicitationRegistry>,
    /// Who else works with the settings.
    pub on_settings: Option<SettingsCallback>,
    /// Who counts the runs of chats, if somebody does.
    pub meter: Option<Arc<dyn RunMeter>>,
}

impl Gateway {
    /// Opens the stores and recovers abandoned runs. Starts nothing.
    pub fn open(parts: GatewayParts) -> BoxFuture<'static, Result<Self, StoreError>> {
        Box::pin(async move {
            let agent = parts.agent;
            let settings = agent.settings();
            let store = RuntimeStore::open(agent.home()).await?;
            let runner = JobRunner::open(agent.home().clone(), "gateway").await?;
            let runner = Arc::new(runner.with_directory(parts.directory.clone()));
            let number = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
            let concurrent_runs = match parts.control_mode {
                ControlMode::Own => number(settings.gateway.api_server.max_concurrent_runs),
                // The Hub has its own limit, and a run that it has accepted must not be refused here.
                ControlMode::Hub { .. } => usize::MAX,
            };
            let delivery = Arc::new(PlatformDelivery::new(agent.clone()));
            let runs = Runs::open(RunParts {
                agent: agent.clone(),
                store: store.clone(),
                runner: runner.clone(),
                delivery: delivery.clone(),
                directory: parts.directory,
                elicitation: parts.elicitation,
                concurrent_turns: number(settings.gateway.max_concurrent_turns),
                concurrent_runs,
                meter: parts.meter,
            })
            .await?;
            Ok(Self {
                inner: Arc::new(GatewayInner {
                    agent,
                    store,
                    runner,
                    delivery,
                    runs,
                    instance: parts.instance,
                    control_mode: parts.control_mode,
                    on_settings: parts.on_settings,
                    settings_changes: watch::Sender::new(0),
                    started_at: Instant::now(),
                }),
            })
        })
    }

    pub fn home(&self) -> &Home {
        self.inner.agent.home()
    }

    pub fn agent(&self) -> &Agent {
        &self.inner.agent
    }

    pub fn runs(&self) -> &Runs {
        &self.inner.runs
    }

    pub fn runner(&self) -> &JobRunner {
        &self.inner.runner
    }

    /// What delivers the messages of cron jobs.
    pub fn delivery(&self) -> &PlatformDelivery {
        &self.inner.delivery
    }

    pub fn store(&self) -> &RuntimeStore {
        &self.inner.store
    }

    pub fn instance(&self) -> &Instance {
        &self.inner.instance
    }

    pub fn control_mode(&self) -> &ControlMode {
        &self.inner.control_mode
    }

    /// Loads the settings of the home with the operator's variables, without what the policy forbids.
    pub fn load_settings(&self) -> Result<Settings, SettingsError> {
        let agent = &self.inner.agent;
        load_with_variables(agent.home(), &agent.operator_variables(), &agent.policy())
    }

    /// Applies other settings, without what the policy forbids.
    pub fn reload(&self, settings: Settings) -> BoxFuture<'_, Option<ReloadReport>> {
        Box::pin(async move {
            let agent = &self.inner.agent;
            let settings = apply_policy(settings, &agent.policy());
            if let Some(apply) = &self.inner.on_settings {
                apply(&settings);
            }
            let report = agent.reload(settings).await;
            self.inner.settings_changes.send_modify(|count| *count += 1);
            report
        })
    }

    /// The same for everything but the MCP servers, which stay as they are.
    pub fn apply_settings(&self, settings: Settings) {
        let agent = &self.inner.agent;
        let settings = apply_policy(settings, &agent.policy());
        if let Some(apply) = &self.inner.on_settings {
            apply(&settings);
        }
        agent.set_settings(settings);
        self.inner.settings_changes.send_modify(|count| *count += 1);
    }

    /// Notices when other settings were applied.
    pub fn settings_changes(&self) -> watch::Receiver<u64> {
        self.inner.settings_changes.subscribe()
    }

    /// Sections of `config.yaml` that take effect with the Hub's next directives.
    fn hub_sections(&self) -> &'static [&'static str] {
        match self.inner.control_mode {
            ControlMode::Hub {
                home: HubHome::Hosted,
                ..
            } => &["skills", "model", "mcp_servers"],
            ControlMode::Hub { .. } | ControlMode::Own => &["skills"],
        }
    }

    /// Applies a Hub's directives. Tools see them at their next call; servers are started and stopped with the feature.
    pub async fn apply_directives(&self, directives: Directives) {
        let agent = &self.inner.agent;
        let before = agent.policy();
        agent.apply_directives(directives);
        match self.load_settings() {
            Ok(settings) => {
                // The Hub may have changed the file: that applies from the next run on, even before the file watcher
                // notices it, and where it does not look.
                let sections = self.hub_sections();
                let is_changed = differs_in(sections, &settings, &agent.settings());
                if is_changed || changes_settings(&before, &agent.policy()) {
                    self.reload(settings).await;
                }
            }
            Err(error) => tracing::warn!(%error, "failed to read the configuration"),
        }
    }

    pub async fn health(&self) -> Value {
        let state = self.inner.instance.state();
        let servers = self.inner.agent.host().map(hermes_mcp::Host::status);
        let mut queues = self.inner.runs.queue_depths();
        let (inbox, outbox) = self.count_messages().await;
        queues["inbox"] = inbox;
        queues["outbox"] = outbox;
        json!({
            "status": "ok",
            "version": env!("CARGO_PKG_VERSION"),
            "pid": state.process.pid,
            "uptime_seconds": self.inner.started_at.elapsed().as_secs(),
            "gateway_state": state.gateway_state,
            "platforms": state.platforms,
            "mcp_servers": servers.unwrap_or_default(),
            "queues": queues,
        })
    }

    /// The messages of platforms that wait, in and out; null where the store does not tell at once.
    async fn count_messages(&self) -> (Value, Value) {
        let store = &self.inner.store;
        let inbox = tokio::time::timeout(COUNT_TIMEOUT, store.inbox_counts());
        let outbox = tokio::time::timeout(COUNT_TIMEOUT, store.outbound_counts());
        let (inbox, outbox) = tokio::join!(inbox, outbox);
        let inbox = match inbox {
            Ok(Ok(counts)) => json!({"new": counts.new, "running": counts.running}),
            _ => Value::Null,
        };
        let outbox = match outbox {
            Ok(Ok(counts)) => json!({"queued": counts.queued, "failed": counts.failed}),
            _ => Value::Null,
        };
        (inbox, outbox)
    }

    /// Accepts no new runs, waits this long for active ones, then interrupts them.
    pub fn drain(&self, timeout: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.inner.runs.close(timeout).await;
        })
    }

    pub async fn close(&self) {
        self.inner.runner.close().await;
        self.inner.store.close().await;
    }
}

/// Removes what the policy forbids from the settings.
pub fn apply_policy(mut settings: Settings, policy: &AgentPolicy) -> Settings {
    if !policy.has_feature(Feature::Mcp) {
        settings.servers.clear();
    }
    settings.servers.retain(|entry| match &entry.server {
        Ok(server) => is_server_reachable(server, policy),
        Err(_) => true,
    });
    for entry in &mut settings.servers {
        if let Ok(server) = &mut entry.server
            && let TransportSettings::Stdio(program) = &mut server.transport
        {
            program.env.retain(|(name, _)| policy.allows_variable(name));
        }
    }
    settings
}

/// Loads the settings of a home with the operator's variables, without forbidden settings and variables.
pub fn load_settings(
    home: &Home,
    given: &Variables,
    policy: &AgentPolicy,
) -> Result<Settings, SettingsError> {
    let settings = load_with_variables(home, given, policy)?;
    Ok(apply_policy(settings, policy))
}

fn load_with_variables(
    home: &Home,
    given: &Variables,
    policy: &AgentPolicy,
) -> Result<Settings, SettingsError> {
    let given = given
        .iter()
        .map(|(name, value)| (name.into(), value.into()));
    let (variables, warnings) = Variables::load_with(home, None, given);
    let variables = variables.without(|name| !policy.allows_variable(name));
    Settings::load_with(home, variables, warnings)
}

fn differs_in(sections: &[&str], new: &Settings, old: &Settings) -> bool {
    let mut sections = sections.iter();
    sections.any(|section| new.document.get(section) != old.document.get(section))
}

/// Whether the policies allow different settings.
fn changes_settings(before: &AgentPolicy, after: &AgentPolicy) -> bool {
    before.has_feature(Feature::Mcp) != after.has_feature(Feature::Mcp)
        || before.has_feature(Feature::Messaging) != after.has_feature(Feature::Messaging)
        || before.egress() != after.egress()
        || !before.denies_same_variables(after)
}

/// Whether the policy lets a server's URL be reached.
fn is_server_reachable(server: &Server, policy: &AgentPolicy) -> bool {
    let (TransportSettings::Http(http) | TransportSettings::Sse(http)) = &server.transport else {
        return true;
    };
    let reached = policy.egress().check_url(&http.url);
    if let Err(reason) = &reached {
        tracing::warn!(server = %server.name, %reason, "MCP server not started: its host is not allowed");
    }
    reached.is_ok()
}
