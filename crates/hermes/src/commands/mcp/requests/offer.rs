//! What servers offer, asked of them now or remembered from last time, and the names the model would see.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_config::{PinTools, ReferencePolicy, Server, ServerName, Settings, ToolNaming};
use hermes_mcp::{
    HostRequest, RegisteredTool, Registry, RequestOutcome, ToolOrigin,
    connection::manifest,
    protocol::{ServerCapabilities, Tool},
    tools::{
        catalog::{Catalog, NativeTool},
        names::Naming,
        pins::{PinComparison, PinState, Pins},
        registry::RegistryInput,
    },
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    call::RequestRoute,
    probe,
    probe::{ListNeed, ProbeFailure},
};
use crate::{
    commands::mcp::requests::{running_process, running_process::RoutedRequest},
    context::Context,
    failure::Failure,
};

/// One server's tools.
pub(crate) struct ServerOffer {
    pub(crate) server: Arc<Server>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) source: OfferSource,
    /// What is odd about the server or its lists.
    pub(crate) warnings: Vec<String>,
}

/// Where the tools are known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfferSource {
    /// The server said so, after this time.
    Live(Duration),
    /// It said so when it was last connected.
    Cached,
}

impl ServerOffer {
    /// How many tools come with it that only read its resources and prompts.
    pub(crate) fn count_utilities(&self, settings: &Settings) -> usize {
        let registry = build_registry(settings, std::slice::from_ref(self));
        let tools = registry.tools();
        tools
            .filter(|tool| matches!(tool.origin, ToolOrigin::Utility(_)))
            .count()
    }
}

/// How many tools a server has, in the one way all commands count: those the model is offered, and apart from that how
/// many of them are the server's own.
pub(crate) fn describe_tool_count(own: usize, utilities: usize) -> String {
    let all = match own + utilities {
        1 => "1 tool".to_owned(),
        many => format!("{many} tools"),
    };
    match utilities {
        0 => all,
        utilities => format!("{all} ({own} of its own, {utilities} for its resources and prompts)"),
    }
}

/// Asks servers as `ask` does, but a running process that has a server answers for it, if that is wanted.
pub(crate) async fn ask_by(
    context: &Context,
    settings: &Settings,
    names: &[&ServerName],
    by: RequestRoute,
) -> Result<Vec<Result<ServerOffer, ProbeFailure>>, Failure> {
    if by == RequestRoute::OwnConnection {
        return query_servers(context, settings, names).await;
    }
    let known = names
        .iter()
        .map(|name| ask_running(context, settings, name));
    let known = futures::future::join_all(known).await;
    let unknown: Vec<&ServerName> = std::iter::zip(names, &known)
        .filter(|(_, offer)| offer.is_none())
        .map(|(name, _)| *name)
        .collect();
    let queried = if unknown.is_empty() {
        Vec::new()
    } else {
        query_servers(context, settings, &unknown).await?
    };
    let mut queried = queried.into_iter();
    let offers = known.into_iter();
    Ok(offers
        .filter_map(|offer| offer.map(Ok).or_else(|| queried.next()))
        .collect())
}

/// What a running process has of a server; `None` if it has none, or cannot tell.
async fn ask_running(
    context: &Context,
    settings: &Settings,
    name: &ServerName,
) -> Option<ServerOffer> {
    let began = Instant::now();
    let server = settings.server(name.as_str())?.server.clone().ok()?;
    let wanted = RoutedRequest {
        server: name,
        request: HostRequest::ListTools,
        timeout: None,
    };
    let report = running_process::request_running_process(context, settings, wanted)
        .await
        .ok()??;
    let RequestOutcome::Answered { members, .. } = report else {
        return None;
    };
    let RunningTools {
        tools,
        capabilities,
        warnings,
    } = serde_json::from_value(members).ok()?;
    let tools = tools.into_iter().map(NativeTool::new);
    Some(ServerOffer {
        server: Arc::new(server),
        catalog: Arc::new(Catalog {
            tools: tools.map(Arc::new).collect(),
            capabilities,
            ..Catalog::default()
        }),
        source: OfferSource::Live(began.elapsed()),
        warnings,
    })
}

/// What a running process says of a server's tools.
#[derive(Deserialize)]
struct RunningTools {
    tools: Vec<Tool>,
    capabilities: ServerCapabilities,
    warnings: Vec<String>,
}

/// Asks servers, all at once, on connections of this command. Each gets its own answer, in the same order. Everything is listed, not just the tools,
/// since only complete lists are remembered.
pub(crate) async fn query_servers(
    context: &Context,
    settings: &Settings,
    names: &[&ServerName],
) -> Result<Vec<Result<ServerOffer, ProbeFailure>>, Failure> {
    let host = probe::start_host(context, &without_pins(settings), names).await?;
    let mut offers = Vec::new();
    let answers = names
        .iter()
        .map(|name| probe::wait_for_server(context, &host, name, ListNeed::Everything));
    let answers = futures::future::join_all(answers).await;
    for (name, answered) in std::iter::zip(names, answers) {
        let server = settings.server(name.as_str());
        let server = server.and_then(|entry| entry.server.clone().ok());
        offers.push(match (answered, server) {
            (Ok(answered), Some(server)) => Ok(ServerOffer {
                server: Arc::new(server),
                source: OfferSource::Live(answered.elapsed),
                warnings: server_warnings(&host, name),
                catalog: answered.catalog,
            }),
            (Err(unanswered), _) => Err(unanswered),
            (Ok(_), None) => Err(Failure::failed(format!("server `{name}` is not usable")).into()),
        });
    }
    host.shutdown().await;
    Ok(offers)
}

