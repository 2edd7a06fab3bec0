//! What is known of servers without connecting: the configuration, and the lists remembered from their last session.

use std::{collections::HashSet, sync::Arc, time::Duration};

use hermes_config::{Home, ReferencePolicy, Server, ServerEntry, ServerName, Settings, ToolNaming};
use hermes_mcp::{
    LinkStatus, Registry, RequestOutcome, ServerStatus,
    connection::{manifest, manifest::Manifest},
    control,
    tools::{
        catalog::{Catalog, NativeTool},
        names,
        names::Naming,
        registry::RegistryInput,
    },
};

use crate::commands::mcp::login;

/// Timeout for a running process to answer.
const STATUS_TIMEOUT: Duration = Duration::from_millis(500);

/// The servers of a configuration with what is remembered of them.
pub(crate) struct CachedServers<'a> {
    home: &'a Home,
    settings: &'a Settings,
    entries: Vec<(&'a ServerEntry, Option<Manifest>)>,
    pub(crate) registry: Registry,
    pub(crate) naming: Naming,
}

impl<'a> CachedServers<'a> {
    pub(crate) fn new(home: &'a Home, settings: &'a Settings) -> Self {
        let entries: Vec<_> = settings
            .servers
            .iter()
            .map(|entry| (entry, load_manifest(home, settings, entry)))
            .collect();
        let naming = match settings.mcp.naming {
            ToolNaming::Single => Naming::Single,
            ToolNaming::Double => Naming::Double,
        };
        let contributions: Vec<RegistryInput> = entries
            .iter()
            .filter_map(|(entry, manifest)| {
                Some(RegistryInput {
                    server: Arc::new(entry.server.as_ref().ok()?.clone()),
                    catalog: manifest
                        .as_ref()
                        .map(|manifest| Arc::new(manifest_catalog(manifest))),
                    is_offered: true,
                    tenant: None,
                })
            })
            .collect();
        let registry = Registry::build(0, naming, &HashSet::new(), &contributions);
        Self {
            home,
            settings,
            entries,
            registry,
            naming,
        }
    }

    /// The enabled servers and their lists, where remembered.
    pub(crate) fn enabled(&self) -> impl Iterator<Item = (&'a Server, Option<&Manifest>)> {
        self.entries.iter().filter_map(|(entry, manifest)| {
            let server = entry.server.as_ref().ok().filter(|server| server.enabled)?;
            Some((server, manifest.as_ref()))
        })
    }

    /// Whether a server's lists cannot be found by looking, because of what its entry refers to.
    pub(crate) fn is_uncacheable(&self, name: &ServerName) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|(entry, _)| entry.name == *name && needs_resolution(entry))
    }

    /// Each server's status while no process runs it.
    pub(crate) fn status(&self) -> Vec<ServerStatus> {
        self.entries
            .iter()
            .map(|(entry, manifest)| self.status_of(entry, manifest.as_ref()))
            .collect()
    }

    fn status_of(&self, entry: &ServerEntry, manifest: Option<&Manifest>) -> ServerStatus {
        let name = &entry.name;
        let server = match &entry.server {
            Ok(server) => server,
            Err(problem) => {
                let transport = if entry.template.get("url").is_some() {
                    "http"
                } else {
                    "stdio"
                };
                return ServerStatus {
                    error: Some(problem.to_string()),
                    ..ServerStatus::unconnected(name, transport, LinkStatus::Invalid)
                };
            }
        };
        let error = login::missing_login(self.home, self.settings, server);
        let status = match manifest {
            _ if !server.enabled => LinkStatus::Disabled,
            _ if error.is_some() => LinkStatus::NeedsAuth,
            Some(_) if server.lazy => LinkStatus::Lazy,
            _ => LinkStatus::Stopped,
        };
        let tools = match status {
            LinkStatus::Disabled | LinkStatus::NeedsAuth => 0,
            _ => self
                .registry
                .tools()
                .filter(|tool| tool.server == *name)
                .count(),
        };
        ServerStatus {
            tools,
            error,
            era: manifest.map(|manifest| manifest.era),
            protocol_version: manifest.map(|manifest| manifest.protocol_version.to_string()),
            server_info: manifest.and_then(|manifest| manifest.server_info.clone()),
            warnings: server
                .unset_variables(self.home, &self.settings.variables)
                .iter()
                .map(ToString::to_string)
                .collect(),
            ..ServerStatus::unconnected(name, server.transport.kind(), status)
        }
    }
}

/// A tool as it is known without connecting.
pub(in crate::commands) struct KnownTool {
    pub(in crate::commands) server: String,
    /// By the server's own name for it.
    pub(in crate::commands) name: String,
    pub(in crate::commands) registered: String,
    pub(in crate::commands) description: String,
}

/// The tools of all enabled servers: from the lists remembered, else from a process that has the server. Nothing is
/// started.
pub(in crate::commands) fn cached_tools(home: &Home, settings: &Settings) -> Vec<KnownTool> {
    let remembered = CachedServers::new(home, settings);
    let mut known: Vec<KnownTool> = remembered
        .registry
        .tools()
        .map(|tool| KnownTool {
            server: tool.server.to_string(),
            name: tool.original_name().to_owned(),
            registered: tool.name.to_string(),
            description: tool.description(),
        })
        .collect();
    for (server, manifest) in remembered.enabled() {
        if manifest.is_some() {
            continue;
        }
        let Some(RequestOutcome::Answered { members, .. }) =
            control::query_tools(home, &server.name, STATUS_TIMEOUT)
        else {
            continue;
        };
        let tools = members["tools"].as_array().into_iter().flatten();
        known.extend(tools.filter_map(|tool| {
            let name = tool["name"].as_str()?;
            let naming = remembered.naming;
            Some(KnownTool {
                server: server.name.to_string(),
                name: name.to_owned(),
                registered: names::registered_name(naming, server.name.as_str(), name).to_string(),
                description: tool["description"].as_str().unwrap_or_default().to_owned(),
            })
        }));
    }
    known
}

/// Looking must not run commands or open a keyring.
fn needs_resolution(entry: &ServerEntry) -> bool {
    let text = entry.template.to_string();
    text.contains("${cmd:") || text.contains("${keyring:")
}

fn load_manifest(home: &Home, settings: &Settings, entry: &ServerEntry) -> Option<Manifest> {
    if needs_resolution(entry) {
        return None;
    }
    let server = entry.server.as_ref().ok()?;
    // `mcp test` connects with a limit of its own, and what it found counts as much.
    let limits = [
        server.connect_timeout,
        crate::commands::mcp::requests::probe::DEFAULT_TIMEOUT,
    ];
    let manifests = limits.into_iter().filter_map(|connect_timeout| {
        let server = Server {
            connect_timeout,
            ..server.clone()
        };
        let resolved = server.resolve(home, &settings.variables, ReferencePolicy::owner());
        manifest::read_manifest(&manifest::manifest_path(home, &resolved.ok()?.fingerprint))
    });
    manifests.max_by_key(|manifest| manifest.saved_at)
}

fn manifest_catalog(manifest: &Manifest) -> Catalog {
    Catalog {
        tools: manifest
            .tools
            .iter()
            .cloned()
            .map(|tool| Arc::new(NativeTool::new(tool)))
            .collect(),
        resources: manifest.resources.clone(),
        templates: manifest.templates.clone(),
        prompts: manifest.prompts.clone(),
        capabilities: manifest.capabilities.clone(),
        is_complete: true,
        ..Catalog::default()
    }
}
