//! One entry of the configuration inside a host: with a connection, or without one because it is disabled or unusable.

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use arc_swap::ArcSwap;
use hermes_config::{
    Redactor, ResolvedServer, Server, ServerEntry, ServerName,
    clock::unix_seconds,
    server::{CallOrder, PinTools},
};
use tokio::sync::{Semaphore, broadcast, mpsc, watch};

use crate::{
    connection::{
        Connection, ConnectionContext, HostContext,
        breaker::CircuitBreaker,
        counters::Counters,
        handle::{ResourceSubscriptions, ServerHandle},
        link::{Link, LinkStatus, hosted_tenant},
    },
    host::status::ServerStatus,
    oauth::TokenFiles,
    tools::registry::{Registry, RegistryInput},
};

/// Commands are few; senders that find the mailbox full are not needed.
const MAILBOX_CAPACITY: usize = 16;
/// Updates of subscribed resources that a slow listener may fall behind.
const RESOURCE_UPDATE_CAPACITY: usize = 64;

/// One entry of the configuration.
#[derive(Clone)]
pub(super) enum HostedServer {
    /// With a connection task.
    Managed(Arc<ServerHandle>),
    /// Without one.
    Inactive(Arc<InactiveServer>),
}

/// An entry that is not connected.
pub(super) struct InactiveServer {
    name: ServerName,
    transport: &'static str,
    status: LinkStatus,
    reason: Option<String>,
    since: SystemTime,
}

impl HostedServer {
    /// A disabled or unusable entry.
    pub(super) fn inactive(entry: &ServerEntry) -> Self {
        let (transport, status, reason) = match &entry.server {
            Ok(server) => (server.transport.kind(), LinkStatus::Disabled, None),
            Err(problem) => (
                configured_transport(entry),
                LinkStatus::Invalid,
                Some(problem.to_string()),
            ),
        };
        Self::Inactive(Arc::new(InactiveServer {
            name: entry.name.clone(),
            transport,
            status,
            reason,
            since: SystemTime::now(),
        }))
    }

    /// A connection about to begin.
    pub(super) fn new_connection(
        server: Arc<Server>,
        resolved: Option<ResolvedServer>,
        host_context: &Arc<HostContext>,
        token_files: TokenFiles,
    ) -> (Arc<ServerHandle>, Connection) {
        let name = server.name.clone();
        let fingerprint = resolved.as_ref().map(|known| known.fingerprint.clone());
        let turn = (server.calls == CallOrder::OneByOne).then(|| Semaphore::new(1));
        let server = Arc::new(ArcSwap::new(server));
        let (mailbox, commands) = mpsc::channel(MAILBOX_CAPACITY);
        let (publisher, link) = watch::channel(Link::new(LinkStatus::Connecting));
        let (resource_updates, _) = broadcast::channel(RESOURCE_UPDATE_CAPACITY);
        let wanted_resources = Arc::new(watch::Sender::new(ResourceSubscriptions::new()));
        let counters = Arc::new(Counters::default());
        let breaker = Arc::new(CircuitBreaker::new());
        let redactor = Arc::new(ArcSwap::from_pointee(Redactor::default()));
        let tenant = hosted_tenant(&host_context.variables.load()).map(str::to_owned);
        let handle = Arc::new(ServerHandle {
            name: name.clone(),
            tenant,
            server: server.clone(),
            fingerprint: fingerprint.clone(),
            link,
            mailbox,
            call_permits: turn,
            breaker: breaker.clone(),
            counters: counters.clone(),
            redactor: redactor.clone(),
            resource_updates: resource_updates.clone(),
            resource_subscriptions: wanted_resources.clone(),
        });
        let shared = ConnectionContext {
            name,
            server,
            fingerprint,
            host_context: host_context.clone(),
            link: publisher,
            counters,
            breaker,
            redactor,
            resource_updates,
            resource_subscriptions: wanted_resources,
            token_files,
            authorizer: Arc::default(),
            discover_cost_attempt: Arc::default(),
        };
        (
            handle,
            Connection {
                shared,
                mailbox: commands,
                resolved,
            },
        )
    }

