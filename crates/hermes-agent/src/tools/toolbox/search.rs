//! Tool search: if the descriptions of all MCP tools would fill the model's context, it gets
//! `tool_search`, `tool_describe` and `tool_call` instead.

use std::sync::Arc;

use futures::future::BoxFuture;
use hermes_config::{ToolSearchMode, ToolSearchSettings};
use hermes_mcp::RegisteredTool;
use serde_json::{Map, Value, json};

use super::mcp;
use crate::{
    message::ToolCall,
    model::ToolDefinition,
    tools::tool::{Concurrency, Tool, ToolContext, ToolOutput},
};

mod index;

use index::ToolIndex;

pub(super) const SEARCH_TOOL_NAMES: [&str; 3] = [SEARCH, DESCRIBE, CALL];
const SEARCH: &str = "tool_search";
const DESCRIBE: &str = "tool_describe";
const CALL: &str = "tool_call";
const TOOLSET: &str = "tool_search";

/// The limit for descriptions, in tokens, if the context size is unknown.
const DEFAULT_TOKEN_LIMIT: f64 = 20_000.0;
/// How much of a description is searched and shown.
const MAX_DESCRIPTION_CHARS: usize = 400;

/// Whether a search replaces these tools.
pub(super) fn should_search(
    offered: &[Arc<RegisteredTool>],
    settings: &ToolSearchSettings,
    context_length: Option<u32>,
) -> bool {
    match settings.mode {
        ToolSearchMode::Off => false,
        ToolSearchMode::On => !offered.is_empty(),
        ToolSearchMode::Auto => {
            let limit = context_length.map_or(DEFAULT_TOKEN_LIMIT, |tokens| {
                f64::from(tokens) * settings.threshold_pct / 100.0
            });
            let characters: usize = offered.iter().map(|tool| definition_chars(tool)).sum();
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let tokens = characters as f64 / 4.0;
            !offered.is_empty() && tokens >= limit
        }
    }
}

fn definition_chars(tool: &RegisteredTool) -> usize {
    tool.definition().to_string().chars().count()
}

/// The three tools that replace all of these.
pub(super) fn search_tools(
    offered: Vec<Arc<RegisteredTool>>,
    settings: &ToolSearchSettings,
) -> [Arc<dyn Tool>; 3] {
    let offered: Arc<[Arc<RegisteredTool>]> = offered.into();
    let index = ToolIndex::new(offered.iter().map(|tool| index::tool_words(tool)));
    let search = ToolSearchTool {
        index,
        offered: offered.clone(),
        default_limit: to_usize(settings.search_default_limit),
        max_limit: to_usize(settings.max_search_limit),
    };
    [
        Arc::new(search),
        Arc::new(ToolDescribeTool { offered }),
        Arc::new(ToolCallTool),
    ]
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The call inside a `tool_call`, under the id of the outer one.
pub(super) fn inner_call(call: &ToolCall) -> Option<ToolCall> {
    if call.name != CALL {
        return None;
    }
    let outer = call.parse_arguments().ok()?;
    let name = outer.get("name")?.as_str().filter(|name| *name != CALL)?;
    let arguments = match outer.get("arguments") {
        None | Some(Value::Null) => "{}".to_owned(),
        // Some models write the object as a string.
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    Some(ToolCall::new(call.id.clone(), name, arguments))
}

struct ToolSearchTool {
    index: ToolIndex,
    offered: Arc<[Arc<RegisteredTool>]>,
    default_limit: usize,
    max_limit: usize,
}

impl ToolSearchTool {
    fn search(&self, arguments: &Map<String, Value>) -> ToolOutput {
        let query = arguments.get("query").and_then(Value::as_str);
        let Some(query) = query.map(str::trim).filter(|query| !query.is_empty()) else {
            return ToolOutput::error(
                "`query` is required: a few words about what the tool should do",
            );
        };
        let wanted = arguments.get("limit").and_then(|limit| match limit {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_u64(),
        });
        let limit = wanted.map_or(self.default_limit, |limit| {
            usize::try_from(limit).unwrap_or(usize::MAX)
        });
        let tools = self.index.search(query, limit.clamp(1, self.max_limit));
        let matches: Vec<Value> = tools
            .into_iter()
            .filter_map(|at| self.offered.get(at))
            .map(|tool| {
                json!({
                    "name": tool.name,
                    "source": "mcp",
                    "source_name": tool.server.as_str(),
                    "description": index::truncate_description(&tool.description()),
                })
            })
            .collect();
        ToolOutput::json(&json!({
            "query": query,
            "total_available": self.offered.len(),
            "matches": matches,
        }))
    }
}

impl Tool for ToolSearchTool {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: SEARCH.into(),
            description: format!(
                "Searches the {} tools of connected MCP servers, which are not listed here. Returns names and \
                 descriptions, best first; {DESCRIBE} shows the parameters of one, {CALL} calls it.",
                self.offered.len()
            )
            .into(),
            parameters: Arc::new(json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What the tool should do, in a few words"},
                    "limit": {"type": "integer", "description": "Number of matches", "default": self.default_limit, "minimum": 1, "maximum": self.max_limit},
                },
                "required": ["query"],
            })),
        }
    }

    fn toolset(&self) -> &'static str {
        TOOLSET
    }

    fn concurrency(&self, _arguments: &Map<String, Value>, _context: &ToolContext) -> Concurrency {
        Concurrency::Parallel
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        _context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move { self.search(&arguments) })
    }
}

struct ToolDescribeTool {
    offered: Arc<[Arc<RegisteredTool>]>,
}

impl Tool for ToolDescribeTool {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: DESCRIBE.into(),
            description: format!(
                "Describes one tool that {SEARCH} found: its whole description and its parameters."
            )
            .into(),
            parameters: Arc::new(json!({
                "type": "object",
                "properties": {"name": {"type": "string", "description": "The tool's name"}},
                "required": ["name"],
            })),
        }
    }

    fn toolset(&self) -> &'static str {
        TOOLSET
    }

    fn concurrency(&self, _arguments: &Map<String, Value>, _context: &ToolContext) -> Concurrency {
        Concurrency::Parallel
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        _context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        let name = arguments.get("name").and_then(Value::as_str);
        let name = name.unwrap_or_default();
        let mut offered = self.offered.iter();
        let output = match offered.find(|tool| tool.name.as_str() == name) {
            Some(tool) => {
                let known = mcp::definition(tool);
                ToolOutput::json(&json!({
                    "name": known.name, "description": &*known.description, "parameters": &*known.parameters,
                }))
            }
            None => ToolOutput::error(format!(
                "there is no tool `{name}`; {SEARCH} finds the names"
            )),
        };
        Box::pin(std::future::ready(output))
    }
}

/// Only invalid calls get here: valid ones were resolved to the call inside.
struct ToolCallTool;

impl Tool for ToolCallTool {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: CALL.into(),
            description: format!("Calls a tool that {SEARCH} found.").into(),
            parameters: Arc::new(json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "The tool's name"},
                    "arguments": {"type": "object", "description": "Its arguments, as its parameters describe them"},
                },
                "required": ["name", "arguments"],
            })),
        }
    }

    fn toolset(&self) -> &'static str {
        TOOLSET
    }

    fn call<'a>(
        &'a self,
        _arguments: Map<String, Value>,
        _context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        let output = ToolOutput::error(format!("`name` is required: a tool that {SEARCH} found"));
        Box::pin(std::future::ready(output))
    }
}
