//! What the model sees: an immutable snapshot of every offered tool under its registered name.
//!
//! A turn takes one snapshot and keeps it, whatever the servers do meanwhile. A registered name is looked up here,
//! never taken apart.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use hermes_config::{
    Server, ServerName,
    server::{CallOrder, PinTools},
};
use serde_json::{Value, json};

use crate::tools::{
    catalog::{Catalog, NativeTool},
    filter::{ApprovalRule, ToolFilter},
    names,
    names::{Naming, RegisteredName},
    pins::ChangedToolAdvice,
};

/// A tool under the name the model says.
#[derive(Debug, Clone)]
pub struct RegisteredTool {
    /// The name the model says.
    pub name: RegisteredName,
    pub server: ServerName,
    /// What is behind the name.
    pub origin: ToolOrigin,
    /// Whether calls may be in flight together.
    pub order: CallOrder,
    /// Whether somebody has to agree before each call.
    pub approval: ToolApproval,
    /// Whether it is on the list now; names of parked servers still route.
    pub is_offered: bool,
}

/// Whether a call needs somebody's word first: `tools.approve`. Whoever offers tools to a model has to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolApproval {
    /// It may be called.
    NotRequired,
    /// A person is asked before.
    Required,
}

/// What is behind a registered name.
#[derive(Debug, Clone)]
pub enum ToolOrigin {
    /// A tool of the server itself.
    Native(Arc<NativeTool>),
    /// One of ours, over the server's resources and prompts.
    Utility(UtilityTool),
}

/// The wrappers over resources and prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UtilityTool {
    ListResources,
    ReadResource,
    ListPrompts,
    GetPrompt,
}

impl UtilityTool {
    pub const ALL: [Self; 4] = [
        Self::ListResources,
        Self::ReadResource,
        Self::ListPrompts,
        Self::GetPrompt,
    ];

    /// Its original name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ListResources => "list_resources",
            Self::ReadResource => "read_resource",
            Self::ListPrompts => "list_prompts",
            Self::GetPrompt => "get_prompt",
        }
    }

    /// What it is about.
    fn subject(self) -> &'static str {
        match self {
            Self::ListResources | Self::ReadResource => "resources",
            Self::ListPrompts | Self::GetPrompt => "prompts",
        }
    }

    fn description(self, server: &ServerName) -> String {
        match self {
            Self::ListResources => {
                format!("List the resources that the MCP server `{server}` offers.")
            }
            Self::ReadResource => {
                format!("Read one resource of the MCP server `{server}` by its URI.")
            }
            Self::ListPrompts => format!("List the prompts that the MCP server `{server}` offers."),
            Self::GetPrompt => {
                format!("Fill in one prompt of the MCP server `{server}` and return its messages.")
            }
        }
    }

    fn parameters(self) -> Value {
        match self {
            Self::ListResources | Self::ListPrompts => json!({"type": "object", "properties": {}}),
            Self::ReadResource => json!({
                "type": "object",
                "properties": {"uri": {"type": "string", "description": "The URI of the resource."}},
                "required": ["uri"],
            }),
            Self::GetPrompt => json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "The name of the prompt."},
                    "arguments": {"type": "object", "description": "Arguments of the prompt."},
                },
                "required": ["name"],
            }),
        }
    }
}

impl RegisteredTool {
    pub fn original_name(&self) -> &str {
        match &self.origin {
            ToolOrigin::Native(tool) => tool.name.as_str(),
            ToolOrigin::Utility(utility) => utility.as_str(),
        }
    }

    /// What the model reads about it; never empty.
    pub fn description(&self) -> String {
        match &self.origin {
            ToolOrigin::Utility(utility) => utility.description(&self.server),
            ToolOrigin::Native(tool) => match tool.definition.description.as_deref().map(str::trim)
            {
                Some(text) if !text.is_empty() => text.to_owned(),
                _ => format!("Tool `{}` of the MCP server `{}`.", tool.name, self.server),
            },
        }
    }

    /// The parameters in the form every model understands.
    pub fn parameters(&self) -> Value {
        match &self.origin {
            ToolOrigin::Native(tool) => tool.parameters().clone(),
            ToolOrigin::Utility(utility) => utility.parameters(),
        }
    }

    /// Name, description and parameters as one object.
    pub fn definition(&self) -> Value {
        json!({"name": self.name, "description": self.description(), "parameters": self.parameters()})
    }
}

