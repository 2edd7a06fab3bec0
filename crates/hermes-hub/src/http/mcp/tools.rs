//! The tools, built once from the operation table.

use std::sync::{Arc, LazyLock};

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::{
    api_types::Scopes,
    operations::{Effect, Idempotency, Operation, Output, RequiredAccess, Toolset, table},
    settings::{McpSettings, ToolChoice},
};

struct OfferedTool {
    operation: &'static Operation,
    tool: Tool,
}

static TOOLS: LazyLock<Vec<OfferedTool>> = LazyLock::new(|| {
    let tools = table()
        .rows()
        .filter(|operation| operation.toolset != Toolset::None);
    tools
        .map(|operation| OfferedTool {
            operation,
            tool: describe_tool(operation),
        })
        .collect()
});

/// The tools that a caller may use, in the order of the table.
pub(super) fn list_tools(mcp: &McpSettings, scopes: Scopes) -> Vec<Tool> {
    TOOLS
        .iter()
        .filter(|offered| {
            is_offered(offered.operation, mcp) && is_allowed(offered.operation, scopes)
        })
        .map(|offered| offered.tool.clone())
        .collect()
}

/// The operation of a tool, whatever the caller's rights are.
pub(super) fn find_tool(name: &str, mcp: &McpSettings) -> Option<&'static Operation> {
    table()
        .find(name)
        .filter(|operation| is_offered(operation, mcp))
}

fn is_offered(operation: &Operation, mcp: &McpSettings) -> bool {
    let is_chosen = match operation.toolset {
        Toolset::None => false,
        Toolset::Standard => true,
        Toolset::Extended => mcp.tools == ToolChoice::Extended,
    };
    is_chosen && (!mcp.read_only || operation.effect == Effect::Read)
}

fn is_allowed(operation: &Operation, scopes: Scopes) -> bool {
    match operation.access {
        RequiredAccess::Scope(scope) => scopes.contains(scope),
        RequiredAccess::Public | RequiredAccess::AnyToken => true,
    }
}

fn describe_tool(operation: &Operation) -> Tool {
    let annotations = ToolAnnotations::from_raw(
        Some(operation.title.to_owned()),
        Some(operation.effect == Effect::Read),
        Some(operation.effect == Effect::Destroy),
        Some(operation.idempotency == Idempotency::Idempotent),
        Some(operation.is_open_world),
    );
    let mut tool = Tool::new(
        operation.name,
        operation.description,
        Arc::new(operation.input.tool_schema().clone()),
    )
    .with_raw_output_schema(Arc::new(output_schema(&operation.output)))
    .with_annotations(annotations);
    tool.title = Some(operation.title.to_owned());
    tool
}

fn output_schema(output: &Output) -> Map<String, Value> {
    match output {
        Output::Json(schema) => schema.clone(),
        Output::Empty | Output::Events | Output::Bytes(_) => {
            let schema = json!({"type": "object", "properties": {"ok": {"const": true}}, "required": ["ok"]});
            schema.as_object().cloned().unwrap_or_default()
        }
    }
}
