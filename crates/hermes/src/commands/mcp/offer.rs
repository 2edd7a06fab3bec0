//! What servers offer, asked of them now or remembered from last time, and the names the model would see.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_config::{PinTools, ReferencePolicy, Server, ServerName, Settings, ToolNaming};
use hermes_mcp::{
    RegisteredTool, Registry, RequestReport, ServerRequest,
    catalog::{Catalog, NativeTool},
    manifest,
    names::Naming,
    pins::{Comparison, PinState, Pins},
    protocol::{ServerCapabilities, Tool},
    registry::{Contribution, Origin},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    call::By,
    probe::{self, Need, Unanswered},
    running::{self, Wanted},
};
use crate::{context::Context, failure::Failure};

/// One server's tools.
pub(super) struct Offer {
    pub(super) server: Arc<Server>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) knowledge: Knowledge,
    /// What is odd about the server or its lists.
    pub(super) warnings: Vec<String>,
}

/// Where the tools are known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// The server said so, after this time.
    Asked(Duration),
    /// It said so when it was last connected.
    Remembered,
}

impl Offer {
    /// How many tools come with it that only read its resources and prompts.
    pub(super) fn utilities(&self, settings: &Settings) -> usize {
        let registry = registry(settings, std::slice::from_ref(self));
        let tools = registry.tools();
        tools
            .filter(|tool| matches!(tool.origin, Origin::Utility(_)))
            .count()
    }
}