    pub(super) fn name(&self) -> &ServerName {
        match self {
            Self::Managed(handle) => &handle.name,
            Self::Inactive(idle) => &idle.name,
        }
    }

    pub(super) fn handle(&self) -> Option<&Arc<ServerHandle>> {
        match self {
            Self::Managed(handle) => Some(handle),
            Self::Inactive(_) => None,
        }
    }

    pub(super) fn registry_input(&self) -> Option<RegistryInput> {
        let handle = self.handle()?;
        let link = handle.link.borrow();
        Some(RegistryInput {
            server: handle.settings(),
            catalog: link.catalog.clone(),
            is_offered: link.status.offers_tools(),
            tenant: handle.tenant.clone(),
        })
    }

    pub(super) fn status(
        &self,
        registry: &Registry,
        tools: &HashMap<&ServerName, usize>,
        host_context: &HostContext,
    ) -> ServerStatus {
        match self {
            Self::Managed(handle) => {
                let tools = tools.get(&handle.name).copied().unwrap_or_default();
                managed_status(handle, registry, tools, host_context)
            }
            Self::Inactive(idle) => ServerStatus {
                error: idle.reason.clone(),
                since: unix_seconds(idle.since),
                ..ServerStatus::unconnected(&idle.name, idle.transport, idle.status)
            },
        }
    }
}

fn managed_status(
    handle: &ServerHandle,
    registry: &Registry,
    tools: usize,
    host_context: &HostContext,
) -> ServerStatus {
    let server = handle.settings();
    let link = handle.link.borrow();
    let session = link.session.as_ref();
    let prefix = format!("{}: ", handle.name);
    let collisions = registry
        .warnings()
        .iter()
        .filter_map(|text| text.strip_prefix(&prefix));
    let odd = link
        .catalog
        .iter()
        .flat_map(|catalog| catalog.all_warnings());
    let confined = session.and_then(|session| session.confined.as_ref());
    let unconfined = confined
        .into_iter()
        .flat_map(|confined| confined.warnings.clone());
    let unset = server.unset_variables(&host_context.home, &host_context.variables.load());
    ServerStatus {
        name: handle.name.to_string(),
        transport: server.transport.kind().into(),
        tools,
        connected: link.status == LinkStatus::Ready,
        disabled: false,
        status: link.status,
        error: link.error.as_ref().map(ToString::to_string),
        error_at: link.error.as_ref().map(|error| unix_seconds(error.at)),
        sampling: server.sampling.enabled.then(|| handle.counters.sampling()),
        era: session.map(|session| session.era),
        protocol_version: session.map(|session| session.info.protocol_version.to_string()),
        server_info: session.and_then(|session| session.info.server_info.clone()),
        pid: session.and_then(|session| session.pid),
        sandbox: confined.map(|confined| (**confined).clone()),
        since: unix_seconds(link.since),
        attempt: link.attempt,
        next_attempt_at: link.next_attempt_at.map(unix_seconds),
        restarts: link.restarts,
        in_flight: session.map_or(0, |session| session.activity.in_flight()),
        calls: handle.counters.calls(),
        elicitation: handle.counters.elicitation(),
        breaker: handle.breaker.state(),
        withheld_tools: withheld_tools(&server, &link),
        warnings: unset
            .iter()
            .map(ToString::to_string)
            .chain(odd)
            .chain(collisions.map(str::to_owned))
            .chain(unconfined)
            .collect(),
    }
}

fn withheld_tools(server: &Server, link: &Link) -> Vec<String> {
    let catalog = link.catalog.as_ref();
    let catalog = catalog.filter(|_| server.pin_tools == PinTools::Block);
    let names = catalog.iter().flat_map(|catalog| &catalog.withheld);
    names.map(ToString::to_string).collect()
}

fn configured_transport(entry: &ServerEntry) -> &'static str {
    match (
        entry.template.get("url"),
        entry
            .template
            .get("transport")
            .and_then(|kind| kind.as_str()),
    ) {
        (_, Some("sse")) => "sse",
        (Some(_), _) => "http",
        (None, _) => "stdio",
    }
}
