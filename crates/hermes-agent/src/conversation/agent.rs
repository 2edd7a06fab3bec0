//! What all conversations of one home share: settings, store, servers, and models.

use std::{
    collections::HashSet,
    ffi::OsString,
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use hermes_config::{
    AuxiliaryTask, Home, Redactor, ReferencePolicy, ServerName, Settings, Variables,
};
use hermes_mcp::{Host, LinkStatus, ReloadReport, ServerStatus, process::GuardHandle};
use hermes_protocol::Directives;
use hermes_store::{Store, skills::Skills};

use crate::{
    approval::ApprovalSettings,
    model::{
        Auxiliary, HttpClients, LocalServers, Model, ModelOverrides, ResolveContext, ResolveError,
        Selection, resolve_model,
    },
    policy::{AgentPolicy, PolicyHandle},
    tools,
    tools::{
        files::teams::Teams,
        send_message::Messenger,
        terminal::{CommandBounds, Confinement, TerminalSettings},
        toolbox::{SharedDefinitions, Toolbox},
    },
};

/// The agent of one home. Clones share it.
#[derive(Clone)]
pub struct Agent {
    shared: Arc<SharedAgent>,
}

struct SharedAgent {
    parts: AgentParts,
    settings: ArcSwap<AppliedSettings>,
    /// Variables that an operator set while the agent was running.
    operator_variables: ArcSwap<Variables>,
    clients: Arc<HttpClients>,
    /// How tools are described to models, in all conversations.
    definitions: SharedDefinitions,
}

/// The settings that count, and what follows from them.
struct AppliedSettings {
    settings: Arc<Settings>,
    redactor: Redactor,
}

impl From<Arc<Settings>> for AppliedSettings {
    fn from(settings: Arc<Settings>) -> Self {
        Self {
            redactor: Redactor::for_variables(&settings.variables),
            settings,
        }
    }
}

pub struct AgentParts {
    pub home: Home,
    /// Its conversations, open for writing.
    pub store: Store,
    /// Its MCP servers; none in safe mode.
    pub host: Option<Host>,
    /// Ends commands where there is no host, should this process be killed.
    pub guard: Option<Arc<GuardHandle>>,
    /// What references in keys may reach.
    pub references: ReferencePolicy,
    pub local: LocalServers,
    /// The environment of this process, for commands.
    pub environment: Vec<(OsString, OsString)>,
    pub policy: PolicyHandle,
    /// The files of the home's groups, if it belongs to a Hub.
    pub teams: Option<Arc<Teams>>,
    pub messenger: Option<Arc<dyn Messenger>>,
    /// Limits for commands, whatever the home's configuration says.
    pub bounds: CommandBounds,
}

impl AgentParts {
    /// The parts for the owner of a home.
    pub fn new(home: Home, store: Store) -> Self {
        Self {
            home,
            store,
            host: None,
            guard: None,
            references: ReferencePolicy::owner(),
            local: LocalServers::default(),
            environment: Vec::new(),
            policy: PolicyHandle::default(),
            teams: None,
            messenger: None,
            bounds: CommandBounds::default(),
        }
    }
}

/// A server whose tools are not available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingServer {
    pub name: String,
    /// The reason; with the last stderr lines of a server that has died.
    pub reason: String,
}

impl Agent {
    /// Starts nothing.
    pub fn new(parts: AgentParts, settings: Settings) -> Self {
        Self {
            shared: Arc::new(SharedAgent {
                clients: Arc::new(HttpClients::with_policy(parts.policy.clone())),
                parts,
                settings: ArcSwap::from_pointee(Arc::new(settings).into()),
                operator_variables: ArcSwap::default(),
                definitions: SharedDefinitions::default(),
            }),
        }
    }

    /// The names of all built-in tools, which no MCP tool may use.
    pub fn reserved_names() -> HashSet<String> {
        let mut names = Toolbox::reserved_names(&[]);
        names.extend(tools::TOOL_NAMES.map(str::to_owned));
        names
    }

    pub fn home(&self) -> &Home {
        &self.shared.parts.home
    }

