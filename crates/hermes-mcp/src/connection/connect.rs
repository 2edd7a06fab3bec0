//! One attempt to connect: resolve the references, start the process or the HTTP client, open the session, list the tools.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use hermes_config::{
    Redactor, Resolved, Server, ServerName, TransportSettings,
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
    Shared, Surroundings,
    attempt_processes::AttemptProcesses,
    failure::{Cause, ConnectError},
    handshake::{self, Silence},
};
use crate::{
    catalog::{self, Catalog},
    counters::Counters,
    era::{self, Era, Opening},
    inquiry::{Offers, SamplingOffer},
    manifest::{self, Remembered},
    oauth::{Authorizer, Login, OAuthError, OAuthSource, TokenFiles},
    osv::{self, Package},
    package_runner::Fetch,
    process::Running,
    session::{Handler, Session, Traffic},
    transport::{
        http::{self, HttpFailure, HttpPeer},
        sse::SseTransport,
        tls,
    },
};

mod local;

/// The longest a probe of a remote server waits for any answer.
const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// How often a package runner is looked at that takes longer than its server's `connect_timeout`.
const FETCH_LOOK: Duration = Duration::from_millis(500);

/// A session just opened.
pub(super) struct Live {
    pub(super) service: RunningService<RoleClient, Handler>,
    pub(super) session: Arc<Session>,
    pub(super) process: Option<Running>,
    pub(super) catalog: Catalog,
    /// What the manifest says.
    pub(super) remembered: Option<Remembered>,
}

/// Everything an attempt needs, apart from the connection's mailbox.
pub(super) struct Connector {
    name: ServerName,
    server: Arc<Server>,
    surroundings: Arc<Surroundings>,
    counters: Arc<Counters>,
    redactor: Arc<arc_swap::ArcSwap<Redactor>>,
    resource_updates: broadcast::Sender<String>,
    token_files: TokenFiles,
    authorizer: Arc<ArcSwapOption<Authorizer>>,
    /// The references, where they were filled in a moment ago.
    resolved: Option<Resolved>,
    /// What a package runner has to do before its server can answer.
    fetch: Fetch,
    /// Held while a process is being started.
    handling_process: Mutex<()>,
}

impl Shared {
    pub(super) fn connector(&self, resolved: Option<Resolved>) -> Connector {
        Connector {
            resolved,
            name: self.name.clone(),
            server: self.server.load_full(),
            surroundings: self.surroundings.clone(),
            counters: self.counters.clone(),
            redactor: self.redactor.clone(),
            resource_updates: self.resource_updates.clone(),
            token_files: self.token_files.clone(),
            authorizer: self.authorizer.clone(),
            fetch: Fetch::default(),
            handling_process: Mutex::new(()),
        }
    }
}

impl Connector {
    /// Connects within the server's limit. Whatever else comes of it, nothing of the process is left on return.
    pub(super) async fn connect(
        mut self,
        given_up: CancellationToken,
    ) -> Result<Live, ConnectError> {
        let mut processes = AttemptProcesses::default();
        let resolved = self.resolved.take();
        let outcome = tokio::select! {
            biased;
            () = async {
                given_up.cancelled().await;
                // A process that is on its way is waited for: what is not known yet cannot be stopped.
                let _done = self.handling_process.lock().await;
            } => None,
            outcome = Box::pin(self.attempt(resolved, &mut processes)) => Some(outcome),
            waited = self.time_is_up() => Some(Err(Cause::Timeout(waited))),
        };
        let Some(outcome) = outcome else {
            processes.stop().await;
            return Err(ConnectError::GivenUp);
        };
        let cause = match outcome {
            Ok(live) => {
                let process = processes.take_kept();
                return Ok(Live { process, ..live });
            }
            Err(cause) => cause,
        };
        let last = processes.last_words().await;
        processes.stop().await;
        Err(cause.explain(&last, |text| self.redacted(text)))
    }

    /// Returns when the server has had its time, and says how long that was.
    async fn time_is_up(&self) -> Duration {
        let limit = self.server.connect_timeout;
        tokio::time::sleep(limit).await;
        let mut waited = limit;
        while let Some(longest) = self.surroundings.fetch_limit
            && waited < longest
            && self.fetch.is_under_way()
        {
            let pause = FETCH_LOOK.min(longest.saturating_sub(waited));
            tokio::time::sleep(pause).await;
            waited += pause;
        }
        waited
    }

