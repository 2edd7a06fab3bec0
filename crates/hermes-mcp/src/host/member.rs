//! One entry of the configuration inside a host: with a connection, or without one because it is disabled or unusable.

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use arc_swap::ArcSwap;
use hermes_config::{
    Redactor, Resolved, Server, ServerEntry, ServerName,
    server::{CallOrder, PinTools},
};
use tokio::sync::{Semaphore, broadcast, mpsc, watch};

use crate::{
    breaker::Breaker,
    connection::{Connection, Shared, Surroundings},
    counters::Counters,
    link::{Link, Status, hosted_tenant},
    oauth::TokenFiles,
    owner::{Owner, WantedResources},
    registry::{Contribution, Registry},
    status::{ServerStatus, unix},
};

/// Commands are few; senders that find the mailbox full are not needed.
const MAILBOX: usize = 16;
/// Updates of subscribed resources that a slow listener may fall behind.
const RESOURCE_UPDATES: usize = 64;

/// One entry of the configuration.
#[derive(Clone)]
pub(super) enum Member {
    /// With a connection task.
    Live(Arc<Owner>),
    /// Without one.
    Idle(Arc<Idle>),
}

/// An entry that is not connected.
pub(super) struct Idle {
    name: ServerName,
    transport: &'static str,
    status: Status,
    reason: Option<String>,
    since: SystemTime,
}

impl Member {
    /// A disabled or unusable entry.
    pub(super) fn idle(entry: &ServerEntry) -> Self {
        let (transport, status, reason) = match &entry.server {
            Ok(server) => (server.transport.kind(), Status::Disabled, None),
            Err(problem) => (
                kind_as_written(entry),
                Status::Invalid,
                Some(problem.to_string()),
            ),
        };
        Self::Idle(Arc::new(Idle {
            name: entry.name.clone(),
            transport,
            status,
            reason,
            since: SystemTime::now(),
        }))
    }

    /// A connection about to begin.
    pub(super) fn connection(
        server: Arc<Server>,
        resolved: Option<Resolved>,
        surroundings: &Arc<Surroundings>,
        token_files: TokenFiles,
    ) -> (Arc<Owner>, Connection) {
        let name = server.name.clone();
        let fingerprint = resolved.as_ref().map(|known| known.fingerprint.clone());
        let turn = (server.calls == CallOrder::OneByOne).then(|| Semaphore::new(1));
        let server = Arc::new(ArcSwap::new(server));
        let (mailbox, commands) = mpsc::channel(MAILBOX);
        let (publisher, link) = watch::channel(Link::new(Status::Connecting));
        let (resource_updates, _) = broadcast::channel(RESOURCE_UPDATES);
        let wanted_resources = Arc::new(watch::Sender::new(WantedResources::new()));
        let counters = Arc::new(Counters::default());
        let breaker = Arc::new(Breaker::new());
        let redactor = Arc::new(ArcSwap::from_pointee(Redactor::default()));
        let tenant = hosted_tenant(&surroundings.variables.load()).map(str::to_owned);
        let owner = Arc::new(Owner {
            name: name.clone(),
            tenant,
            server: server.clone(),
            fingerprint: fingerprint.clone(),
            link,
            mailbox,
            turn,
            breaker: breaker.clone(),
            counters: counters.clone(),
            redactor: redactor.clone(),
            resource_updates: resource_updates.clone(),
            wanted_resources: wanted_resources.clone(),
        });
        let shared = Shared {
            name,
            server,
            fingerprint,
            surroundings: surroundings.clone(),
            link: publisher,
            counters,
            breaker,
            redactor,
            resource_updates,
            wanted_resources,
            token_files,
            authorizer: Arc::default(),
        };
        (
            owner,
            Connection {
                shared,
                mailbox: commands,
                resolved,
            },
        )
    }

    pub(super) fn name(&self) -> &ServerName {
        match self {
            Self::Live(owner) => &owner.name,
            Self::Idle(idle) => &idle.name,
        }
    }

    pub(super) fn owner(&self) -> Option<&Arc<Owner>> {
        match self {
            Self::Live(owner) => Some(owner),
            Self::Idle(_) => None,
        }
    }

    pub(super) fn contribution(&self) -> Option<Contribution> {
        let owner = self.owner()?;
        let link = owner.link.borrow();
        Some(Contribution {
            server: owner.settings(),
            catalog: link.catalog.clone(),
            is_offered: link.status.offers_tools(),
        })
    }

    pub(super) fn status(
        &self,
        registry: &Registry,
        tools: &HashMap<&ServerName, usize>,
        surroundings: &Surroundings,
    ) -> ServerStatus {
        match self {
            Self::Live(owner) => {
                let tools = tools.get(&owner.name).copied().unwrap_or_default();
                live(owner, registry, tools, surroundings)
            }
            Self::Idle(idle) => ServerStatus {
                error: idle.reason.clone(),
                since: unix(idle.since),
                ..ServerStatus::unconnected(&idle.name, idle.transport, idle.status)
            },
        }
    }
}

fn live(
    owner: &Owner,
    registry: &Registry,
    tools: usize,
    surroundings: &Surroundings,
) -> ServerStatus {
    let server = owner.settings();
    let link = owner.link.borrow();
    let session = link.session.as_ref();
    let prefix = format!("{}: ", owner.name);
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
    let unset = server.unset_variables(&surroundings.home, &surroundings.variables.load());
    ServerStatus {
        name: owner.name.to_string(),
        transport: server.transport.kind().into(),
        tools,
        connected: link.status == Status::Ready,
        disabled: false,
        status: link.status,
        error: link.error.as_ref().map(ToString::to_string),
        error_at: link.error.as_ref().map(|error| unix(error.at)),
        sampling: server.sampling.enabled.then(|| owner.counters.sampling()),
        era: session.map(|session| session.era),
        protocol_version: session.map(|session| session.info.protocol_version.to_string()),
        server_info: session.and_then(|session| session.info.server_info.clone()),
        pid: session.and_then(|session| session.pid),
        sandbox: confined.map(|confined| (**confined).clone()),
        since: unix(link.since),
        attempt: link.attempt,
        next_attempt_at: link.next_attempt_at.map(unix),
        restarts: link.restarts,
        in_flight: session.map_or(0, |session| session.traffic.in_flight()),
        calls: owner.counters.calls(),
        elicitation: owner.counters.elicitation(),
        breaker: owner.breaker.state(),
        withheld_tools: withheld(&server, &link),
        warnings: unset
            .iter()
            .map(ToString::to_string)
            .chain(odd)
            .chain(collisions.map(str::to_owned))
            .chain(unconfined)
            .collect(),
    }
}

fn withheld(server: &Server, link: &Link) -> Vec<String> {
    let catalog = link.catalog.as_ref();
    let catalog = catalog.filter(|_| server.pin_tools == PinTools::Block);
    let names = catalog.iter().flat_map(|catalog| &catalog.withheld);
    names.map(ToString::to_string).collect()
}

fn kind_as_written(entry: &ServerEntry) -> &'static str {
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
