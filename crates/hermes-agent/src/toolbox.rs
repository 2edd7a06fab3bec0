//! Everything the model may call in one turn: the built-in tools, and a snapshot of the MCP tools.

use std::{collections::HashSet, sync::Arc};

use hermes_mcp::{CallOptions, Host, RegisteredTool, Registry, inquiry::Conversation};
use serde_json::{Map, Value};

use crate::{
    model::ToolDefinition,
    tool::{Company, Tool, ToolContext, ToolOutput},
};

mod untrusted;

pub use untrusted::wrap;

/// The tools of one turn. Whatever servers do meanwhile, it does not change.
#[derive(Clone)]
pub struct Toolbox {
    built_in: Vec<Arc<dyn Tool>>,
    mcp: Option<McpTools>,
}

#[derive(Clone)]
struct McpTools {
    host: Host,
    registry: Arc<Registry>,
    /// What the conversation's toolsets leave.
    offered: Vec<Arc<RegisteredTool>>,
}

/// What is behind a name.
pub enum Target<'a> {
    /// One of the agent's own.
    BuiltIn(&'a Arc<dyn Tool>),
    /// A tool of an MCP server.
    Mcp(&'a Arc<RegisteredTool>),
}

impl Toolbox {
    /// The agent's own tools only.
    pub fn new(built_in: Vec<Arc<dyn Tool>>) -> Self {
        Self {
            built_in,
            mcp: None,
        }
    }

    /// Adds MCP tools: a snapshot and which of its tools are offered.
    #[must_use]
    pub fn with_mcp(
        mut self,
        host: Host,
        registry: Arc<Registry>,
        offered: Vec<Arc<RegisteredTool>>,
    ) -> Self {
        self.mcp = Some(McpTools {
            host,
            registry,
            offered,
        });
        self
    }

    /// The names of the built-in tools, which no MCP tool may take.
    pub fn reserved_names(built_in: &[Arc<dyn Tool>]) -> HashSet<String> {
        built_in.iter().map(|tool| tool.definition().name).collect()
    }

    /// What the model is told, built-in tools first.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        let built_in = self.built_in.iter().map(|tool| tool.definition());
        built_in
            .chain(self.offered().map(|tool| definition(tool)))
            .collect()
    }

    /// The MCP tools on offer.
    pub fn offered(&self) -> impl Iterator<Item = &Arc<RegisteredTool>> {
        self.mcp.iter().flat_map(|mcp| &mcp.offered)
    }

    /// The built-in tools.
    pub fn built_in(&self) -> &[Arc<dyn Tool>] {
        &self.built_in
    }

    /// Finds what a name means. A built-in tool wins; an MCP tool is found in either spelling.
    pub fn find(&self, name: &str) -> Option<Target<'_>> {
        if let Some(tool) = self
            .built_in
            .iter()
            .find(|tool| tool.definition().name == name)
        {
            return Some(Target::BuiltIn(tool));
        }
        let mcp = self.mcp.as_ref()?;
        let found = mcp.registry.find(name)?;
        // A tool whose toolset is switched off is not there, even for a model that knows its name.
        let is_offered = |tool: &&Arc<RegisteredTool>| tool.name == found.name;
        let was_withdrawn = !found.is_offered;
        mcp.offered
            .iter()
            .find(is_offered)
            .or(was_withdrawn.then_some(found))
            .map(Target::Mcp)
    }

    /// What a call may run beside.
    pub fn company(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
        context: &ToolContext,
    ) -> Company {
        match self.find(name) {
            Some(Target::BuiltIn(tool)) => tool.company(arguments, context),
            Some(Target::Mcp(tool)) if tool.order == hermes_config::server::CallOrder::Parallel => {
                Company::Any
            }
            _ => Company::Alone,
        }
    }

    /// Calls a tool by name.
    pub async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        context: &ToolContext,
    ) -> ToolOutput {
        match (self.find(name), &self.mcp) {
            (Some(Target::BuiltIn(tool)), _) => tool.call(arguments, context).await,
            (Some(Target::Mcp(tool)), Some(mcp)) => {
                call_mcp(&mcp.host, tool, arguments, context).await
            }
            _ => ToolOutput::error(format!("Unknown tool: {name}")),
        }
    }
}

fn definition(tool: &RegisteredTool) -> ToolDefinition {
    ToolDefinition {
        name: tool.name.as_str().to_owned(),
        description: tool.description(),
        parameters: tool.parameters(),
    }
}

async fn call_mcp(
    host: &Host,
    tool: &RegisteredTool,
    arguments: Map<String, Value>,
    context: &ToolContext,
) -> ToolOutput {
    let progress = context.progress.clone();
    let options = CallOptions {
        conversation: Some(Conversation(context.session.clone())),
        cancel: context.cancel.clone(),
        on_progress: Some(Arc::new(move |news: &hermes_mcp::session::Progress| {
            progress(news.message.as_deref().unwrap_or_default());
        })),
        ..CallOptions::default()
    };
    let outcome = host.call_tool(tool, arguments, &options).await;
    let text = outcome.to_json();
    ToolOutput {
        is_error: outcome.is_error(),
        text: untrusted::wrap(tool.name.as_str(), text),
        may_be_persisted: true,
    }
}
