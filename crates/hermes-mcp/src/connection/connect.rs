//! One attempt to connect: resolve the references, start the process or the HTTP client, open the session, list the tools.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use hermes_config::{
    Redactor, ResolvedServer, Server, ServerName, TransportSettings,
    server::{Auth, HttpSettings},
};
use rmcp::{
    RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ElicitationCapability, FormElicitationCapability,
        Implementation, ProtocolVersion, RootsCapabilities, SamplingCapability,
        UrlElicitationCapability,
    },
    service::RunningService,
};
use tokio::sync::{Mutex, broadcast};
use tokio_util::sync::CancellationToken;

use super::{
    ConnectionContext, HostContext,
    attempt_processes::AttemptProcesses,
    failure::{AttemptFailure, ConnectError},
    handshake::{self, ProbeTimeout},
};
use crate::{
    connection::{
        counters::Counters,
        era::{self, Era, HandshakeMode},
        manifest::{self, ManifestSummary},
        session::{McpSession, SessionActivity, SessionHandler},
    },
    http_client,
    oauth::{Authorizer, Login, OAuthError, OAuthSource, TokenFiles},
    packages::{
        osv::{self, Package},
        package::PackageFetch,
    },
    process::RunningProcess,
    server_request::{OfferedCapabilities, SamplingSupport},
    tools::catalog::{self, Catalog},
    transport::{
        boxed::BoxedTransport,
        http::{self, HttpFailure, HttpPeer},
        sse::SseTransport,
    },
};

mod local;

/// The longest a probe of a remote server waits for any answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a package runner is looked at that takes longer than its server's `connect_timeout`.
const FETCH_POLL_INTERVAL: Duration = Duration::from_millis(500);

pub(super) struct OpenedSession {
    pub(super) service: RunningService<RoleClient, SessionHandler>,
    pub(super) session: Arc<McpSession>,
    pub(super) process: Option<RunningProcess>,
    pub(super) catalog: Catalog,
    pub(super) manifest: Option<ManifestSummary>,
}

/// Everything an attempt needs, apart from the connection's mailbox.
pub(super) struct Connector {
    name: ServerName,
    server: Arc<Server>,
    host_context: Arc<HostContext>,
    counters: Arc<Counters>,
    redactor: Arc<arc_swap::ArcSwap<Redactor>>,
    resource_updates: broadcast::Sender<String>,
    token_files: TokenFiles,
    authorizer: Arc<ArcSwapOption<Authorizer>>,
    /// The references, where they were filled in a moment ago.
    resolved: Option<ResolvedServer>,
    /// What a package runner has to do before its server can answer.
    fetch: PackageFetch,
    /// Held while a process is being started.
    spawn_lock: Mutex<()>,
    /// Whether a process of this attempt ended instead of answering `server/discover`.
    ended_at_discover: AtomicBool,
    discover_cost_attempt: Arc<AtomicBool>,
}

impl ConnectionContext {
    pub(super) fn connector(&self, resolved: Option<ResolvedServer>) -> Connector {
        Connector {
            resolved,
            name: self.name.clone(),
            server: self.server.load_full(),
            host_context: self.host_context.clone(),
            counters: self.counters.clone(),
            redactor: self.redactor.clone(),
            resource_updates: self.resource_updates.clone(),
            token_files: self.token_files.clone(),
            authorizer: self.authorizer.clone(),
            fetch: PackageFetch::default(),
            spawn_lock: Mutex::new(()),
            ended_at_discover: AtomicBool::new(false),
            discover_cost_attempt: self.discover_cost_attempt.clone(),
        }
    }
}