/// How many tools a server has, in the one way all commands count: those the model is offered, and apart from that how
/// many of them are the server's own.
pub(super) fn counted(own: usize, utilities: usize) -> String {
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
pub(super) async fn ask_by(
    context: &Context,
    settings: &Settings,
    names: &[&ServerName],
    by: By,
) -> Result<Vec<Result<Offer, Unanswered>>, Failure> {
    if by == By::Own {
        return ask(context, settings, names).await;
    }
    let known = names
        .iter()
        .map(|name| ask_running(context, settings, name));
    let known = futures::future::join_all(known).await;
    let unknown: Vec<&ServerName> = std::iter::zip(names, &known)
        .filter(|(_, offer)| offer.is_none())
        .map(|(name, _)| *name)
        .collect();
    let asked = if unknown.is_empty() {
        Vec::new()
    } else {
        ask(context, settings, &unknown).await?
    };
    let mut asked = asked.into_iter();
    let offers = known.into_iter();
    Ok(offers
        .filter_map(|offer| offer.map(Ok).or_else(|| asked.next()))
        .collect())
}

/// What a running process has of a server; `None` if it has none, or cannot tell.
async fn ask_running(context: &Context, settings: &Settings, name: &ServerName) -> Option<Offer> {
    let began = Instant::now();
    let server = settings.server(name.as_str())?.server.clone().ok()?;
    let wanted = Wanted {
        server: name,
        request: ServerRequest::ListTools,
        timeout: None,
    };
    let report = running::request(context, settings, wanted).await.ok()??;
    let RequestReport::Answered { members, .. } = report else {
        return None;
    };
    let RunningTools {
        tools,
        capabilities,
        warnings,
    } = serde_json::from_value(members).ok()?;
    let tools = tools.into_iter().map(NativeTool::new);
    Some(Offer {
        server: Arc::new(server),
        catalog: Arc::new(Catalog {
            tools: tools.map(Arc::new).collect(),
            capabilities,
            ..Catalog::default()
        }),
        knowledge: Knowledge::Asked(began.elapsed()),
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
pub(super) async fn ask(
    context: &Context,
    settings: &Settings,
    names: &[&ServerName],
) -> Result<Vec<Result<Offer, Unanswered>>, Failure> {
    let host = probe::host(context, &without_pins(settings), names).await?;
    let mut offers = Vec::new();
    let answers = names
        .iter()
        .map(|name| probe::answer(context, &host, name, Need::Everything));
    let answers = futures::future::join_all(answers).await;
    for (name, answered) in std::iter::zip(names, answers) {
        let server = settings.server(name.as_str());
        let server = server.and_then(|entry| entry.server.clone().ok());
        offers.push(match (answered, server) {
            (Ok(answered), Some(server)) => Ok(Offer {
                server: Arc::new(server),
                knowledge: Knowledge::Asked(answered.elapsed),
                warnings: warnings(&host, name),
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
pub(super) fn without_pins(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    let servers = settings.servers.iter_mut();
    for server in servers.filter_map(|entry| entry.server.as_mut().ok()) {
        server.pin_tools = PinTools::Off;
    }
    settings
}

/// What was accepted of a server's tools, beside what it says now.
pub(super) fn compare(
    context: &Context,
    server: &Server,
    catalog: &Catalog,
) -> Result<Comparison, Failure> {
    let pins = Pins::of(&context.home);
    let compared = pins.compare(&server.name, &catalog.tools);
    compared.map_err(|error| {
        Failure::failed(error.to_string())
            .hint("fix the file, or remove it: all tools are then new")
            .about(server.name.clone())
    })
}

fn warnings(host: &hermes_mcp::Host, name: &ServerName) -> Vec<String> {
    let mut all = host.status().into_iter();
    let status = all.find(|status| status.name == name.as_str());
    status.map(|status| status.warnings).unwrap_or_default()
}

/// What a server said when it was last connected, if that is known.
pub(super) fn remembered(context: &Context, settings: &Settings, server: &Server) -> Option<Offer> {
    // It was remembered when it was enabled.
    let server = Server {
        enabled: true,
        ..server.clone()
    };
    let resolved = server.resolve(&context.home, &settings.variables, ReferencePolicy::owner());
    let path = manifest::path(&context.home, &resolved.ok()?.fingerprint);
    let manifest = manifest::read(&path)?;
    let tools = manifest.tools.into_iter().map(NativeTool::new);
    Some(Offer {
        server: Arc::new(server),
        catalog: Arc::new(Catalog {
            tools: tools.map(Arc::new).collect(),
            capabilities: manifest.capabilities,
            ..Catalog::default()
        }),
        knowledge: Knowledge::Remembered,
        warnings: Vec::new(),
    })
}

/// A tool and what became of it.
pub(super) struct OfferedTool<'a> {
    pub(super) server: &'a ServerName,
    pub(super) tool: &'a NativeTool,
    /// Its name for the model, unless a filter keeps it out.
    registered: Option<Arc<RegisteredTool>>,
    /// How it compares with what was accepted; `None` where nothing is pinned.
    pin: Option<PinState>,
}

/// The tools of several servers with the names they get together.
pub(super) fn tools<'a>(settings: &Settings, offers: &'a [Offer]) -> Vec<OfferedTool<'a>> {
    let registry = registry(settings, offers);
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

fn registry(settings: &Settings, offers: &[Offer]) -> Registry {
    let naming = match settings.mcp.naming {
        ToolNaming::Single => Naming::Single,
        ToolNaming::Double => Naming::Double,
    };
    let contributions: Vec<Contribution> = offers
        .iter()
        .map(|offer| Contribution {
            server: offer.server.clone(),
            catalog: Some(offer.catalog.clone()),
            is_offered: true,
        })
        .collect();
    Registry::build(0, naming, &HashSet::new(), &contributions)
}

/// The same, each compared with what was accepted of it.
pub(super) fn pinned_tools<'a>(
    context: &Context,
    settings: &Settings,
    offers: &'a [Offer],
) -> Vec<OfferedTool<'a>> {
    let mut tools = tools(settings, offers);
    for offer in offers {
        if offer.server.pin_tools == PinTools::Off {
            continue;
        }
        match compare(context, &offer.server, &offer.catalog) {
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
    pub(super) fn is_included(&self) -> bool {
        self.registered.is_some()
    }

    pub(super) fn registered_name(&self) -> Option<&str> {
        self.registered.as_ref().map(|tool| tool.name.as_str())
    }

    pub(super) fn is_changed(&self) -> bool {
        self.pin == Some(PinState::Changed)
    }

    pub(super) fn description(&self) -> &str {
        let text = self.tool.definition.description.as_deref();
        text.unwrap_or_default().trim()
    }

    /// With its description, as `add` shows it.
    pub(super) fn described(&self) -> Value {
        json!({
            "name": self.tool.name,
            "registered_name": self.registered_name(),
            "description": self.description(),
            "included": self.is_included(),
        })
    }

    /// With its schema as received.
    pub(super) fn with_schema(&self) -> Value {
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
