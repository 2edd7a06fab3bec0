//! The tools of one turn: the built-in tools, and a snapshot of the MCP tools.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use hermes_config::{ServerName, ToolSearchSettings, server::CallOrder};
use hermes_mcp::{Host, RegisteredName, RegisteredTool, Registry};
use serde_json::{Map, Value};

use crate::{
    approval::{ApprovalKind, ApprovalRequest, Refusal},
    ceiling::{Ceiling, InForce, Leave},
    message::ToolCall,
    model::ToolDefinition,
    tool::{Company, Tool, ToolContext, ToolOutput},
};

mod mcp;
mod search;
mod untrusted;

pub use mcp::call_mcp;
pub use untrusted::wrap;

/// The tools of one turn. It does not change during the turn, whatever servers do.
#[derive(Clone)]
pub struct Toolbox {
    built_in: Vec<Arc<dyn Tool>>,
    by_name: HashMap<String, usize>,
    mcp: Option<McpTools>,
    /// The operator's policy; it may change during the turn.
    in_force: InForce,
    listing: Listing,
    definitions: OnceLock<Vec<ToolDefinition>>,
}

#[derive(Clone)]
struct McpTools {
    host: Host,
    registry: Arc<Registry>,
    /// The tools that the conversation's toolsets include.
    offered: Vec<Arc<RegisteredTool>>,
    names: HashSet<RegisteredName>,
    /// Servers whose tools may be called although they are not offered now.
    servers: HashSet<ServerName>,
}

/// How the model learns of MCP tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listing {
    /// All of them are described to it.
    Whole,
    BySearch,
}

#[derive(Clone, Copy)]
pub enum Target<'a> {
    BuiltIn(&'a Arc<dyn Tool>),
    Mcp(&'a Arc<RegisteredTool>),
}

impl Target<'_> {
    /// The name for policies.
    fn name(&self) -> String {
        match self {
            Self::BuiltIn(tool) => tool.definition().name,
            Self::Mcp(tool) => tool.name.as_str().to_owned(),
        }
    }
}

/// The permission of a tool. Without the feature, MCP tools are denied.
fn leave(ceiling: &Ceiling, target: Target<'_>) -> Leave {
    let is_missing = matches!(target, Target::Mcp(_)) && !ceiling.has_feature("mcp");
    if is_missing {
        return Leave::Refused;
    }
    ceiling.tool(&target.name())
}

impl Toolbox {
    /// The agent's own tools only.
    pub fn new(built_in: Vec<Arc<dyn Tool>>) -> Self {
        let mut toolbox = Self {
            built_in: Vec::with_capacity(built_in.len()),
            by_name: HashMap::with_capacity(built_in.len()),
            mcp: None,
            in_force: InForce::default(),
            listing: Listing::Whole,
            definitions: OnceLock::new(),
        };
        for tool in built_in {
            toolbox.add(tool);
        }
        toolbox
    }

    /// The first tool of a name wins.
    fn add(&mut self, tool: Arc<dyn Tool>) {
        let index = self.built_in.len();
        self.by_name.entry(tool.definition().name).or_insert(index);
        self.built_in.push(tool);
    }

    /// Applies the operator's policy, at every call and to what is offered.
    #[must_use]
    pub fn beneath(mut self, in_force: &InForce) -> Self {
        let ceiling = in_force.ceiling();
        let mut allowed = Self::new(Vec::new());
        for tool in self.built_in.drain(..) {
            if ceiling.tool(&tool.definition().name) != Leave::Refused {
                allowed.add(tool);
            }
        }
        allowed.in_force = in_force.clone();
        allowed
    }

    /// Adds MCP tools: a snapshot, the offered tools, and the servers that the toolsets include.
    #[must_use]
    pub fn with_mcp(
        mut self,
        host: Host,
        registry: Arc<Registry>,
        mut offered: Vec<Arc<RegisteredTool>>,
        servers: HashSet<ServerName>,
    ) -> Self {
        let ceiling = self.in_force.ceiling();
        offered.retain(|tool| leave(&ceiling, Target::Mcp(tool)) != Leave::Refused);
        let names = offered.iter().map(|tool| tool.name.clone()).collect();
        self.mcp = Some(McpTools {
            host,
            registry,
            offered,
            names,
            servers,
        });
        self.definitions = OnceLock::new();
        self
    }