impl Connector {
    /// Connects within the server's limit. Whatever else comes of it, nothing of the process is left on return.
    pub(super) async fn connect(
        mut self,
        given_up: CancellationToken,
    ) -> Result<OpenedSession, ConnectError> {
        let mut processes = AttemptProcesses::default();
        let resolved = self.resolved.take();
        let outcome = tokio::select! {
            biased;
            () = async {
                given_up.cancelled().await;
                // A process that is on its way is waited for: what is not known yet cannot be stopped.
                let _done = self.spawn_lock.lock().await;
            } => None,
            outcome = Box::pin(self.attempt(resolved, &mut processes)) => Some(outcome),
            waited = self.wait_for_timeout() => Some(Err(AttemptFailure::Timeout(waited))),
        };
        let Some(outcome) = outcome else {
            processes.stop().await;
            return Err(ConnectError::Cancelled);
        };
        let is_late = matches!(outcome, Err(AttemptFailure::Timeout(_)));
        let cost_attempt = is_late
            && (self.ended_at_discover.load(Ordering::Relaxed)
                || self.discover_cost_attempt.load(Ordering::Relaxed));
        self.discover_cost_attempt
            .store(cost_attempt, Ordering::Relaxed);
        let cause = match outcome {
            Ok(live) => {
                let process = processes.into_session_process();
                return Ok(OpenedSession { process, ..live });
            }
            Err(cause) => cause,
        };
        let last = processes.exit_report().await;
        processes.stop().await;
        Err(cause.into_connect_error(&last, |text| self.redact(text)))
    }

    /// Returns when the server has had its time, and says how long that was.
    async fn wait_for_timeout(&self) -> Duration {
        let limit = self.server.connect_timeout;
        tokio::time::sleep(limit).await;
        let mut waited = limit;
        while let Some(longest) = self.host_context.fetch_limit
            && waited < longest
            && self.fetch.is_in_progress()
        {
            let pause = FETCH_POLL_INTERVAL.min(longest.saturating_sub(waited));
            tokio::time::sleep(pause).await;
            waited += pause;
        }
        waited
    }

    fn redact(&self, text: &str) -> String {
        self.redactor.load().redact(text).into_owned()
    }

    /// The processes are left outside, so that they can be stopped whatever becomes of the attempt.
    async fn attempt(
        &self,
        resolved: Option<ResolvedServer>,
        processes: &mut AttemptProcesses,
    ) -> Result<OpenedSession, AttemptFailure> {
        let resolved = if let Some(resolved) = resolved {
            resolved
        } else {
            let variables = self.host_context.variables.load_full();
            resolve_references(&self.server, &self.host_context, variables).await?
        };
        self.update_redactor(&resolved);
        self.check_package(&resolved).await?;
        let remembered = ManifestSummary::read(&manifest::manifest_path(
            &self.host_context.home,
            &resolved.fingerprint,
        ));
        if remembered.is_some() {
            self.fetch.mark_fetched();
        } else {
            self.preflight(&resolved).await?;
        }
        let mut offers = self.offered_capabilities(&resolved);
        let era = match remembered {
            Some(remembered) => Some(remembered.era),
            None if self.discover_cost_attempt.load(Ordering::Relaxed) => Some(Era::Legacy),
            None => None,
        };
        let openings = era::handshake_modes(self.server.protocol, era);
        let mut remaining = openings.iter();
        let mut opening = remaining
            .next()
            .copied()
            .unwrap_or(HandshakeMode::Initialize);
        let (service, era, handler) = loop {
            match self
                .open_session(opening, &resolved, offers, processes)
                .await
            {
                Ok(opened) => break opened,
                Err(AttemptFailure::Open(error)) => {
                    let reduced = OfferedCapabilities {
                        sampling: offers.sampling.map(|_| SamplingSupport::Plain),
                        ..offers
                    };
                    if error.is_invalid_params() && reduced != offers {
                        offers = reduced;
                        opening = HandshakeMode::Initialize;
                    } else if error.suggests_other_era()
                        && let Some(next) = remaining.next()
                    {
                        opening = *next;
                    } else {
                        return Err(AttemptFailure::Open(error));
                    }
                    let error = self.redact(&error.to_string());
                    tracing::debug!(server = %self.name, error, ?opening, "handshake failed; trying another mode");
                    // A process that failed one handshake is not used for another.
                    processes.stop_running(&self.host_context.processes).await;
                }
                Err(other) => return Err(other),
            }
        };
        let info = service
            .peer()
            .peer_info()
            .ok_or_else(|| AttemptFailure::Invalid("no server information".into()))?;
        let tools = catalog::list_tools(service.peer(), &info.capabilities).await?;
        let catalog = Catalog {
            tools: tools.items,
            capabilities: info.capabilities.clone(),
            warnings: tools
                .warnings
                .iter()
                .map(|text| self.redact(text))
                .collect(),
            ..Catalog::default()
        };
        let process = processes.session_process();
        if let Some(process) = process {
            // What it printed about the probe does not explain a later failure.
            process.clear_stderr();
        }
        let session = Arc::new(McpSession {
            server: self.name.clone(),
            peer: service.peer().clone(),
            era,
            info,
            pid: process.map(RunningProcess::pid),
            confined: process.and_then(RunningProcess::confined).cloned(),
            since: Instant::now(),
            ended: CancellationToken::new(),
            activity: handler.activity.clone(),
            handler,
        });
        Ok(OpenedSession {
            service,
            session,
            process: None,
            catalog,
            manifest: remembered,
        })
    }