    fn redacted(&self, text: &str) -> String {
        self.redactor.load().redact(text).into_owned()
    }

    /// The processes are left outside, so that they can be stopped whatever becomes of the attempt.
    async fn attempt(
        &self,
        resolved: Option<Resolved>,
        processes: &mut AttemptProcesses,
    ) -> Result<Live, Cause> {
        let resolved = if let Some(resolved) = resolved {
            resolved
        } else {
            let variables = self.surroundings.variables.load_full();
            resolve(&self.server, &self.surroundings, variables).await?
        };
        self.learn_secrets(&resolved);
        self.vet(&resolved).await?;
        let remembered = Remembered::read(&manifest::path(
            &self.surroundings.home,
            &resolved.fingerprint,
        ));
        if remembered.is_some() {
            self.fetch.expect_nothing_to_fetch();
        } else {
            self.preflight(&resolved).await?;
        }
        let mut offers = self.offers(&resolved);
        let openings = era::openings(
            self.server.protocol,
            remembered.map(|remembered| remembered.era),
        );
        let mut remaining = openings.iter();
        let mut opening = remaining.next().copied().unwrap_or(Opening::Initialize);
        let (service, era, handler) = loop {
            match self.open(opening, &resolved, offers, processes).await {
                Ok(opened) => break opened,
                Err(Cause::Open(error)) => {
                    let reduced = Offers {
                        sampling: offers.sampling.map(|_| SamplingOffer::Plain),
                        ..offers
                    };
                    if error.is_about_parameters() && reduced != offers {
                        offers = reduced;
                        opening = Opening::Initialize;
                    } else if error.may_be_the_era()
                        && let Some(next) = remaining.next()
                    {
                        opening = *next;
                    } else {
                        return Err(Cause::Open(error));
                    }
                    let error = self.redacted(&error.to_string());
                    tracing::debug!(server = %self.name, error, ?opening, "handshake failed; trying another mode");
                    // A process that failed one handshake is not used for another.
                    processes.clear(&self.surroundings.processes).await;
                }
                Err(other) => return Err(other),
            }
        };
        let info = service
            .peer()
            .peer_info()
            .ok_or_else(|| Cause::Invalid("no server information".into()))?;
        let tools = catalog::list_tools(service.peer(), &info.capabilities).await?;
        let catalog = Catalog {
            tools: tools.items,
            capabilities: info.capabilities.clone(),
            warnings: tools
                .warnings
                .iter()
                .map(|text| self.redacted(text))
                .collect(),
            ..Catalog::default()
        };
        let process = processes.kept();
        if let Some(process) = process {
            // What it printed about the probe does not explain a later failure.
            process.forget_lines();
        }
        let session = Arc::new(Session {
            server: self.name.clone(),
            peer: service.peer().clone(),
            era,
            info,
            pid: process.map(Running::pid),
            confined: process.and_then(Running::confined).cloned(),
            since: Instant::now(),
            ended: CancellationToken::new(),
            traffic: handler.traffic.clone(),
            handler,
        });
        Ok(Live {
            service,
            session,
            process: None,
            catalog,
            remembered,
        })
    }

    /// Asks whether a package that is about to be fetched and run is known to be malicious.
    async fn vet(&self, resolved: &Resolved) -> Result<(), Cause> {
        let TransportSettings::Stdio(stdio) = &resolved.transport else {
            return Ok(());
        };
        let Some(package) = Package::of(stdio) else {
            return Ok(());
        };
        let Surroundings {
            home, variables, ..
        } = &*self.surroundings;
        let variables = variables.load_full();
        // However slow the answer, the server keeps half of its time.
        let limit = self.server.connect_timeout / 2;
        let vetted = Box::pin(osv::vet(&package, home, &variables, limit)).await;
        vetted.map_err(|malicious| Cause::Invalid(malicious.to_string()))
    }

    /// What this server is told that it may ask.
    fn offers(&self, resolved: &Resolved) -> Offers {
        let server = Server {
            sampling: resolved.sampling.clone(),
            roots: resolved.roots.clone(),
            ..(*self.server).clone()
        };
        self.surroundings.inquiries.offers(&server)
    }