/// What one server brings to a registry.
#[derive(Debug, Clone)]
pub struct RegistryInput {
    pub server: Arc<Server>,
    /// Its lists, if it ever had any.
    pub catalog: Option<Arc<Catalog>>,
    /// Whether its tools are on the list now.
    pub is_offered: bool,
    /// Whose agent offers them, if a Hub hosts it.
    pub tenant: Option<String>,
}

/// An immutable snapshot of all tools.
#[derive(Debug, Default)]
pub struct Registry {
    generation: u64,
    tools: Vec<Arc<RegisteredTool>>,
    by_name: HashMap<RegisteredName, usize>,
    naming: Naming,
    /// The other spelling of each name, worked out when somebody uses one.
    aliases: OnceLock<HashMap<RegisteredName, usize>>,
    /// Each server's tools by their original names, worked out when somebody asks by one.
    originals: OnceLock<HashMap<ServerName, HashMap<String, usize>>>,
    warnings: Vec<String>,
}

impl Registry {
    /// Gives every tool its name: first come, first served, in the order of the configuration.
    pub fn build(
        generation: u64,
        naming: Naming,
        reserved: &HashSet<String>,
        contributions: &[RegistryInput],
    ) -> Self {
        let catalogs = contributions
            .iter()
            .filter_map(|known| known.catalog.as_ref());
        let count = catalogs.map(|catalog| catalog.tools.len()).sum();
        let mut registry = Self {
            generation,
            naming,
            tools: Vec::with_capacity(count),
            by_name: HashMap::with_capacity(count),
            ..Self::default()
        };
        let mut suffixes = HashMap::new();
        for contribution in contributions {
            registry.add(reserved, contribution, &mut suffixes);
        }
        registry
    }

    fn add(
        &mut self,
        reserved: &HashSet<String>,
        contribution: &RegistryInput,
        suffixes: &mut HashMap<RegisteredName, usize>,
    ) {
        let server = &contribution.server;
        let Some(catalog) = &contribution.catalog else {
            return;
        };
        let filter = ToolFilter::new(&server.tools);
        if filter.excludes_all() {
            tracing::info!(server = %server.name, "`tools.include` is an empty list: no tool of the server is offered");
        }
        let dead = filter.unmatched_patterns(catalog.tools.iter().map(|tool| &tool.name));
        self.warnings.extend(dead.iter().map(|pattern| {
            format!(
                "{}: the filter `{pattern}` matches none of its tools",
                server.name
            )
        }));
        let consents = ApprovalRule::new(&server.tools);
        let dead = consents.unmatched_patterns(catalog.tools.iter().map(|tool| &tool.name));
        self.warnings.extend(dead.iter().map(|pattern| {
            format!(
                "{}: `{pattern}` in `tools.approve` matches none of its tools",
                server.name
            )
        }));
        let withheld: HashSet<_> = match server.pin_tools {
            PinTools::Block => catalog.withheld.iter().collect(),
            PinTools::Off | PinTools::Warn => HashSet::new(),
        };
        let is_withheld = |tool: &NativeTool| withheld.contains(&tool.name);
        let natives = catalog
            .tools
            .iter()
            .filter(|tool| filter.includes(&tool.name));
        let withheld = natives.clone().filter(|tool| is_withheld(tool));
        self.warnings.extend(withheld.map(|tool| {
            let (server, tool) = (server.name.clone(), tool.name.clone());
            let what = format!(
                "{server}: `{tool}` is withheld, because it has changed since it was accepted"
            );
            let advice = ChangedToolAdvice {
                server,
                tool,
                tenant: contribution.tenant.clone(),
            };
            format!("{what}; {advice}")
        }));
        let natives = natives.filter(|tool| !is_withheld(tool));
        let origins = natives.cloned().map(ToolOrigin::Native);
        // The server's own tool of that name wins.
        let (displaced, utilities): (Vec<_>, Vec<_>) =
            utilities(server, catalog).partition(|utility| {
                let mut tools = catalog.tools.iter();
                tools.any(|tool| tool.name.as_str() == utility.as_str())
            });
        self.warnings.extend(displaced.iter().map(|utility| {
            let (server, name) = (&server.name, utility.as_str());
            let instead = utility.subject();
            format!("{server}: its own tool `{name}` replaces the built-in one for its {instead}")
        }));
        let utilities = utilities.into_iter().map(ToolOrigin::Utility);
        for origin in origins.chain(utilities) {
            let original = match &origin {
                ToolOrigin::Native(tool) => tool.name.as_str(),
                ToolOrigin::Utility(utility) => utility.as_str(),
            };
            let wanted = names::registered_name(self.naming, server.name.as_str(), original);
            if reserved.contains(wanted.as_str()) {
                self.warnings.push(format!(
                    "{}: `{original}` would be called `{wanted}`, which is a built-in tool; it is left out",
                    server.name
                ));
                continue;
            }
            let name = if self.by_name.contains_key(&wanted) {
                let name = self.free_name(&wanted, suffixes);
                self.warnings.push(format!(
                    "{}: `{original}` would be called `{wanted}`, which is taken; it is called `{name}`",
                    server.name
                ));
                name
            } else {
                wanted
            };
            let consent = consents.approval_for(&origin);
            let index = self.tools.len();
            self.by_name.insert(name.clone(), index);
            self.tools.push(Arc::new(RegisteredTool {
                name,
                server: server.name.clone(),
                origin,
                order: server.calls,
                approval: consent,
                is_offered: contribution.is_offered,
            }));
        }
    }