    /// Replaces the list of MCP tools by a search if it would take up too much of the model's context.
    #[must_use]
    pub fn with_search(
        mut self,
        settings: &ToolSearchSettings,
        context_length: Option<u32>,
    ) -> Self {
        let offered: Vec<_> = self.offered().cloned().collect();
        if search::is_wanted(&offered, settings, context_length) {
            self.listing = Listing::BySearch;
            self.definitions = OnceLock::new();
            for tool in search::tools(offered, settings) {
                self.add(tool);
            }
        }
        self
    }

    /// The names of the built-in tools, which no MCP tool may take.
    pub fn reserved_names(built_in: &[Arc<dyn Tool>]) -> HashSet<String> {
        let own = built_in.iter().map(|tool| tool.definition().name);
        own.chain(search::NAMES.map(str::to_owned)).collect()
    }

    /// The definitions for the model, built-in tools first; built once.
    pub fn definitions(&self) -> &[ToolDefinition] {
        self.definitions.get_or_init(|| {
            let built_in = self.built_in.iter().map(|tool| tool.definition());
            let listed = (self.listing == Listing::Whole).then(|| self.offered());
            let listed = listed
                .into_iter()
                .flatten()
                .map(|tool| mcp::definition(tool));
            built_in.chain(listed).collect()
        })
    }

    /// The offered MCP tools, listed or searchable.
    pub fn offered(&self) -> impl Iterator<Item = &Arc<RegisteredTool>> {
        self.mcp.iter().flat_map(|mcp| &mcp.offered)
    }

    pub fn built_in(&self) -> &[Arc<dyn Tool>] {
        &self.built_in
    }

    /// Finds a tool by name. A built-in tool wins; an MCP tool is found in either spelling.
    pub fn find(&self, name: &str) -> Option<Target<'_>> {
        if let Some(index) = self.by_name.get(name) {
            return self.built_in.get(*index).map(Target::BuiltIn);
        }
        let mcp = self.mcp.as_ref()?;
        let found = mcp.registry.find(name)?;
        // A tool whose toolset is off is not found, even if the model knows its name; one whose server
        // is parked is.
        let is_known = if found.is_offered {
            mcp.names.contains(&found.name)
        } else {
            mcp.servers.contains(&found.server)
        };
        is_known.then_some(Target::Mcp(found))
    }

    /// Resolves `tool_call` to the call of the tool inside it.
    pub fn meant<'a>(&self, call: &'a ToolCall) -> Cow<'a, ToolCall> {
        let inner = match self.listing {
            Listing::BySearch => search::inner_call(call),
            Listing::Whole => None,
        };
        inner.map_or(Cow::Borrowed(call), Cow::Owned)
    }

    pub fn company(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
        context: &ToolContext,
    ) -> Company {
        match self.find(name) {
            Some(Target::BuiltIn(tool)) => tool.company(arguments, context),
            Some(Target::Mcp(tool)) if tool.order == CallOrder::Parallel => Company::Any,
            _ => Company::Alone,
        }
    }

    /// Checks the operator's policy for a call, and requests approval if needed.
    pub async fn check(
        &self,
        target: Target<'_>,
        arguments: &Map<String, Value>,
        context: &ToolContext,
    ) -> Result<(), Refusal> {
        let kind = match target {
            Target::BuiltIn(_) => ApprovalKind::BuiltIn,
            Target::Mcp(_) => ApprovalKind::Mcp,
        };
        let name = target.name();
        match leave(&self.in_force.ceiling(), target) {
            Leave::Free => return Ok(()),
            Leave::Refused => return Err(Refusal::Policy(name)),
            Leave::WithApproval => {}
        }
        let arguments = serde_json::to_string(arguments).unwrap_or_default();
        let request = ApprovalRequest {
            kind,
            subject: format!("{name} {arguments}"),
            reason: "the operator's policy requires approval".into(),
            rules: vec![format!("policy: {name}")],
            tool: name,
            ..ApprovalRequest::default()
        };
        context.approvals.required(request, &context.cancel).await
    }

    pub async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        context: &ToolContext,
    ) -> ToolOutput {
        if let Some(target) = self.find(name)
            && let Err(refusal) = self.check(target, &arguments, context).await
        {
            return ToolOutput::error(refusal.to_string());
        }
        match (self.find(name), &self.mcp) {
            (Some(Target::BuiltIn(tool)), _) => tool.call(arguments, context).await,
            (Some(Target::Mcp(tool)), Some(mcp)) => {
                mcp::call(&mcp.host, tool, arguments, context).await
            }
            _ => ToolOutput::error(format!("Unknown tool: {name}")),
        }
    }
}