    async fn open(
        &self,
        opening: Opening,
        resolved: &Resolved,
        offers: Offers,
        processes: &mut AttemptProcesses,
    ) -> Result<(RunningService<RoleClient, Handler>, Era, Handler), Cause> {
        let handler = Handler {
            config: client_config(offers),
            traffic: Arc::new(Traffic::new(
                self.name.clone(),
                self.resource_updates.clone(),
            )),
            inquiries: self.surroundings.inquiries.clone(),
            counters: self.counters.clone(),
            redactor: self.redactor.load_full(),
            elicitation_timeout: self.server.elicitation.timeout,
        };
        let silence = self.silence(opening);
        let (service, era) = match &resolved.transport {
            TransportSettings::Stdio(settings) => {
                let opened = self.open_local(&handler, opening, settings, resolved, processes);
                Box::pin(opened).await?
            }
            TransportSettings::Http(settings) => {
                let peer = self.peer(settings, resolved)?;
                let peer = peer.telling(handler.traffic.doubt.clone());
                let transport = http::transport(settings, peer);
                Box::pin(handshake::open(
                    handler.clone(),
                    transport,
                    opening,
                    silence,
                ))
                .await?
            }
            TransportSettings::Sse(settings) => {
                let transport = SseTransport::connect(self.peer(settings, resolved)?)
                    .await
                    .map_err(|error| {
                        Cause::Http(
                            http::classify(&error)
                                .unwrap_or_else(|| HttpFailure::Other(error.to_string())),
                        )
                    })?;
                let opening = Opening::Initialize;
                Box::pin(handshake::open(
                    handler.clone(),
                    transport,
                    opening,
                    silence,
                ))
                .await?
            }
        };
        Ok((service, era, handler))
    }

    /// How long a remote server may leave a probe without any answer.
    fn silence(&self, opening: Opening) -> Silence {
        let half = self.server.connect_timeout / 2;
        match opening {
            Opening::Probe => Silence::EndsAfter(PROBE_LIMIT.min(half)),
            // A remembered era is given more time: it fitted before.
            Opening::Discover | Opening::Initialize => Silence::EndsAfter(half),
        }
    }

    async fn preflight(&self, resolved: &Resolved) -> Result<(), Cause> {
        let TransportSettings::Http(settings) = &resolved.transport else {
            return Ok(());
        };
        if settings.skip_preflight || self.server.auth.is_some() {
            return Ok(());
        }
        http::preflight(&self.peer(settings, resolved)?)
            .await
            .map_err(|error| Cause::Http(HttpFailure::Other(error.to_string())))
    }

    /// The HTTP side of a remote server. What is wrong with its settings is the user's to mend.
    fn peer(&self, settings: &HttpSettings, resolved: &Resolved) -> Result<HttpPeer, Cause> {
        let client = tls::client(settings, self.server.connect_timeout)
            .map_err(|error| Cause::Invalid(error.to_string()))?;
        let peer =
            HttpPeer::new(client, settings).map_err(|error| Cause::Invalid(error.to_string()))?;
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
        let authorizer = Arc::new(authorizer.after(self.authorizer.load().as_deref()));
        self.authorizer.store(Some(authorizer.clone()));
        Ok(peer.authorized_by(authorizer))
    }

    /// Fills in the settings of the login again, whenever they are needed.
    fn oauth_source(&self) -> OAuthSource {
        let (server, surroundings) = (self.server.clone(), self.surroundings.clone());
        Arc::new(move || {
            let (server, surroundings) = (server.clone(), surroundings.clone());
            Box::pin(async move {
                let variables = surroundings.variables.load_full();
                let resolved = resolve(&server, &surroundings, variables).await;
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
    fn learn_secrets(&self, resolved: &Resolved) {
        self.redactor
            .store(Arc::new(Redactor::new(resolved.secrets.iter().cloned())));
        for warning in &resolved.warnings {
            tracing::warn!(server = %self.name, "{warning}");
        }
    }
}

/// Resolves a server's references away from the async threads: `${cmd:…}` may take seconds.
pub(crate) async fn resolve(
    server: &Arc<Server>,
    surroundings: &Arc<Surroundings>,
    variables: Arc<hermes_config::Variables>,
) -> Result<Resolved, hermes_config::ReferenceError> {
    let work = {
        let (server, surroundings) = (server.clone(), surroundings.clone());
        move || {
            server.resolve(
                &surroundings.home,
                &variables,
                surroundings.references.clone(),
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
pub(super) fn client_config(offers: Offers) -> ClientConfig {
    let mut capabilities = ClientCapabilities::default();
    if let Some(sampling) = offers.sampling {
        let mut capability = SamplingCapability::default();
        capability.tools = (sampling == SamplingOffer::WithTools).then(Default::default);
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