    /// Asks whether a package that is about to be fetched and run is known to be malicious.
    async fn check_package(&self, resolved: &ResolvedServer) -> Result<(), AttemptFailure> {
        let TransportSettings::Stdio(stdio) = &resolved.transport else {
            return Ok(());
        };
        let Some(package) = Package::from_command(stdio) else {
            return Ok(());
        };
        let HostContext {
            home, variables, ..
        } = &*self.host_context;
        let variables = variables.load_full();
        // However slow the answer, the server keeps half of its time.
        let limit = self.server.connect_timeout / 2;
        let vetted = Box::pin(osv::check_package(&package, home, &variables, limit)).await;
        vetted.map_err(|malicious| AttemptFailure::Invalid(malicious.to_string()))
    }

    /// What this server is told that it may ask.
    fn offered_capabilities(&self, resolved: &ResolvedServer) -> OfferedCapabilities {
        let server = Server {
            sampling: resolved.sampling.clone(),
            roots: resolved.roots.clone(),
            ..(*self.server).clone()
        };
        self.host_context
            .request_handler
            .offered_capabilities(&server)
    }

    async fn open_session(
        &self,
        opening: HandshakeMode,
        resolved: &ResolvedServer,
        offers: OfferedCapabilities,
        processes: &mut AttemptProcesses,
    ) -> Result<
        (
            RunningService<RoleClient, SessionHandler>,
            Era,
            SessionHandler,
        ),
        AttemptFailure,
    > {
        let handler = SessionHandler {
            config: client_config(offers),
            activity: Arc::new(SessionActivity::new(
                self.name.clone(),
                self.resource_updates.clone(),
            )),
            request_handler: self.host_context.request_handler.clone(),
            counters: self.counters.clone(),
            redactor: self.redactor.load_full(),
            elicitation_timeout: self.server.elicitation.timeout,
        };
        let silence = self.probe_timeout(opening);
        let (service, era) = match &resolved.transport {
            TransportSettings::Stdio(settings) => {
                let opened = self.open_local(&handler, opening, settings, resolved, processes);
                Box::pin(opened).await?
            }
            TransportSettings::Http(settings) => {
                let peer = self.build_http_peer(settings, resolved)?;
                let peer = peer.with_health(handler.activity.health.clone());
                let transport = BoxedTransport::new(http::transport(settings, peer));
                Box::pin(handshake::open_session(
                    handler.clone(),
                    transport,
                    opening,
                    silence,
                ))
                .await?
            }
            TransportSettings::Sse(settings) => {
                let transport = SseTransport::connect(self.build_http_peer(settings, resolved)?)
                    .await
                    .map_err(|error| {
                        AttemptFailure::Http(
                            http::classify(&error)
                                .unwrap_or_else(|| HttpFailure::Other(error.to_string())),
                        )
                    })?;
                let opening = HandshakeMode::Initialize;
                Box::pin(handshake::open_session(
                    handler.clone(),
                    BoxedTransport::new(transport),
                    opening,
                    silence,
                ))
                .await?
            }
        };
        Ok((service, era, handler))
    }

    /// How long a remote server may leave a probe without any answer.
    fn probe_timeout(&self, opening: HandshakeMode) -> ProbeTimeout {
        let half = self.server.connect_timeout / 2;
        match opening {
            HandshakeMode::Probe => ProbeTimeout::After(PROBE_TIMEOUT.min(half)),
            // A remembered era is given more time: it fitted before.
            HandshakeMode::Discover | HandshakeMode::Initialize => ProbeTimeout::After(half),
        }
    }