/// Looking at tools accepts none of them.
pub(crate) fn without_pins(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    let servers = settings.servers.iter_mut();
    for server in servers.filter_map(|entry| entry.server.as_mut().ok()) {
        server.pin_tools = PinTools::Off;
    }
    settings
}

/// What was accepted of a server's tools, beside what it says now.
pub(crate) fn compare_pins(
    context: &Context,
    server: &Server,
    catalog: &Catalog,
) -> Result<PinComparison, Failure> {
    let pins = Pins::for_home(&context.home);
    let compared = pins.compare(&server.name, &catalog.tools);
    compared.map_err(|error| {
        Failure::failed(error.to_string())
            .hint("fix the file, or remove it: all tools are then new")
            .about(server.name.clone())
    })
}

fn server_warnings(host: &hermes_mcp::Host, name: &ServerName) -> Vec<String> {
    let mut all = host.status().into_iter();
    let status = all.find(|status| status.name == name.as_str());
    status.map(|status| status.warnings).unwrap_or_default()
}

/// What a server said when it was last connected, if that is known.
pub(crate) fn cached_offer(
    context: &Context,
    settings: &Settings,
    server: &Server,
) -> Option<ServerOffer> {
    // It was remembered when it was enabled.
    let server = Server {
        enabled: true,
        ..server.clone()
    };
    let resolved = server.resolve(&context.home, &settings.variables, ReferencePolicy::owner());
    let path = manifest::manifest_path(&context.home, &resolved.ok()?.fingerprint);
    let manifest = manifest::read_manifest(&path)?;
    let tools = manifest.tools.into_iter().map(NativeTool::new);
    Some(ServerOffer {
        server: Arc::new(server),
        catalog: Arc::new(Catalog {
            tools: tools.map(Arc::new).collect(),
            capabilities: manifest.capabilities,
            ..Catalog::default()
        }),
        source: OfferSource::Cached,
        warnings: Vec::new(),
    })
}

/// A tool and what became of it.
pub(crate) struct OfferedTool<'a> {
    pub(crate) server: &'a ServerName,
    pub(crate) tool: &'a NativeTool,
    /// Its name for the model, unless a filter keeps it out.
    registered: Option<Arc<RegisteredTool>>,
    /// How it compares with what was accepted; `None` where nothing is pinned.
    pin: Option<PinState>,
}

/// The tools of several servers with the names they get together.
pub(crate) fn offered_tools<'a>(
    settings: &Settings,
    offers: &'a [ServerOffer],
) -> Vec<OfferedTool<'a>> {
    let registry = build_registry(settings, offers);
    let all = offers.iter().flat_map(|offer| {
        let tools = offer.catalog.tools.iter();
        tools.map(|tool| (&offer.server.name, &**tool))
    });
    all.map(|(server, tool)| OfferedTool {
        server,
        tool,
        registered: registry.find_original(server, tool.name.as_str()).cloned(),
        pin: None,
    })
    .collect()
}

fn build_registry(settings: &Settings, offers: &[ServerOffer]) -> Registry {
    let naming = match settings.mcp.naming {
        ToolNaming::Single => Naming::Single,
        ToolNaming::Double => Naming::Double,
    };
    let contributions: Vec<RegistryInput> = offers
        .iter()
        .map(|offer| RegistryInput {
            server: offer.server.clone(),
            catalog: Some(offer.catalog.clone()),
            is_offered: true,
            tenant: None,
        })
        .collect();
    Registry::build(0, naming, &HashSet::new(), &contributions)
}

/// The same, each compared with what was accepted of it.
pub(crate) fn pinned_tools<'a>(
    context: &Context,
    settings: &Settings,
    offers: &'a [ServerOffer],
) -> Vec<OfferedTool<'a>> {
    let mut tools = offered_tools(settings, offers);
    for offer in offers {
        if offer.server.pin_tools == PinTools::Off {
            continue;
        }
        match compare_pins(context, &offer.server, &offer.catalog) {
            Ok(comparison) => {
                let of_it = tools.iter_mut();
                for tool in of_it.filter(|tool| *tool.server == offer.server.name) {
                    let state = comparison.state(&tool.tool.name);
                    tool.pin = Some(state);
                    if state == PinState::Changed && offer.server.pin_tools == PinTools::Block {
                        tool.registered = None;
                    }
                }
            }
            Err(failure) => context.output.warning(failure.message),
        }
    }
    tools
}

impl OfferedTool<'_> {
    pub(crate) fn is_included(&self) -> bool {
        self.registered.is_some()
    }

    pub(crate) fn registered_name(&self) -> Option<&str> {
        self.registered.as_ref().map(|tool| tool.name.as_str())
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.pin == Some(PinState::Changed)
    }

    pub(crate) fn description(&self) -> &str {
        let text = self.tool.definition.description.as_deref();
        text.unwrap_or_default().trim()
    }

    /// With its description, as `add` shows it.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "name": self.tool.name,
            "registered_name": self.registered_name(),
            "description": self.description(),
            "included": self.is_included(),
        })
    }

    /// With its schema as received.
    pub(crate) fn with_schema(&self) -> Value {
        json!({
            "server": self.server,
            "name": self.tool.name,
            "registered_name": self.registered_name(),
            "included": self.is_included(),
            "schema": self.tool.input_schema(),
            "pin": self.pin,
        })
    }
}
