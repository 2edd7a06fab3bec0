//! What a server answers: a test of its connection, and its tools with their schemas and pins.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_agent::conversation::Agent;
use hermes_config::{PinTools, Server, TransportSettings};
use hermes_mcp::{
    Link, LinkStatus, McpSession,
    tools::{
        catalog::{Catalog, NativeTool},
        pins::{PinComparison, PinState, Pins},
    },
};
use hermes_protocol::{
    RefusalReason, RequestRefusal, ServerPrompt, ServerResource, ServerTestReport, ServerTool,
    ServerToolList, ToolChange, ToolPermission,
};
use serde_json::Value;

use super::{UsableServer, refuse};

/// How much longer than its `connect_timeout` a server is waited for: a failed attempt first ends its process.
const GRACE: Duration = Duration::from_secs(5);
/// The longest wait for a server, whatever its `connect_timeout`.
const MAX_WAIT: Duration = Duration::from_secs(110);
const MAX_INSTRUCTIONS_CHARS: usize = 4000;
/// The most resources, prompts or changes that are told of.
const MAX_LISTED: usize = 500;

pub(super) fn elapsed_ms(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn remote_url(server: &Server) -> Option<&str> {
    match &server.transport {
        TransportSettings::Stdio(_) => None,
        TransportSettings::Http(http) | TransportSettings::Sse(http) => Some(&http.url),
    }
}

pub(super) async fn test(
    agent: &Agent,
    usable: &UsableServer<'_>,
) -> Result<ServerTestReport, RequestRefusal> {
    let began = Instant::now();
    let redactor = agent.redactor();
    let redact = |text: &str| redactor.redact(text).into_owned();
    // One that is ready is pinged: its session may be gone without a word. Another one is tried now.
    usable.host.check(&usable.name).await;
    let link = wait_until_answered(agent, usable, ListNeed::Everything).await?;
    let mut statuses = usable.host.status().into_iter();
    let status = statuses.find(|status| status.name == usable.name.as_str());
    let mut report = ServerTestReport {
        server: usable.name.to_string(),
        ok: false,
        status: link.status.as_str().to_owned(),
        error: None,
        transport: String::new(),
        era: None,
        protocol_version: None,
        server_name: None,
        server_version: None,
        instructions: None,
        tools: Vec::new(),
        resources: 0,
        prompts: 0,
        elapsed_ms: elapsed_ms(began),
        warnings: Vec::new(),
    };
    if let Some(status) = status {
        report.transport = status.transport;
        report.warnings = status.warnings.iter().map(|text| redact(text)).collect();
    }
    match (link.session, link.catalog) {
        (Some(session), Some(catalog)) if link.status == LinkStatus::Ready => {
            report.ok = true;
            describe_session(&mut report, &session, redact);
            let tools = catalog.tools.iter();
            report.tools = tools.map(|tool| tool.name.to_string()).collect();
            report.resources = (catalog.resources.len() + catalog.templates.len()) as u64;
            report.prompts = catalog.prompts.len() as u64;
        }
        _ => {
            let error = link.error.map(|error| error.to_string());
            report.error = Some(redact(&error.unwrap_or_else(|| "it did not answer".into())));
        }
    }
    Ok(report)
}

fn describe_session(
    report: &mut ServerTestReport,
    session: &McpSession,
    redact: impl Fn(&str) -> String,
) {
    let info = &session.info;
    report.era = Some(session.era.as_str().to_owned());
    report.protocol_version = Some(info.protocol_version.to_string());
    if let Some(server) = &info.server_info {
        report.server_name = Some(server.name.clone());
        report.server_version = Some(server.version.clone());
    }
    report.instructions = info.instructions.as_deref().map(|text| {
        let text: String = text.trim().chars().take(MAX_INSTRUCTIONS_CHARS).collect();
        redact(&text)
    });
}

/// What is needed of a server's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListNeed {
    Tools,
    Everything,
}