    async fn preflight(&self, resolved: &ResolvedServer) -> Result<(), AttemptFailure> {
        let TransportSettings::Http(settings) = &resolved.transport else {
            return Ok(());
        };
        if settings.skip_preflight || self.server.auth.is_some() {
            return Ok(());
        }
        http::preflight(&self.build_http_peer(settings, resolved)?)
            .await
            .map_err(|error| AttemptFailure::Http(HttpFailure::Other(error.to_string())))
    }

    /// The HTTP side of a remote server. What is wrong with its settings is the user's to fix.
    fn build_http_peer(
        &self,
        settings: &HttpSettings,
        resolved: &ResolvedServer,
    ) -> Result<HttpPeer, AttemptFailure> {
        let client = http_client::client(settings, self.server.connect_timeout)
            .map_err(|error| AttemptFailure::Invalid(error.to_string()))?;
        let peer = HttpPeer::new(client, settings)
            .map_err(|error| AttemptFailure::Invalid(error.to_string()))?;
        if self.server.auth != Some(Auth::OAuth) {
            return Ok(peer);
        }
        let login = Login::new(
            self.name.clone(),
            settings.clone(),
            resolved.oauth.clone(),
            self.token_files.clone(),
        );
        let authorizer = Authorizer::new(
            login,
            self.oauth_source(),
            self.redactor.clone(),
            resolved.secrets.clone(),
        );
        let authorizer = Arc::new(authorizer.continuing(self.authorizer.load().as_deref()));
        self.authorizer.store(Some(authorizer.clone()));
        Ok(peer.with_authorizer(authorizer))
    }

    /// Fills in the settings of the login again, whenever they are needed.
    fn oauth_source(&self) -> OAuthSource {
        let (server, host_context) = (self.server.clone(), self.host_context.clone());
        Arc::new(move || {
            let (server, host_context) = (server.clone(), host_context.clone());
            Box::pin(async move {
                let variables = host_context.variables.load_full();
                let resolved = resolve_references(&server, &host_context, variables).await;
                resolved
                    .map(|resolved| resolved.oauth)
                    .map_err(|error| OAuthError::Setting {
                        key: "oauth",
                        reason: error.to_string(),
                    })
            })
        })
    }

    /// Makes the redactor know the secrets of the entry.
    fn update_redactor(&self, resolved: &ResolvedServer) {
        self.redactor
            .store(Arc::new(Redactor::new(resolved.secrets.iter().cloned())));
        for warning in &resolved.warnings {
            tracing::warn!(server = %self.name, "{warning}");
        }
    }
}

/// Resolves a server's references away from the async threads: `${cmd:…}` may take seconds.
pub(crate) async fn resolve_references(
    server: &Arc<Server>,
    host_context: &Arc<HostContext>,
    variables: Arc<hermes_config::Variables>,
) -> Result<ResolvedServer, hermes_config::ServerResolveError> {
    let work = {
        let (server, host_context) = (server.clone(), host_context.clone());
        move || {
            server.resolve(
                &host_context.home,
                &variables,
                host_context.reference_policy.clone(),
            )
        }
    };
    if has_slow_references(server) {
        match tokio::task::spawn_blocking(work).await {
            Ok(resolved) => return resolved,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
    work()
}

fn has_slow_references(server: &Server) -> bool {
    let transport = serde_json::to_string(&server.transport).unwrap_or_default();
    let text = format!("{transport}{:?}", server.oauth);
    text.contains("${cmd:") || text.contains("${keyring:")
}

/// The client's configuration: only capabilities that have a handler are declared.
pub(super) fn client_config(offers: OfferedCapabilities) -> ClientConfig {
    let mut capabilities = ClientCapabilities::default();
    if let Some(sampling) = offers.sampling {
        let mut capability = SamplingCapability::default();
        capability.tools = (sampling == SamplingSupport::WithTools).then(Default::default);
        capabilities.sampling = Some(capability);
    }
    if offers.forms || offers.urls {
        let mut capability = ElicitationCapability::default();
        capability.form = offers.forms.then(FormElicitationCapability::default);
        capability.url = offers.urls.then(UrlElicitationCapability::default);
        capabilities.elicitation = Some(capability);
    }
    if offers.roots {
        let mut capability = RootsCapabilities::default();
        capability.list_changed = Some(true);
        capabilities.roots = Some(capability);
    }
    ClientConfig::new(
        capabilities,
        Implementation::new("hermes", env!("CARGO_PKG_VERSION")),
    )
    .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}