    pub fn store(&self) -> &Store {
        &self.shared.parts.store
    }

    pub fn host(&self) -> Option<&Host> {
        self.shared.parts.host.as_ref()
    }

    /// The settings that count now.
    pub fn settings(&self) -> Arc<Settings> {
        self.shared.settings.load().settings.clone()
    }

    /// Applies an operator's directives from the next tool call on.
    pub fn apply_directives(&self, directives: Directives) {
        self.shared.parts.policy.set(directives.into());
    }

    /// What references of the home may reach.
    pub fn references(&self) -> ReferencePolicy {
        self.shared.parts.references.clone()
    }

    pub fn policy_handle(&self) -> &PolicyHandle {
        &self.shared.parts.policy
    }

    pub fn policy(&self) -> Arc<AgentPolicy> {
        self.shared.parts.policy.policy()
    }

    /// Replaces the operator's variables. Settings that are loaded
    /// afterwards include them. Returns whether they changed.
    pub fn set_operator_variables(&self, variables: Variables) -> bool {
        let before = self.shared.operator_variables.swap(Arc::new(variables));
        *before != *self.operator_variables()
    }

    pub fn operator_variables(&self) -> Arc<Variables> {
        self.shared.operator_variables.load_full()
    }

    /// The environment of this process and the operator's variables, for commands.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let given = self.operator_variables();
        let own = self.shared.parts.environment.iter().filter(|(name, _)| {
            let name = name.to_str();
            name.is_none_or(|name| given.get(name).is_none())
        });
        let given = given
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        own.cloned().chain(given).collect()
    }

    pub fn confinement(&self) -> Confinement {
        let bounds = self.shared.parts.bounds.clone();
        Confinement::new(&self.settings().document, bounds)
    }

    /// How commands run, with these variables.
    pub(crate) fn terminal_settings(
        &self,
        settings: &Settings,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> TerminalSettings {
        let bounds = self.shared.parts.bounds.clone();
        let guard = self.host().map(Host::guard);
        TerminalSettings {
            guard: guard.or_else(|| self.shared.parts.guard.clone()),
            ..TerminalSettings::from_document(&settings.document, environment)
                .with_bounds(&settings.document, bounds)
        }
    }

    pub(crate) fn shared_definitions(&self) -> &SharedDefinitions {
        &self.shared.definitions
    }

    pub(crate) fn teams(&self) -> Option<&Arc<Teams>> {
        self.shared.parts.teams.as_ref()
    }

    pub(crate) fn messenger(&self) -> Option<&Arc<dyn Messenger>> {
        self.shared.parts.messenger.as_ref()
    }

    pub fn approval_timeout(&self) -> Duration {
        let approvals = ApprovalSettings::from_document(&self.settings().document);
        self.policy()
            .approval_timeout(approvals.timeout, approvals.configured_timeout)
    }

    pub fn skills(&self) -> Skills {
        Skills::new(self.home(), &self.settings())
    }

    /// Redacts credentials, including those of the home's variables.
    pub fn redactor(&self) -> Redactor {
        self.shared.settings.load().redactor.clone()
    }

    /// Applies other settings and reloads the servers. Running conversations
    /// pick them up at their next turn.
    pub fn reload(&self, settings: Settings) -> BoxFuture<'_, Option<ReloadReport>> {
        Box::pin(async move {
            let settings = Arc::new(settings);
            self.shared
                .settings
                .store(Arc::new(settings.clone().into()));
            match self.host() {
                Some(host) => Some(host.reload(&settings).await),
                None => None,
            }
        })
    }

    /// Applies other settings and leaves the servers as they are.
    pub fn set_settings(&self, settings: Settings) {
        let applied = AppliedSettings::from(Arc::new(settings));
        self.shared.settings.store(Arc::new(applied));
    }

    pub fn find_model<'a>(
        &'a self,
        overrides: &'a ModelOverrides,
    ) -> BoxFuture<'a, Result<Selection, ResolveError>> {
        Box::pin(async move {
            let settings = self.settings_for_models();
            let selection = resolve_model(&self.resolve_context(&settings), overrides).await?;
            let endpoint = &selection.endpoint;
            self.check_model(&endpoint.provider, &endpoint.model)?;
            Ok(selection)
        })
    }

    /// The settings, without fallback models that are not allowed.
    fn settings_for_models(&self) -> Arc<Settings> {
        let (settings, policy) = (self.settings(), self.policy());
        if policy.allows_all_models() || settings.fallback_providers.is_empty() {
            return settings;
        }
        let mut narrowed = Settings::clone(&settings);
        narrowed.fallback_providers.retain(|choice| {
            let provider = choice.provider.as_deref().unwrap_or_default();
            let name = choice.name.as_deref().unwrap_or_default();
            policy.allows_model(provider, name)
        });
        Arc::new(narrowed)
    }

    fn check_model(&self, provider: &str, model: &str) -> Result<(), ResolveError> {
        if self.policy().allows_model(provider, model) {
            return Ok(());
        }
        Err(ResolveError::NotAllowed {
            model: model.to_owned(),
        })
    }

    /// Resolves the auxiliary model for a conversation that uses `main`.
    pub async fn auxiliary(
        &self,
        main: Option<&Selection>,
        task: AuxiliaryTask,
    ) -> Result<Auxiliary, ResolveError> {
        let settings = self.settings();
        let auxiliary = Auxiliary::find(&self.resolve_context(&settings), main, task).await?;
        self.check_model(Model::provider(&auxiliary), auxiliary.name())?;
        Ok(auxiliary)
    }

    pub(crate) fn resolve_context<'a>(&'a self, settings: &'a Settings) -> ResolveContext<'a> {
        let parts = &self.shared.parts;
        ResolveContext {
            home: &parts.home,
            settings,
            references: parts.references.clone(),
            local: parts.local.clone(),
            clients: self.shared.clients.clone(),
        }
    }

    /// Waits until every server is ready or has failed once, or the time is up. Returns the unavailable ones.
    pub async fn wait_for_servers(&self, limit: Duration) -> Vec<MissingServer> {
        self.wait_for_some_servers(limit, |_| true).await
    }

    /// Waits for the servers that are needed.
    pub async fn wait_for_some_servers(
        &self,
        limit: Duration,
        is_needed: impl Fn(&str) -> bool,
    ) -> Vec<MissingServer> {
        let Some(host) = self.host() else {
            return Vec::new();
        };
        let missing = host.wait_until_settled_among(limit, |name| is_needed(name.as_str()));
        let missing = missing.await;
        missing_servers(host, &missing, is_needed)
    }

    /// Waits until every server offers tools, possibly cached ones, or has failed once, or its
    /// `connect_timeout` is over; `limit` replaces these timeouts if given. Returns the unavailable ones.
    pub fn wait_for_tools(&self, limit: Option<Duration>) -> BoxFuture<'_, Vec<MissingServer>> {
        Box::pin(async move {
            let Some(host) = self.host() else {
                return Vec::new();
            };
            let missing = host.wait_for_tools_among(limit, |_| true).await;
            missing_servers(host, &missing, |_| true)
        })
    }
}

/// Why servers are not available: those that are missing, and those with an invalid configuration.
fn missing_servers(
    host: &Host,
    missing: &[ServerName],
    is_needed: impl Fn(&str) -> bool,
) -> Vec<MissingServer> {
    let is_invalid = |status: LinkStatus| status == LinkStatus::Invalid;
    let statuses = host.status().into_iter().filter(|server| {
        is_invalid(server.status) && is_needed(&server.name)
            || missing.iter().any(|name| name.as_str() == server.name)
    });
    let reason = |server: &ServerStatus| match &server.error {
        Some(error) if !error.trim().is_empty() => error.trim().to_owned(),
        _ if server.status == LinkStatus::Connecting => {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let since = now.map_or(0, |now| now.as_secs().saturating_sub(server.since));
            format!("it is still connecting, after {since} s")
        }
        _ => format!("it is {}", server.status),
    };
    statuses
        .map(|server| MissingServer {
            reason: reason(&server),
            name: server.name,
        })
        .collect()
}