/// Waits until the server is ready or an attempt has ended, within its `connect_timeout`. One whose tools are needed is
/// woken; one that is tested has been tried, and another attempt would only hide how that ended.
async fn wait_until_answered(
    agent: &Agent,
    usable: &UsableServer<'_>,
    need: ListNeed,
) -> Result<Link, RequestRefusal> {
    let settings = agent.settings();
    let limit = settings
        .server(usable.name.as_str())
        .and_then(|entry| entry.server.as_ref().ok())
        .map_or(MAX_WAIT, |server| server.connect_timeout + GRACE);
    let Some(mut link) = usable.host.link(&usable.name) else {
        let message = format!("server `{}` was removed meanwhile", usable.name);
        return Err(refuse(RefusalReason::Unusable, message));
    };
    let is_answered = |link: &Link| match link.status {
        LinkStatus::Ready => {
            let catalog = link.catalog.as_ref();
            catalog.is_some_and(|catalog| need == ListNeed::Tools || catalog.is_complete)
        }
        _ => link.attempts_ended > 0,
    };
    if need == ListNeed::Tools {
        usable.host.wake(&usable.name);
    }
    let waiting = link.wait_for(is_answered);
    let _ = tokio::time::timeout(limit.min(MAX_WAIT), waiting).await;
    let found = link.borrow().clone();
    Ok(found)
}

pub(super) async fn list_tools(
    agent: &Agent,
    usable: &UsableServer<'_>,
) -> Result<ServerToolList, RequestRefusal> {
    let link = wait_until_answered(agent, usable, ListNeed::Tools).await?;
    let Some(catalog) = link.offered_catalog().cloned() else {
        return Err(describe_unusable(agent, usable, &link));
    };
    let settings = agent.settings();
    let server = settings.server(usable.name.as_str());
    let pins = server.and_then(|entry| entry.server.as_ref().ok().map(|server| server.pin_tools));
    let comparison = match pins {
        Some(PinTools::Off) | None => None,
        Some(PinTools::Warn | PinTools::Block) => compare_pins(agent, usable, &catalog).await,
    };
    let tools = catalog.tools.iter();
    Ok(ServerToolList {
        server: usable.name.to_string(),
        tools: tools
            .map(|tool| describe_tool(agent, usable, &catalog, comparison.as_ref(), tool))
            .collect(),
        resources: list_resources(&catalog),
        prompts: list_prompts(&catalog),
        warnings: catalog.all_warnings(),
    })
}

fn list_resources(catalog: &Catalog) -> Vec<ServerResource> {
    let resources = catalog.resources.iter().map(|resource| ServerResource {
        uri: resource.uri.clone(),
        name: resource.name.clone(),
        description: resource.description.clone(),
        mime_type: resource.mime_type.clone(),
    });
    let templates = catalog.templates.iter().map(|template| ServerResource {
        uri: template.uri_template.clone(),
        name: template.name.clone(),
        description: template.description.clone(),
        mime_type: template.mime_type.clone(),
    });
    resources.chain(templates).take(MAX_LISTED).collect()
}

fn list_prompts(catalog: &Catalog) -> Vec<ServerPrompt> {
    let prompts = catalog.prompts.iter().map(|prompt| {
        let arguments = prompt.arguments.iter().flatten();
        ServerPrompt {
            name: prompt.name.clone(),
            description: prompt.description.clone(),
            arguments: arguments.map(|argument| argument.name.clone()).collect(),
        }
    });
    prompts.take(MAX_LISTED).collect()
}

