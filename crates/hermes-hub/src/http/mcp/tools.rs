//! The tools, built once from the operation table, and the result of a call, for both ways of sending it.

use std::sync::{Arc, LazyLock};

use hermes_mcp::Era;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, Tool, ToolAnnotations};
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    Problem,
    api_types::Scopes,
    operations::{Effect, Idempotency, Operation, Output, RequiredAccess, Toolset, table},
    service::call::ReplyBody,
    settings::{McpSettings, ToolChoice},
};

const UNTRUSTED_KEY: &str = "hermes.hub/untrusted";
/// The contract requires exactly this spelling.
const EMPTY_RESULT: &str = r#"{"ok": true}"#;

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

pub(super) struct ToolResult {
    body: ToolResultBody,
    is_untrusted: bool,
}

enum ToolResultBody {
    Document(Arc<RawValue>),
    Empty,
    /// The problem's document. It is not sent as structured content, which would have to match the tool's output
    /// schema.
    Problem(String),
}

impl ToolResult {
    pub(super) fn success(operation: &Operation, body: ReplyBody) -> Self {
        let result_body = match body {
            ReplyBody::Json(document) => ToolResultBody::Document(document),
            ReplyBody::Empty | ReplyBody::Events(_) | ReplyBody::Bytes(..) => ToolResultBody::Empty,
        };
        Self {
            body: result_body,
            is_untrusted: operation.is_untrusted,
        }
    }

    pub(super) fn failure(problem: &Problem, id: &str) -> Self {
        Self {
            body: ToolResultBody::Problem(problem.to_document(id).to_string()),
            is_untrusted: false,
        }
    }

    fn text(&self) -> &str {
        match &self.body {
            ToolResultBody::Document(document) => document.get(),
            ToolResultBody::Empty => EMPTY_RESULT,
            ToolResultBody::Problem(problem) => problem,
        }
    }

    /// Approximate size when sent: once as text with escaped quotes, once as structured content.
    pub(super) fn size(&self) -> usize {
        const AROUND: usize = 256;
        let text = self.text().len();
        AROUND + text + text + text / 4
    }

    fn is_error(&self) -> bool {
        matches!(self.body, ToolResultBody::Problem(_))
    }

    /// As rmcp's type.
    pub(super) fn to_result(&self) -> CallToolResult {
        let content = vec![ContentBlock::text(self.text())];
        if self.is_error() {
            return CallToolResult::error(content);
        }
        let mut result = CallToolResult::success(content);
        result.structured_content = serde_json::from_str(self.text()).ok();
        if self.is_untrusted {
            let mut meta = MetaObject::default();
            meta.insert(UNTRUSTED_KEY.to_owned(), true.into());
            result.meta = Some(meta);
        }
        result
    }

    /// As the JSON that is sent.
    pub(super) fn to_document(&self, era: Era) -> ResultDocument<'_> {
        ResultDocument {
            result_type: (era == Era::Stateless).then_some("complete"),
            content: [TextBlock {
                kind: "text",
                text: self.text(),
            }],
            structured_content: match &self.body {
                ToolResultBody::Document(document) => Some(document),
                ToolResultBody::Empty => serde_json::from_str(EMPTY_RESULT).ok(),
                ToolResultBody::Problem(_) => None,
            },
            is_error: self.is_error(),
            meta: self
                .is_untrusted
                .then_some(ResultMeta { is_untrusted: true }),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResultDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<&'static str>,
    content: [TextBlock<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a RawValue>,
    is_error: bool,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<ResultMeta>,
}

#[derive(Serialize)]
struct TextBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct ResultMeta {
    #[serde(rename = "hermes.hub/untrusted")]
    is_untrusted: bool,
}