    /// The first variant of a name that nobody has. Those before the last one given out are taken.
    fn free_name(
        &self,
        wanted: &RegisteredName,
        suffixes: &mut HashMap<RegisteredName, usize>,
    ) -> RegisteredName {
        let number = suffixes.entry(wanted.clone()).or_insert(1);
        loop {
            *number += 1;
            let name = names::with_suffix(wanted, *number);
            if !self.by_name.contains_key(&name) {
                return name;
            }
        }
    }

    /// Grows with every published change.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The tools on the list now, in order.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<RegisteredTool>> {
        self.tools.iter().filter(|tool| tool.is_offered)
    }

    /// Finds a tool by its registered name in either spelling, also while its server is parked.
    pub fn find(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        let index = self
            .by_name
            .get(name)
            .or_else(|| self.aliases().get(name))?;
        self.tools.get(*index)
    }

    fn aliases(&self) -> &HashMap<RegisteredName, usize> {
        self.aliases.get_or_init(|| {
            let mut aliases = HashMap::with_capacity(self.tools.len());
            for (index, tool) in self.tools.iter().enumerate() {
                let other = self.naming.alternate();
                let alias =
                    names::registered_name(other, tool.server.as_str(), tool.original_name());
                if !self.by_name.contains_key(&alias) {
                    aliases.entry(alias).or_insert(index);
                }
            }
            aliases
        })
    }

    pub fn find_original(&self, server: &ServerName, tool: &str) -> Option<&Arc<RegisteredTool>> {
        let index = self.originals().get(server)?.get(tool)?;
        self.tools.get(*index)
    }

    fn originals(&self) -> &HashMap<ServerName, HashMap<String, usize>> {
        self.originals.get_or_init(|| {
            let mut originals: HashMap<ServerName, HashMap<String, usize>> = HashMap::new();
            for (index, tool) in self.tools.iter().enumerate() {
                let of_server = match originals.get_mut(&tool.server) {
                    Some(known) => known,
                    None => originals.entry(tool.server.clone()).or_default(),
                };
                of_server
                    .entry(tool.original_name().to_owned())
                    .or_insert(index);
            }
            originals
        })
    }

    /// How many tools of each server are on the list now.
    pub(crate) fn count_tools(&self) -> HashMap<&ServerName, usize> {
        let mut counts = HashMap::new();
        for tool in self.tools() {
            *counts.entry(&tool.server).or_default() += 1;
        }
        counts
    }

    /// Servers with at least one tool on the list, in order.
    pub fn servers(&self) -> Vec<&ServerName> {
        let mut servers: Vec<&ServerName> = Vec::new();
        for tool in self.tools() {
            if servers.last() != Some(&&tool.server) {
                servers.push(&tool.server);
            }
        }
        servers
    }

    /// Collisions and filters that match nothing.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Offered only where the flag is on and the server has the capability.
fn utilities<'a>(
    server: &'a Server,
    catalog: &'a Catalog,
) -> impl Iterator<Item = UtilityTool> + 'a {
    let resources = server.tools.resources && catalog.capabilities.resources.is_some();
    let prompts = server.tools.prompts && catalog.capabilities.prompts.is_some();
    let resources = resources.then_some([UtilityTool::ListResources, UtilityTool::ReadResource]);
    let prompts = prompts.then_some([UtilityTool::ListPrompts, UtilityTool::GetPrompt]);
    resources
        .into_iter()
        .flatten()
        .chain(prompts.into_iter().flatten())
}

#[cfg(test)]
mod tests;