/// Accepts tools as the server lists them now.
pub(super) async fn accept_tools(
    agent: &Agent,
    usable: &UsableServer<'_>,
    names: &[String],
) -> Result<(), RequestRefusal> {
    let link = wait_until_answered(agent, usable, ListNeed::Tools).await?;
    let Some(catalog) = link.offered_catalog().cloned() else {
        return Err(describe_unusable(agent, usable, &link));
    };
    let mut wanted = Vec::new();
    for name in names {
        let mut tools = catalog.tools.iter();
        let Some(tool) = tools.find(|tool| tool.name.as_str() == name) else {
            let message = format!("`{}` has no tool `{name}`", usable.name);
            return Err(refuse(RefusalReason::NotFound, message));
        };
        wanted.push(Arc::clone(tool));
    }
    let (pins, name) = (Pins::for_home(agent.home()), usable.name.clone());
    let accepted = tokio::task::spawn_blocking(move || pins.accept(&name, &wanted)).await;
    match accepted {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            tracing::warn!(server = %usable.name, %error, "failed to accept tools");
            let message = "the file of accepted tools (`mcp-pins.json`) cannot be written";
            Err(refuse(RefusalReason::Unusable, message))
        }
        Err(_) => Err(refuse(
            RefusalReason::Unusable,
            "the tools were not accepted",
        )),
    }
}

async fn compare_pins(
    agent: &Agent,
    usable: &UsableServer<'_>,
    catalog: &Arc<Catalog>,
) -> Option<PinComparison> {
    let (pins, name, catalog) = (
        Pins::for_home(agent.home()),
        usable.name.clone(),
        Arc::clone(catalog),
    );
    let compared = tokio::task::spawn_blocking(move || pins.compare(&name, &catalog.tools)).await;
    compared
        .ok()?
        .inspect_err(|error| tracing::warn!(%error, "failed to compare tools with their pins"))
        .ok()
}

fn describe_tool(
    agent: &Agent,
    usable: &UsableServer<'_>,
    catalog: &Catalog,
    pins: Option<&PinComparison>,
    tool: &NativeTool,
) -> ServerTool {
    let registry = usable.host.registry();
    let is_withheld = catalog.withheld.contains(&tool.name);
    let registered = registry
        .find_original(&usable.name, tool.name.as_str())
        .filter(|_| !is_withheld);
    let definition = &tool.definition;
    let permission = registered.map_or(ToolPermission::Allow, |tool| {
        agent.policy().tool_permission(tool.name.as_str())
    });
    ServerTool {
        name: tool.name.to_string(),
        registered_name: registered.map(|tool| tool.name.to_string()),
        title: definition.title.clone(),
        description: definition
            .description
            .as_deref()
            .unwrap_or_default()
            .to_owned(),
        input_schema: tool.input_schema().clone(),
        output_schema: definition
            .output_schema
            .as_ref()
            .map(|schema| Value::Object((**schema).clone())),
        annotations: definition
            .annotations
            .as_ref()
            .and_then(|annotations| serde_json::to_value(annotations).ok()),
        pin: match pins.map(|pins| pins.state(&tool.name)) {
            None => "off",
            Some(PinState::New) => "new",
            Some(PinState::Pinned) => "pinned",
            Some(PinState::Changed) => "changed",
        }
        .to_owned(),
        withheld: is_withheld,
        changes: pins.map_or_else(Vec::new, |pins| list_changes(pins, tool)),
        policy: match permission {
            ToolPermission::Allow => "allow",
            ToolPermission::RequireApproval => "require_approval",
            ToolPermission::Deny => "deny",
        }
        .to_owned(),
    }
}

fn list_changes(pins: &PinComparison, tool: &NativeTool) -> Vec<ToolChange> {
    let mut changed = pins.changed.iter();
    let Some(found) = changed.find(|changed| changed.name == tool.name) else {
        return Vec::new();
    };
    let members = found.difference.members().iter().take(MAX_LISTED);
    members
        .map(|member| ToolChange {
            place: member.place.clone(),
            before: member.before.clone(),
            after: member.after.clone(),
        })
        .collect()
}

/// Why a server that has a connection does not answer.
fn describe_unusable(agent: &Agent, usable: &UsableServer<'_>, link: &Link) -> RequestRefusal {
    let reason = match link.status {
        LinkStatus::NeedsAuth => RefusalReason::LoginNeeded,
        _ => RefusalReason::Unusable,
    };
    let detail = link.error.as_ref().map(|error| format!(": {error}"));
    let message = format!(
        "server `{}` is {}{}",
        usable.name,
        link.status,
        detail.unwrap_or_default()
    );
    refuse(reason, agent.redactor().redact(&message).into_owned())
}
