//! The tools, built once from the operation table, and the result of a call, for both ways of sending it.

use std::sync::{Arc, LazyLock};

use hermes_serve::Era;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, Tool, ToolAnnotations};
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
            body: ToolResultBody::Problem(problem.to_document(id).to_json()),
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

    /// Writes the JSON that is sent, in one pass over the result: once as text, once as it is.
    pub(super) fn write_document(
        &self,
        era: Era,
        out: &mut Vec<u8>,
    ) -> Result<(), serde_json::Error> {
        out.extend_from_slice(match era {
            Era::Stateless => br#"{"resultType":"complete","content":[{"type":"text","text":"#,
            Era::Legacy => br#"{"content":[{"type":"text","text":"#,
        });
        write_json_string(self.text(), out)?;
        out.extend_from_slice(b"}]");
        if !self.is_error() {
            out.extend_from_slice(br#","structuredContent":"#);
            out.extend_from_slice(self.text().as_bytes());
        }
        out.extend_from_slice(if self.is_error() {
            br#","isError":true"#
        } else {
            br#","isError":false"#
        });
        if self.is_untrusted {
            out.extend_from_slice(b",\"_meta\":{\"");
            out.extend_from_slice(UNTRUSTED_KEY.as_bytes());
            out.extend_from_slice(b"\":true}");
        }
        out.push(b'}');
        Ok(())
    }
}

/// Writes a text as a JSON string. Documents consist of quotes to a tenth, so that copying what is between them is slower
/// than this.
fn write_json_string(text: &str, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    let start = out.len();
    out.resize(start + 2 * text.len() + 2, b'"');
    let room = &mut out[start..];
    let mut end = 1;
    let mut has_control = false;
    for byte in text.bytes() {
        has_control |= byte < b' ';
        room[end] = b'\\';
        end += usize::from(byte == b'"' || byte == b'\\');
        room[end] = byte;
        end += 1;
    }
    room[end] = b'"';
    out.truncate(start + end + 1);
    if has_control {
        // Rare, and more to know about.
        out.truncate(start);
        serde_json::to_writer(out, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_written_as_serde_json_writes_it() {
        for text in [
            "",
            "a",
            "\"",
            "\\",
            "{\"a\": \"\\n\"}",
            "\n\t\u{0}\u{1f}\u{7f}",
            "äöü\u{1f600}\u{2028}",
        ] {
            let mut out = b"before".to_vec();
            write_json_string(text, &mut out).unwrap();
            let expected = format!("before{}", serde_json::to_string(text).unwrap());
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn a_result_is_sent_as_the_protocol_library_would_send_it() {
        let document = |text: &str| {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            ToolResultBody::Document(raw.into())
        };
        for body in [
            document(r#"{"a":["\"",{}],"b":"ä\n"}"#),
            ToolResultBody::Empty,
            ToolResultBody::Problem(r#"{"code":"not_found"}"#.into()),
        ] {
            let is_error = matches!(body, ToolResultBody::Problem(_));
            let result = ToolResult {
                body,
                is_untrusted: !is_error,
            };
            let mut out = Vec::new();
            result.write_document(Era::Legacy, &mut out).unwrap();
            let sent: Value = serde_json::from_slice(&out).unwrap();
            let mut expected = serde_json::to_value(result.to_result()).unwrap();
            // The stateless era alone has it.
            expected.as_object_mut().unwrap().shift_remove("resultType");
            assert_eq!(sent, expected);
            out.clear();
            result.write_document(Era::Stateless, &mut out).unwrap();
            let sent: Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(sent["resultType"], "complete");
        }
    }
}
